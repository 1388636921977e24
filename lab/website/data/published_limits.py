"""What the hardware allows, and how far each cell is from it, as the data behind a page."""

from collections.abc import Mapping
from typing import Any

from lab.definition.plan import PlannedCase, PlannedClaim
from lab.evidence.record import Reading
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.ceilings import CeilingGap, Ceilings, Rung, ceiling_gap, intensity
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.datasheet import datasheet
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import COLD, GRAPH
from lab.verdict.statistics import Speedup
from lab.website.data.rounding import attributes

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
