"""A judged run → named numbers for charts, in the unit that each name ends in, five significant digits. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.evidence.record import Counters
from lab.tracking.report import geomean
from lab.verdict.call import call_of
from lab.verdict.ceilings import light
from lab.verdict.cells import CellResult
from lab.verdict.judge import Status
from lab.verdict.ranking import baselines
from lab.verdict.results import ExperimentResult, RunResult

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
        if gain := geomean(result):
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


def curves(experiment: ExperimentResult) -> Iterator[Measure]:
    """p50 over problem size, with KiB of least traffic as the step."""
    wanted = {key for keys in curve_keys(experiment.plan).values() for key in keys}
    for case in experiment.plan.included_cases:
        for cell in experiment.measured(case.name):
            key = _curve_key(case, cell.profile)
            if cell.latency and key in wanted:
                p50_us = rounded(cell.latency.p50_seconds * 1e6)
                yield Measure(key=key, value=p50_us, utc=last_utc(cell), step=case.least_bytes // 1024)


def curve_keys(plan: PlannedExperiment) -> dict[str, list[str]]:
    """The keys of `curves` by operator and dtype, where those have several sizes."""
    names = [_series(case) for case in plan.cases]
    return {
        _series(case): [_curve_key(case, profile.name) for profile in plan.profiles_of(case)]
        for case in plan.cases
        if names.count(_series(case)) > 1
    }


def cell_measures(run: RunResult, experiment: ExperimentResult, cell: CellResult) -> Iterator[Measure]:
    """Latency, noise, speed-up over each baseline, throughput, nearness to the run's ceilings and counters, as far as
    they were measured."""
    case = next(case for case in experiment.plan.cases if case.name == cell.case)
    values = _values(experiment, cell) | _limits(run, case, cell) | _counter_values(case, cell.counters)
    for key, value in values.items():
        yield Measure(key=key, value=rounded(value), utc=last_utc(cell))


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
        values["latency/p50_us"] = cell.latency.p50_seconds * 1e6
        if cell.latency.p95_seconds is not None and cell.latency.noise_ratio is not None:
            values["latency/p95_us"] = cell.latency.p95_seconds * 1e6
            values["noise/ratio"] = cell.latency.noise_ratio
        values["noise/sweep_spread_pct"] = cell.latency.between_sweep_spread * 100
        for baseline in baselines(experiment):
            speedup = experiment.compare(cell.case, cell.profile, baseline)
            if speedup and baseline != cell.profile and experiment.cells[cell.case, baseline].latency:
                values[f"speedup/vs_{baseline}"] = speedup.ratio
    if cell.bytes_per_second is not None:
        values["throughput/gbps"] = cell.bytes_per_second / 1e9
    return values


def _limits(run: RunResult, case: PlannedCase, cell: CellResult) -> dict[str, float]:
    found = light(case, cell, run.ceilings)
    if found is None:
        return {}
    return {"limits/attained_fraction": found.attained, "limits/distance_us": found.distance_seconds * 1e6}


def _counter_values(case: PlannedCase, counters: Counters | None) -> dict[str, float]:
    """Of the kernels of one call: sums of bytes, percentages weighted by each kernel's duration.

    A counter that one of the kernels lacks is left out: a part of the call would be taken for all of it.
    """
    call = call_of(counters)
    if call is None:
        return {}
    values = {
        "ncu/dram_pct": call.dram_percent,
        "ncu/occupancy_pct": call.occupancy_percent,
        "ncu/theoretical_occupancy_pct": call.theoretical_occupancy_percent,
        "ncu/l2_hit_pct": call.l2_hit_percent,
        "ncu/sm_pct": call.sm_percent,
        "ncu/dram_read_mb": _scaled(call.dram_read_bytes, 1e6),
        "ncu/dram_written_mb": _scaled(call.dram_written_bytes, 1e6),
        "ncu/traffic_ratio": _scaled(call.dram_bytes, case.least_bytes),
        "ncu/kernels": float(call.launches),
    }
    return {key: value for key, value in values.items() if value is not None}


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _series(case: PlannedCase) -> str:
    return f"{case.op}-{case.dtype}"


def _curve_key(case: PlannedCase, profile: str) -> str:
    return f"p50_us_by_kib {_series(case)}/{profile}"
