"""The names an experiment's author imports."""

from lab.definition.asked import in_graph
from lab.definition.experiment import EDGES, Case, Claim, Experiment, Operator, Output, Profile
from lab.definition.search import Tunable, beats_the_rule, launched_as, launched_by_rule

__all__ = [
    "EDGES", "Case", "Claim", "Experiment", "Operator", "Output", "Profile",
    "Tunable", "beats_the_rule", "in_graph", "launched_as", "launched_by_rule",
]  # fmt: skip
