"""A cell's time in one run beside its time in another, on the same machine. Pure; the unit is the sweep."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.verdict.statistics import SMALLEST_HALF_WIDTH, Floats, t_quantile


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """Newer time over older, and its 95 % interval."""

    ratio: float
    low: float
    high: float


def shift(older: Sequence[float], newer: Sequence[float]) -> Shift | None:
    """The ratio of the geometric means of two runs' sweep medians, with Welch's interval over their sweeps.

    None where a run has fewer than two sweeps. The interval leaves out how a machine
    differs from day to day, which no single run shows.
    """
    if len(older) < 2 or len(newer) < 2:
        return None
    before, after = np.log(np.asarray(older)), np.log(np.asarray(newer))
    centre = float(after.mean() - before.mean())
    half_width = max(_half_width(before, after), SMALLEST_HALF_WIDTH)
    return Shift(ratio=math.exp(centre), low=math.exp(centre - half_width), high=math.exp(centre + half_width))


def _half_width(before: Floats, after: Floats) -> float:
    errors = [float(values.var(ddof=1)) / values.size for values in (before, after)]
    if not sum(errors):
        return 0.0
    freedom = sum(errors) ** 2 / sum(
        error**2 / (values.size - 1) for error, values in zip(errors, (before, after), strict=True)
    )
    return t_quantile(freedom) * math.sqrt(sum(errors))
