"""What kernels should save in a whole model: which cases of an experiment are parts of which other case.

The project names them in `experiments/breakdowns.py`. They are no part of a plan: they say how cases that were measured
belong together, and change no measurement.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakdownRow:
    """Something in the model that a kernel replaces."""

    title: str
    case: str  # in which it is measured alone
    calls: int  # of it in one call of the model
    profile: str  # with the kernel, at that case
    alone: str = ""  # the model in which only this is replaced, if it was measured
    added: bool = False  # whether it is in the model with every kernel, and no other such row contains it


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakdown:
    """The model at `case`: as `baseline`, a name that parts have too, and with every kernel as `together`. `whole`:
    the rows that are added make up all of the model."""

    experiment: str
    case: str
    baseline: str
    together: str
    rows: tuple[BreakdownRow, ...]
    whole: bool = False
