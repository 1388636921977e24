"""The names that an author imports, and those that a notebook does. Nothing heavy is loaded until it is used."""

from typing import TYPE_CHECKING, Any

from lab.definition.breakdown import Breakdown, BreakdownRow
from lab.definition.claim_words import in_graph
from lab.definition.default_inputs import randn
from lab.definition.experiment import EDGES, Case, Claim, Experiment, Operator, Output, Profile
from lab.definition.search import Tunable, beats_the_rule, launched_as, launched_by_rule
from lab.definition.short import experiment
from lab.definition.tokens import Tokens
from lab.kernels.traffic import Traffic

if TYPE_CHECKING:
    from lab.notebook import Run, load

__all__ = [
    "EDGES", "Breakdown", "BreakdownRow", "Case", "Claim", "Experiment", "Operator", "Output", "Profile", "Run",
    "Tokens", "Traffic", "Tunable", "beats_the_rule", "experiment", "in_graph", "launched_as", "launched_by_rule",
    "load", "randn",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`lab.load` and `lab.Run` judge runs, which takes numpy and more."""
    if name in ("Run", "load"):
        from lab import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'lab' has no attribute {name!r}")
