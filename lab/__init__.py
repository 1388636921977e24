"""The names an experiment's author imports."""

from lab.definition import Case, Claim, Experiment, Operator, Profile

__all__ = ["Case", "Claim", "Experiment", "Operator", "Profile"]
