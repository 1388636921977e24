"""What was measured of each cell, and who stands where at a case, as the data behind a page."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from lab.definition.families import family_of
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.evidence.record import Cell, Compiled, Counters, Kernel, Machine
from lab.verdict.call_counters import call_of, limiters, top_stall
from lab.verdict.cells import CellResult
from lab.verdict.ranking import contest, rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.traffic import dram_traffic
from lab.website.data.rounding import attributes


# What the profiler and Triton's compiler told of a cell, as the data behind its page.
def counters_data(counters: Counters) -> dict[str, Any]:
    """One call: its kernels, their sums where a sum has sense and duration-weighted means where not."""
    call = call_of(counters)
    return {
        **attributes(
            counters, "outcome reason blocker ncu metric_set cache_control clock_control report_sha256 report_bytes"
        ),
        "kernels": [_kernel(kernel) for kernel in counters.kernels],
        "launches": call.launches if call else 0,
        **({**call.counters, "dram_bytes": call.dram_bytes} if call else {}),
    }


def traffic_data(case: PlannedCase, cell: CellResult, machine: Machine) -> dict[str, Any] | None:
    """DRAM bytes of one call over the least; None where the profiler did not count them."""
    traffic = dram_traffic(case, cell.counters, machine)
    return _fields(traffic) if traffic else None


def compiled_data(cell: CellResult) -> dict[str, Any] | None:
    """The Triton kernels of a cell as first compiled; `variants` counts the codes seen over all sweeps."""
    records = [record for record in cell.cells if record.compiled]
    if not records:
        return None
    codes = {tuple(kernel.code_sha256 for kernel in record.compiled) for record in records}
    return {
        "kernels": [_fields(kernel) for kernel in records[0].compiled],
        "variants": len(codes),
        "compile_seconds": _longest(record.compile_seconds for record in cell.cells),
        "autotune_seconds": _longest(record.autotune_seconds for record in cell.cells),
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    stall = top_stall(kernel)
    return _fields(kernel) | {
        "limiters": list(limiters(kernel)),
        "top_stall": stall,
        "top_stall_warps": kernel.stalls[stall] if stall else None,
    }


def _fields(value: Any) -> dict[str, Any]:
    """A record's own fields."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((value for value in seconds if value is not None), default=None)


# Which code each sweep drew where code is compiled or tuned at run time, and what it cost, as data.
def draws_data(profile: PlannedProfile, cell: CellResult, run: RunResult) -> dict[str, Any] | None:
    """None of code that does not depend on the shape, or that was not measured.

    `fresh`: every sweep compiled and chose anew. Else the choice was made once, and all sweeps repeat it.
    """
    measured = [record for record in cell.cells if record.outcome == "measured"]
    if not profile.recompiles or not measured:
        return None
    p50s = cell.latency.sweep_p50_seconds if cell.latency else ()
    times = p50s if len(p50s) == len(measured) else (None,) * len(measured)
    return {
        "fresh": run.plan.protocol.fresh_caches,
        "codes": len({_code(record) for record in measured if record.compiled}),
        "sweeps": [_draw(record, p50) for record, p50 in zip(measured, times, strict=True)],
    }


def _draw(record: Cell, p50: float | None) -> dict[str, Any]:
    return {
        "sweep": record.sweep, "code": _code(record),
        "configuration": "; ".join(_configuration(kernel) for kernel in record.compiled), "p50_seconds": p50,
        "compile_seconds": record.compile_seconds, "autotune_seconds": record.autotune_seconds,
        "blind": record.compiled_blind,
    }  # fmt: skip


def _code(record: Cell) -> str:
    return " ".join(kernel.code_sha256 for kernel in record.compiled)


def _configuration(kernel: Compiled) -> str:
    """'XBLOCK=1, RBLOCK=4096, 8 warps, 1 stages': how it is launched."""
    sizes = [f"{name}={value}" for name, value in kernel.configuration.items()]
    return ", ".join([*sizes, f"warps={kernel.warps}", f"stages={kernel.stages}"])


def cell_data(case: PlannedCase, profile: PlannedProfile, cell: CellResult, run: RunResult | None) -> dict[str, Any]:
    data: dict[str, Any] = {"outcome": cell.outcome, "reason": cell.reason}
    if cell.latency:
        data |= {
            **attributes(cell.latency, "p50_seconds p95_seconds noise_ratio between_sweep_spread samples"),
            "sweep_p50_seconds": cell.latency.sweep_p50_seconds,
            "sweeps": len(cell.latency.sweep_p50_seconds),
            "scopes": {scope: _latency(cell, scope) for scope in cell.latencies},
            "unmeasured": dict(cell.unmeasured),
            **attributes(cell, "void_share bytes_per_second enqueue_seconds prepare_seconds"),
            "peak_memory_bytes": _peak_memory(cell),
            **attributes(cell, "launch_bound host_bound"),
            "impossible": {scope: why for scope, why in cell.impossible.items() if why},
        }
    if cell.correctness:
        data |= {
            "worst_absolute_error": max(c.worst_absolute_error for c in cell.correctness),
            "worst_tolerance_share": max(c.worst_tolerance_share for c in cell.correctness),
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
    latency = cell.latencies[scope]
    return {
        **attributes(latency, "p50_seconds p95_seconds noise_ratio samples"),
        "fastest_sweep_seconds": min(latency.sweep_p50_seconds),
        "slowest_sweep_seconds": max(latency.sweep_p50_seconds),
        "void_share": cell.void_shares.get(scope, 0.0),
    }


def places_data(result: ExperimentResult, case: str, scope: str) -> list[dict[str, Any]]:
    """Who stands where at a case, the fastest first; see lab.verdict.ranking.Place."""
    return [
        {"profile": profile, **attributes(place, "rank times_fastest level proven")}
        for profile, place in rank(result, case, scope).items()
    ]


def contest_data(result: ExperimentResult, case: str, scope: str) -> list[dict[str, Any]]:
    """The same with one implementation of each family, and how many times as fast as each the fastest is."""
    families = {profile.name: family_of(profile) for profile in result.plan.profiles}
    return [
        {
            "family": families[profile],
            "profile": profile,
            **attributes(place, "level proven times_fastest"),
            # How many times as fast as this one the fastest is, with its interval; nothing of the fastest itself.
            **(attributes(place.lead, "ratio low high") if place.lead else {}),
        }
        for profile, place in contest(result, case, scope).items()
    ]


def measured_data(result: ExperimentResult) -> dict[str, list[str]]:
    """By case, every profile that any sweep measured."""
    by_case: dict[str, dict[str, None]] = {}
    for record in result.records:
        if isinstance(record, Cell) and record.outcome == "measured":
            by_case.setdefault(record.case, {})[record.profile] = None
    return {case: list(profiles) for case, profiles in by_case.items()}
