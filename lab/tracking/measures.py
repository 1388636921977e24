"""A judged run → named numbers for charts, in the unit that each name ends in, five significant digits. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.evidence.record import Counters
from lab.quantities import tracked, unit_of
from lab.tracking.sizes import sizes
from lab.verdict.call_counters import call_of
from lab.verdict.ceilings import ceiling_gap
from lab.verdict.cells import CellResult
from lab.verdict.judge import Status
from lab.verdict.ranking import baselines
from lab.verdict.results import ExperimentResult, RunResult

P50_BY_PROFILE = "p50_us"
P50_BY_KIB = "p50_us_by_kib"
OUTCOMES = ("measured", "skipped", "failed", "wrong", "crashed", "unfinished")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One value, and when it was measured; `step` is 0, or the problem size on a curve."""

    key: str
    value: float
    utc: str
    step: int = 0


def headlines(run: RunResult, experiment: ExperimentResult) -> Iterator[Measure]:
    """Geometric mean of each claim over the cases that were judged, and how claims and cells went."""
    utc = run.finished_utc or max(last_utc(cell) for cell in experiment.cells.values() if cell.cells)
    for result in experiment.claims:
        if gain := result.geometric_mean:
            yield Measure(key=f"{result.claim.measure}_geomean/{result.claim.name}", value=rounded(gain), utc=utc)
    for status in Status:
        count = sum(result.status == status for result in experiment.claims)
        yield Measure(key=f"claims/{status}", value=count, utc=utc)
    planned = [experiment.cells[case.name, profile.name] for case, profile in experiment.plan.cells()]
    for outcome in OUTCOMES:
        yield Measure(key=f"cells/{outcome}", value=sum(cell.outcome == outcome for cell in planned), utc=utc)
    noises = [c.latency.noise_ratio for c in planned if c.latency and c.latency.noise_ratio is not None]
    if noises:
        yield Measure(key="noise/max_ratio", value=rounded(max(noises)), utc=utc)


def p50_key(profile: str) -> str:
    """p50 under its profile's name: a chart of several keys has a colour for each."""
    return f"{P50_BY_PROFILE}/{profile}"


def speedup_key(baseline: str, profile: str) -> str:
    """The speed-up over a baseline, under its profile's name."""
    return f"speedup_vs_{baseline}/{profile}"


def headline_baselines(plan: PlannedExperiment) -> tuple[str, ...]:
    """The profiles that the headline claims compare times with."""
    claims = [claim for claim in plan.claims if claim.name in plan.headlines and claim.measure == "speedup"]
    return tuple(dict.fromkeys(claim.baseline for claim in claims if claim.baseline))


def curve_keys(plan: PlannedExperiment) -> dict[str, str]:
    """The key of p50 over problem size by operator and dtype, where those have several sizes."""
    names = [_series(case) for case in plan.included_cases]
    return {name: f"{P50_BY_KIB}/{name}" for name in dict.fromkeys(names) if names.count(name) > 1}


def cell_measures(run: RunResult, experiment: ExperimentResult, cell: CellResult) -> Iterator[Measure]:
    """Latency, noise, speed-up over each baseline, throughput, nearness to the run's ceilings and counters, as far as
    they were measured; then the case's size, by which lists can be sorted and cut, as they cannot by a param."""
    case = next(case for case in experiment.plan.cases if case.name == cell.case)
    utc = last_utc(cell)
    values = _values(experiment, cell) | _limits(run, case, cell) | _counter_values(case, cell.counters)
    for key, value in values.items():
        yield Measure(key=key, value=rounded(value), utc=utc)
    if cell.latency:
        p50_us = rounded(cell.latency.p50_seconds * 1e6)
        yield Measure(key=p50_key(cell.profile), value=p50_us, utc=utc)
        for baseline in headline_baselines(experiment.plan):
            if ratio := values.get(f"speedup/vs_{baseline}"):
                yield Measure(key=speedup_key(baseline, cell.profile), value=rounded(ratio), utc=utc)
        if curve := curve_keys(experiment.plan).get(_series(case)):
            yield Measure(key=curve, value=p50_us, utc=utc, step=case.least_bytes // 1024)
    for name, size in sizes(case).items():
        yield Measure(key=f"size/{name}", value=size, utc=utc)


def rounded(value: float) -> float:
    """Five significant digits: the UI prints every digit that it is given."""
    return float(f"{value:.5g}")


def milliseconds(utc: str) -> int:
    """A record's UTC time in milliseconds since 1970."""
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)


def last_utc(cell: CellResult) -> str:
    """When the last sweep of a tried cell was done with it."""
    return max(record.finished_utc for record in cell.cells)


def _values(experiment: ExperimentResult, cell: CellResult) -> dict[str, float]:
    values: dict[str, float] = {}
    if cell.latency:
        values |= _named("latency", {"p50_seconds": cell.latency.p50_seconds})
        if cell.latency.p95_seconds is not None and cell.latency.noise_ratio is not None:
            values |= _named("latency", {"p95_seconds": cell.latency.p95_seconds})
            values |= _named("noise", {"ratio": cell.latency.noise_ratio})
        values |= _named("noise", {"sweep_spread_share": cell.latency.between_sweep_spread})
        for baseline in baselines(experiment):
            speedup = experiment.compare(cell.case, cell.profile, baseline)
            if speedup and baseline != cell.profile and experiment.cells[cell.case, baseline].latency:
                values[f"speedup/vs_{baseline}"] = speedup.ratio
    if cell.sustained:
        lasting = {"seconds": cell.sustained.seconds, "flops_per_second": cell.sustained.flops_per_second}
        values |= _named("sustained", lasting)
    return values | _named("throughput", {"bytes_per_second": cell.bytes_per_second})


def _limits(run: RunResult, case: PlannedCase, cell: CellResult) -> dict[str, float]:
    gap = ceiling_gap(case, cell, run.ceilings)
    if gap is None:
        return {}
    return {"limits/attained_fraction": gap.attained} | _named("limits", {"distance_seconds": gap.distance_seconds})


def _counter_values(case: PlannedCase, counters: Counters | None) -> dict[str, float]:
    """Of the kernels of one call: sums of bytes, percentages weighted by each kernel's duration.

    A counter that one of the kernels lacks is left out: a part of the call would be taken for all of it.
    """
    call = call_of(counters)
    if call is None:
        return {}
    traffic = None if call.dram_bytes is None else call.dram_bytes / case.least_bytes
    return _named("ncu", {**call.counters, "traffic_ratio": traffic, "kernels": call.launches})


def _named(group: str, data: Mapping[str, float | None]) -> dict[str, float]:
    """Data as metrics of MLflow: under the names and in the units of lab.quantities."""
    return {tracked(group, key): value * unit_of(key).factor for key, value in data.items() if value is not None}


def _series(case: PlannedCase) -> str:
    return f"{case.op}-{case.dtype}"
