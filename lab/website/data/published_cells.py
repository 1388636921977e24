"""What was measured of each cell, who stands where at a case, what the hardware allows: the data behind a page."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from lab.definition.families import family_of
from lab.definition.plan import PlannedCase, PlannedClaim, PlannedProfile
from lab.evidence.record import Cell, Compiled, Counters, Kernel, Machine, Reading
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.call_counters import call_of, limiters, top_stall
from lab.verdict.ceilings import CeilingGap, Ceilings, Rung, ceiling_gap, intensity
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.datasheet import datasheet
from lab.verdict.ranking import contest, rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import COLD, GRAPH
from lab.verdict.statistics import Speedup
from lab.verdict.traffic import dram_traffic

DIGITS = 7


def rounded(value: Any) -> Any:
    """A float with so many digits, None where it is not finite; of a mapping or a list, each that it holds.

    A threshold was registered and not measured: it stays as it is.
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: each if key == "threshold" else rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def attributes(value: object, names: str) -> dict[str, Any]:
    """Of any value those of a line of names."""
    return {name: getattr(value, name) for name in names.split()}


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


def cell_data(
    case: PlannedCase, profile: PlannedProfile, cell: CellResult, run: RunResult | None, tokens: int | None = None
) -> dict[str, Any]:
    """`tokens`: how many a call is, where it is any."""
    data: dict[str, Any] = {"outcome": cell.outcome, "reason": cell.reason}
    if cell.latency:
        data |= {
            **attributes(cell.latency, "p50_seconds p95_seconds noise_ratio between_sweep_spread samples"),
            "sweep_p50_seconds": cell.latency.sweep_p50_seconds,
        }
    held = _largest(each.graph_memory_bytes for each in cell.cells)
    if first := cell.latency or next(iter(cell.latencies.values()), None):
        data |= {
            "sweeps": len(first.sweep_p50_seconds),
            "scopes": {scope: _latency(cell, scope, tokens) for scope in cell.latencies},
            "unmeasured": dict(cell.unmeasured),
            **attributes(cell, "void_share bytes_per_second enqueue_seconds prepare_seconds"),
            "peak_memory_bytes": _largest(each.memory_bytes for each in cell.cells),
            **({"graph_memory_bytes": held} if held else {}),
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


def _largest(sizes: Iterable[int | None]) -> int | None:
    """In any sweep; None on a CPU, and of runs that did not ask."""
    return max((size for size in sizes if size is not None), default=None)


def _latency(cell: CellResult, scope: str, tokens: int | None) -> dict[str, Any]:
    latency = cell.latencies[scope]
    return {
        **attributes(latency, "p50_seconds p95_seconds noise_ratio samples"),
        "fastest_sweep_seconds": min(latency.sweep_p50_seconds),
        "slowest_sweep_seconds": max(latency.sweep_p50_seconds),
        "void_share": cell.void_shares.get(scope, 0.0),
        **({"tokens_per_second": tokens / latency.p50_seconds} if tokens else {}),
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


# The same comparison by other clocks, as data: a verdict depends on what the clock covers.
DIRTY = "device_dirty"
APART = 0.01  # of a ratio: more than a page's digits hide
INSTRUMENTS = {"dirty_flush": DIRTY_FLUSH, "do_bench": DO_BENCH, "nvbench": NVBENCH}


def clocks_data(result: ExperimentResult) -> dict[str, dict[str, Any]]:
    """By case and claim in device_cold, what each other clock says of the same pair; only what any of them has timed.

    `device_dirty` is a ratio with its interval, of the run's own samples; those of other instruments are of one pass.
    `turned`: the clocks by which the ratio lies on the other side of the claim's threshold than by device_cold.
    """
    readings = {
        (each.case, each.profile, each.instrument): each.seconds
        for each in result.records
        if isinstance(each, Reading) and each.seconds
    }
    by_case: dict[str, dict[str, Any]] = {}
    for judged in result.claims:
        claim = judged.claim
        if claim.measure == "speedup" and claim.scope == SCOPE:
            for case, verdict in judged.verdicts.items():
                others = _others(result, readings, claim, case)
                if verdict.speedup and others:
                    turned = [name for name, each in others.items() if _turned(each, verdict.speedup, claim)]
                    by_case.setdefault(case, {})[claim.name] = others | {"turned": turned}
    return by_case


def quotient(
    result: ExperimentResult, case: str, subject: str, baseline: str, speedup: Speedup | None, scope: str = SCOPE
) -> dict[str, float]:
    """The quotient of the two medians that a page shows, where a reader would see that it is not the ratio.

    A ratio is the mean over all sweeps, of rounds that were timed one after the other. A median of medians leaves out
    the sweeps that were slower or faster than most.
    """
    if speedup is None:
        return {}
    sides = [result.cells[case, name].latencies.get(scope) for name in (baseline, subject)]
    if sides[0] is None or sides[1] is None:
        return {}
    medians = sides[0].p50_seconds / sides[1].p50_seconds
    return {"quotient_of_medians": medians} if abs(medians / speedup.ratio - 1) > APART else {}


def _others(
    result: ExperimentResult, readings: Mapping[tuple[str, str, str], float], claim: PlannedClaim, case: str
) -> dict[str, Any]:
    others: dict[str, Any] = {}
    if DIRTY in result.plan.scopes and (dirty := result.compare(case, claim.subject, claim.baseline, DIRTY)):
        others[DIRTY] = attributes(dirty, "ratio low high")
    for name, instrument in INSTRUMENTS.items():
        sides = [readings.get((case, profile, instrument)) for profile in (claim.baseline, claim.subject)]
        if sides[0] and sides[1]:
            others[name] = {"ratio": sides[0] / sides[1]}
    return others


def _turned(other: Mapping[str, Any], ours: Speedup, claim: PlannedClaim) -> bool:
    return bool((other["ratio"] >= claim.threshold) != (ours.ratio >= claim.threshold))


LIMIT_SCOPES = (COLD, GRAPH)  # where a time is the GPU's alone, and the inputs are not at hand


def ceilings_data(run: RunResult) -> dict[str, Any] | None:
    """This run's own ceilings, and the datasheet's; None where the run did not measure them."""
    if run.ceilings is None:
        return None
    ceilings, sheet = run.ceilings, datasheet(run.machine.gpu)
    peak = sheet.bytes_per_second if sheet else None
    return {
        "run_id": run.plan.run_id,
        "copies": {scope: [_rung(rung, peak) for rung in rungs] for scope, rungs in ceilings.copies.items()},
        "reads": {scope: [_rung(rung, peak) for rung in rungs] for scope, rungs in ceilings.reads.items()},
        "matrix": {
            kind: {
                **attributes(rate, "flops_per_second seconds profile case"),
                "peak_share": _share(rate.flops_per_second, sheet.flops_per_second.get(kind) if sheet else None),
            }
            for kind, rate in ceilings.matrix.items()
        },
        "launch_floor_seconds": ceilings.launch_floor_seconds,
        "l2_bytes": run.machine.l2_bytes,
        # Peaks of the GPU's model; all rates are of dense matrices.
        "datasheet": attributes(sheet, "gpu source bytes_per_second l2_bytes flops_per_second") if sheet else None,
    }


def limits_data(result: ExperimentResult, run: RunResult) -> dict[str, Any] | None:
    """By case: its intensity and what limits it in each scope; by profile: how much of that was attained."""
    if run.ceilings is None:
        return None
    return {case.name: _case(case, result, run.ceilings) for case in result.plan.included_cases}


def _rung(rung: Rung, peak: float | None) -> dict[str, Any]:
    share = _share(rung.bytes_per_second, peak)
    return attributes(rung, "bytes seconds bytes_per_second profile") | {"peak_share": share}


def _share(measured: float, printed: float | None) -> float | None:
    return measured / printed if printed else None


def _case(case: PlannedCase, result: ExperimentResult, ceilings: Ceilings) -> dict[str, Any]:
    cells = {cell.profile: cell for cell in result.measured(case.name)}
    scopes = [scope for scope in LIMIT_SCOPES if scope in result.plan.scopes]
    lights = {
        scope: {profile: gap for profile, cell in cells.items() if (gap := ceiling_gap(case, cell, ceilings, scope))}
        for scope in scopes
    }
    # Of a case and a scope all profiles have one limit.
    limits = {scope: next(iter(gap.values()), None) for scope, gap in lights.items()}
    return {
        "flops_per_byte": intensity(case),
        "scopes": {scope: attributes(gap, "limit seconds") for scope, gap in limits.items() if gap},
        "profiles": {
            profile: _profile(case, cell, {scope: lights[scope].get(profile) for scope in scopes})
            for profile, cell in cells.items()
        },
    }


def _profile(case: PlannedCase, cell: CellResult, lights: dict[str, CeilingGap | None]) -> dict[str, Any]:
    data: dict[str, Any] = {
        scope: attributes(gap, "attained distance_seconds") | {"cache_resident_bytes": cell.cache_resident.get(scope)}
        for scope, gap in lights.items()
        if gap
    }
    if case.flops and cell.latency and not cell.launch_bound and not cell.impossible.get(COLD):
        data["flops_per_second"] = case.flops / cell.latency.p50_seconds
    return data
