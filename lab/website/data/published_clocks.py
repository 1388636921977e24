"""The same comparison by other clocks: a verdict depends on what the clock covers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from lab.definition.plan import PlannedClaim
from lab.evidence.record import Reading
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.cells import SCOPE
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import Speedup
from lab.website.data.typed import taken

DIRTY = "device_dirty"
LONG_SECONDS = 30e-6  # from here on, what a busy host adds to a time is less than 2 %
APART = 0.01  # of a ratio: more than a page's digits hide
INSTRUMENTS = {"dirty_flush": DIRTY_FLUSH, "do_bench": DO_BENCH, "nvbench": NVBENCH}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockRatio:
    """An interval only where it is of the run's own samples: another instrument makes one pass."""

    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockData:
    """What other clocks say of a pair that a claim compares in device_cold; only what any of them has timed."""

    device_dirty: ClockRatio | None = None
    dirty_flush: ClockRatio | None = None
    do_bench: ClockRatio | None = None
    nvbench: ClockRatio | None = None
    turned: Annotated[list[str], "By which the ratio lies on the other side of the threshold."]


def clocks_data(result: ExperimentResult) -> dict[str, dict[str, ClockData]]:
    """By case and claim."""
    readings = {
        (each.case, each.profile, each.instrument): each.seconds
        for each in result.records
        if isinstance(each, Reading) and each.seconds
    }
    by_case: dict[str, dict[str, ClockData]] = {}
    for judged in result.claims:
        claim = judged.claim
        if claim.measure == "speedup" and claim.scope == SCOPE:
            for case, verdict in judged.verdicts.items():
                others = _others(result, readings, claim, case)
                if verdict.speedup and others:
                    turned = [name for name, each in others.items() if _turned(each, verdict.speedup, claim)]
                    by_case.setdefault(case, {})[claim.name] = ClockData(**others, turned=turned)
    return by_case


def _others(
    result: ExperimentResult, readings: Mapping[tuple[str, str, str], float], claim: PlannedClaim, case: str
) -> dict[str, ClockRatio]:
    others: dict[str, ClockRatio] = {}
    if DIRTY in result.plan.scopes and (dirty := result.compare(case, claim.subject, claim.baseline, DIRTY)):
        others[DIRTY] = taken(ClockRatio, dirty)
    for name, instrument in INSTRUMENTS.items():
        sides = [readings.get((case, profile, instrument)) for profile in (claim.baseline, claim.subject)]
        if sides[0] and sides[1]:
            others[name] = ClockRatio(ratio=sides[0] / sides[1])
    return others


def _turned(other: ClockRatio, ours: Speedup, claim: PlannedClaim) -> bool:
    return (other.ratio >= claim.threshold) != (ours.ratio >= claim.threshold)


def quotient(
    result: ExperimentResult, case: str, subject: str, baseline: str, speedup: Speedup | None, scope: str = SCOPE
) -> float | None:
    """The quotient of the two medians that a page shows, where a reader would see that it is not the ratio.

    A ratio is the mean over all sweeps, of rounds that were timed one after the other. A median of medians leaves out
    the sweeps that were slower or faster than most.
    """
    if speedup is None:
        return None
    sides = [result.cells[case, name].latencies.get(scope) for name in (baseline, subject)]
    if sides[0] is None or sides[1] is None:
        return None
    medians = sides[0].p50_seconds / sides[1].p50_seconds
    return medians if apart(medians, speedup.ratio) else None


def apart(medians: float, ratio: float, by: float = APART) -> bool:
    """Whether the quotient of two medians is another number than the ratio, to a reader; `by` is a share of it."""
    return abs(medians / ratio - 1) > by


def is_lengthened(seconds: float) -> bool:
    """Whether what a host adds to a time, if it goes on enqueuing meanwhile, is a clear part of it."""
    return seconds < LONG_SECONDS
