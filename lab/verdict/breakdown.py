"""What kernels should save in a whole model, from their own times, beside what the model gained. Pure.

Predicted is calls × (time before − time with the kernel), with the kernel's own interval; measured is the model's time
before × (1 − 1 / speed-up). Times of one process are compared, in GPU time with nothing in the cache.

Of what makes the two differ, records tell two things: the GPU's clock while the model and its parts ran; and, where the
parts make up the whole model, how much longer they take alone, on each side.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.definition.breakdown import Breakdown, BreakdownRow
from lab.verdict.cells import SCOPE
from lab.verdict.results import ExperimentResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """Seconds of one call of the model, with their interval."""

    seconds: float
    low_seconds: float
    high_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RowResult:
    row: BreakdownRow
    baseline_seconds: float
    subject_seconds: float
    predicted: Saved
    measured: Saved | None  # None where no model has this kernel alone
    clock_hertz: float | None  # of the GPU while the part ran; None where nobody told


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakdownResult:
    """`predicted`: the sum of the rows that are added. `gap`: measured less predicted. `clock_hertz`: of the GPU while
    the model ran, as of a row."""

    breakdown: Breakdown
    seconds: float  # of the model without kernels
    rows: tuple[RowResult, ...]
    predicted: Saved
    measured: Saved
    clock_hertz: float | None

    @property
    def gap(self) -> Saved:
        return _sum([self.measured, _negative(self.predicted)])

    @property
    def clock_seconds(self) -> float | None:
        """What the model would save beyond the prediction if all that the parts save took longer there as the clock is
        lower; None where a clock is not known."""
        seconds = 0.0
        for row in self._added:
            if not row.clock_hertz or not self.clock_hertz:
                return None
            seconds += row.predicted.seconds * (row.clock_hertz / self.clock_hertz - 1)
        return seconds

    @property
    def excess_before_seconds(self) -> float | None:
        """How much longer the parts alone take than the model without kernels; None where they are not all of it."""
        if not self.breakdown.whole:
            return None
        return sum(row.row.calls * row.baseline_seconds for row in self._added) - self.seconds

    @property
    def excess_after_seconds(self) -> float | None:
        """The same with kernels: more than before by the gap."""
        before = self.excess_before_seconds
        return None if before is None else before + self.gap.seconds

    @property
    def _added(self) -> list[RowResult]:
        return [row for row in self.rows if row.row.added]

    @property
    def predicted_ratio(self) -> float:
        """How many times as fast the model should be."""
        return self.seconds / (self.seconds - self.predicted.seconds)

    @property
    def measured_ratio(self) -> float:
        return self.seconds / (self.seconds - self.measured.seconds)

    @property
    def agrees(self) -> bool:
        """Whether the two intervals meet."""
        return self.predicted.low_seconds <= self.measured.high_seconds and (
            self.measured.low_seconds <= self.predicted.high_seconds
        )


def break_down(result: ExperimentResult, breakdown: Breakdown) -> BreakdownResult | None:
    """None unless the model and every part that is added were measured."""
    whole = _saved(result, breakdown.case, breakdown.together, breakdown.baseline)
    rows = [row for each in breakdown.rows if (row := _row(result, breakdown, each))]
    if whole is None or {row.row for row in rows if row.row.added} != {row for row in breakdown.rows if row.added}:
        return None
    return BreakdownResult(
        breakdown=breakdown,
        seconds=_seconds(result, breakdown.case, breakdown.baseline),
        rows=tuple(rows),
        predicted=_sum([row.predicted for row in rows if row.row.added]),
        measured=whole,
        clock_hertz=_clock_hertz(result, breakdown.case),
    )


def _row(result: ExperimentResult, breakdown: Breakdown, row: BreakdownRow) -> RowResult | None:
    saved = _saved(result, row.case, row.profile, breakdown.baseline)
    if saved is None:
        return None
    return RowResult(
        row=row,
        baseline_seconds=_seconds(result, row.case, breakdown.baseline),
        subject_seconds=_seconds(result, row.case, row.profile),
        predicted=Saved(
            seconds=row.calls * saved.seconds,
            low_seconds=row.calls * saved.low_seconds,
            high_seconds=row.calls * saved.high_seconds,
        ),
        measured=_saved(result, breakdown.case, row.alone, breakdown.baseline) if row.alone else None,
        clock_hertz=_clock_hertz(result, row.case),
    )


def _saved(result: ExperimentResult, case: str, subject: str, baseline: str) -> Saved | None:
    """By one call; None where either has no possible time, or too few sweeps hold both."""
    sides = [result.cells.get((case, name)) for name in (subject, baseline)]
    if not all(cell and cell.latency and not cell.impossible.get(SCOPE) for cell in sides):
        return None
    speedup = result.compare(case, subject, baseline)
    if speedup is None:
        return None
    whole = _seconds(result, case, baseline)
    seconds, low, high = (whole * (1 - 1 / ratio) for ratio in (speedup.ratio, speedup.low, speedup.high))
    return Saved(seconds=seconds, low_seconds=low, high_seconds=high)


def _seconds(result: ExperimentResult, case: str, profile: str) -> float:
    return result.cells[case, profile].latencies[SCOPE].p50_seconds


def _clock_hertz(result: ExperimentResult, case: str) -> float | None:
    """The median over the rounds of a case, each with the lowest clock of its spins."""
    rounds = [seen for watch in result.watches.get(case, ()) for seen in watch.rounds]
    return statistics.median([hertz for seen in rounds if (hertz := seen.spin_hertz)] or [0.0]) or None


def _negative(saved: Saved) -> Saved:
    return Saved(seconds=-saved.seconds, low_seconds=-saved.high_seconds, high_seconds=-saved.low_seconds)


def _sum(parts: Sequence[Saved]) -> Saved:
    """Of parts that were measured apart, so that their errors are independent."""
    seconds = sum(part.seconds for part in parts)
    below, above = (
        math.sqrt(sum(error**2 for error in errors))
        for errors in (
            [part.seconds - part.low_seconds for part in parts],
            [part.high_seconds - part.seconds for part in parts],
        )
    )
    return Saved(seconds=seconds, low_seconds=seconds - below, high_seconds=seconds + above)
