"""Speed-ups with their intervals: of each implementation against each other, and an eager one split into its parts."""

from dataclasses import dataclass

from lab.verdict.results import ExperimentResult
from lab.website.data.published_clocks import quotient
from lab.website.data.typed import taken


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Time of the baseline over time of the subject, with its 95 % interval over sweeps."""

    ratio: float
    low: float
    high: float
    quotient_of_medians: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitData:
    """An eager speed-up is its device's part times its launch's."""

    end_to_end: Interval
    device: Interval
    launch: Interval


def against_data(result: ExperimentResult, case: str) -> dict[str, dict[str, Interval | None]]:
    """Each against each other."""
    names = [profile.name for profile in result.measured_profiles(case)]
    return {one: {other: _speedup(result, case, one, other) for other in names if other != one} for one in names}


def _speedup(result: ExperimentResult, case: str, subject: str, baseline: str) -> Interval | None:
    speedup = result.compare(case, subject, baseline)
    medians = quotient(result, case, subject, baseline, speedup)
    return taken(Interval, speedup, quotient_of_medians=medians) if speedup else None


def splits_data(result: ExperimentResult, case: str) -> dict[str, SplitData]:
    """Of each headline claim."""
    splits = {}
    for claim in result.plan.claims:
        if claim.name in result.plan.headlines and case in claim.cases and claim.measure == "speedup":
            split = result.split(case, claim.subject, claim.baseline)
            if split:
                parts = {name: taken(Interval, getattr(split, name)) for name in ("end_to_end", "device", "launch")}
                splits[claim.name] = SplitData(**parts)
    return splits
