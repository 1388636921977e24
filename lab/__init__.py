"""The names an experiment's author imports."""

from lab.definition.experiment import EDGES, Case, Claim, Experiment, Operator, Output, Profile

__all__ = ["EDGES", "Case", "Claim", "Experiment", "Operator", "Output", "Profile"]
