"""What was measured of each cell, and who stands where at a case, as the data behind a page."""

from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.evidence.record import Cell
from lab.verdict.cells import CellResult
from lab.verdict.ranking import rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.website.data.published_counters import compiled_data, counters_data, traffic_data
from lab.website.data.published_draws import draws_data
from lab.website.data.rounding import rounded


def cell_data(case: PlannedCase, profile: PlannedProfile, cell: CellResult, run: RunResult | None) -> dict[str, Any]:
    data: dict[str, Any] = {"outcome": cell.outcome, "reason": cell.reason}
    if cell.latency:
        data |= {
            "p50_seconds": rounded(cell.latency.p50_seconds),
            "p95_seconds": rounded(cell.latency.p95_seconds),
            "noise_ratio": rounded(cell.latency.noise_ratio),
            "between_sweep_spread": rounded(cell.latency.between_sweep_spread),
            "sweep_p50_seconds": [rounded(value) for value in cell.latency.sweep_p50_seconds],
            "samples": cell.latency.samples,
            "sweeps": len(cell.latency.sweep_p50_seconds),
            "scopes": {scope: _latency(cell, scope) for scope in cell.latencies},
            "unmeasured": dict(cell.unmeasured),
            "void_share": rounded(cell.void_share),
            "bytes_per_second": rounded(cell.bytes_per_second),
            "enqueue_seconds": rounded(cell.enqueue_seconds),
            "prepare_seconds": rounded(cell.prepare_seconds),
            "peak_memory_bytes": _peak_memory(cell),
            "launch_bound": cell.launch_bound,
            "host_bound": cell.host_bound,
            "impossible": {scope: why for scope, why in cell.impossible.items() if why},
        }
    if cell.correctness:
        data |= {
            "worst_absolute_error": rounded(max(c.worst_absolute_error for c in cell.correctness)),
            "worst_tolerance_share": rounded(max(c.worst_tolerance_share for c in cell.correctness)),
            "edges": {edge.name: edge.outcome for c in cell.correctness for edge in c.edges},
            "correctness_checks": sum(len(c.seeds) + 1 for c in cell.correctness),
        }
    if cell.counters:
        data["counters"] = counters_data(cell.counters)
    if run and (traffic := traffic_data(case, cell, run.machine)):
        data["traffic"] = traffic
    if compiled := compiled_data(cell):
        data["compiled"] = compiled
    if run and (draws := draws_data(profile, cell, run)):
        data["draws"] = draws
    return data


def _peak_memory(cell: CellResult) -> int | None:
    """The most that one call allocated in any sweep; None on a CPU, and of runs that did not ask."""
    return max((each.peak_memory_bytes for each in cell.cells if each.peak_memory_bytes is not None), default=None)


def _latency(cell: CellResult, scope: str) -> dict[str, Any]:
    found = cell.latencies[scope]
    return {
        "p50_seconds": rounded(found.p50_seconds),
        "p95_seconds": rounded(found.p95_seconds),
        "noise_ratio": rounded(found.noise_ratio),
        "samples": found.samples,
        "void_share": rounded(cell.void_shares.get(scope, 0.0)),
    }


def places_data(result: ExperimentResult, case: str, scope: str) -> list[dict[str, Any]]:
    """Who stands where at a case, the fastest first; see lab.verdict.ranking.Place."""
    return [
        {
            "profile": profile,
            "rank": place.rank,
            "times_fastest": rounded(place.times_fastest),
            "level": place.level,
            "proven": place.proven,
        }
        for profile, place in rank(result, case, scope).items()
    ]


def measured_data(experiment: str, run: RunResult) -> dict[str, list[str]]:
    """By case, every profile that any sweep of the run measured for this experiment."""
    found: dict[str, dict[str, None]] = {}
    for record in run.records:
        if isinstance(record, Cell) and record.experiment == experiment and record.outcome == "measured":
            found.setdefault(record.case, {})[record.profile] = None
    return {case: list(profiles) for case, profiles in found.items()}
