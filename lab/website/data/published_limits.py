"""What the hardware allows, and how far each cell is from it, as the data behind a page."""

from typing import Any

from lab.definition.plan import PlannedCase
from lab.verdict.ceilings import Ceilings, Light, Rung, intensity, light
from lab.verdict.cells import CellResult
from lab.verdict.datasheet import Datasheet, datasheet
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import COLD, GRAPH
from lab.website.data.rounding import rounded

LIMIT_SCOPES = (COLD, GRAPH)  # where a time is the GPU's alone, and the inputs are not at hand


def ceilings_data(run: RunResult) -> dict[str, Any] | None:
    """This run's own ceilings, and the datasheet's; None where the run did not measure them."""
    if run.ceilings is None:
        return None
    found, sheet = run.ceilings, datasheet(run.machine.gpu)
    peak = sheet.bytes_per_second if sheet else None
    return {
        "run_id": run.plan.run_id,
        "copies": {scope: [_rung(rung, peak) for rung in rungs] for scope, rungs in found.copies.items()},
        "reads": {scope: [_rung(rung, peak) for rung in rungs] for scope, rungs in found.reads.items()},
        "matrix": {
            kind: {
                "flops_per_second": rounded(rate.flops_per_second),
                "seconds": rounded(rate.seconds),
                "profile": rate.profile,
                "case": rate.case,
                "peak_share": _share(rate.flops_per_second, sheet.flops_per_second.get(kind) if sheet else None),
            }
            for kind, rate in found.matrix.items()
        },
        "launch_floor_seconds": rounded(found.launch_floor_seconds),
        "l2_bytes": run.machine.l2_bytes,
        "datasheet": _datasheet(sheet) if sheet else None,
    }


def limits_data(result: ExperimentResult, run: RunResult) -> dict[str, Any] | None:
    """By case: its intensity and what limits it in each scope; by profile: how much of that was attained."""
    if run.ceilings is None:
        return None
    return {case.name: _case(case, result, run.ceilings) for case in result.plan.included_cases}


def _rung(rung: Rung, peak: float | None) -> dict[str, Any]:
    return {
        "bytes": rung.bytes,
        "seconds": rounded(rung.seconds),
        "bytes_per_second": rounded(rung.bytes_per_second),
        "profile": rung.profile,
        "peak_share": _share(rung.bytes_per_second, peak),
    }


def _share(measured: float, printed: float | None) -> float | None:
    return float(rounded(measured / printed)) if printed else None


def _datasheet(sheet: Datasheet) -> dict[str, Any]:
    """Peaks of the GPU's model; all rates are of dense matrices."""
    return {
        "gpu": sheet.gpu,
        "source": sheet.source,
        "bytes_per_second": sheet.bytes_per_second,
        "l2_bytes": sheet.l2_bytes,
        "flops_per_second": dict(sheet.flops_per_second),
    }


def _case(case: PlannedCase, result: ExperimentResult, ceilings: Ceilings) -> dict[str, Any]:
    cells = {cell.profile: cell for cell in result.measured(case.name)}
    scopes = [scope for scope in LIMIT_SCOPES if scope in result.plan.scopes]
    lights = {
        scope: {profile: found for profile, cell in cells.items() if (found := light(case, cell, ceilings, scope))}
        for scope in scopes
    }
    # Of a case and a scope all profiles have one limit.
    limits = {scope: next(iter(found.values()), None) for scope, found in lights.items()}
    return {
        "flops_per_byte": rounded(intensity(case)),
        "scopes": {
            scope: {"limit": found.limit, "seconds": rounded(found.seconds)} for scope, found in limits.items() if found
        },
        "profiles": {
            profile: _profile(case, cell, {scope: lights[scope].get(profile) for scope in scopes})
            for profile, cell in cells.items()
        },
    }


def _profile(case: PlannedCase, cell: CellResult, lights: dict[str, Light | None]) -> dict[str, Any]:
    data: dict[str, Any] = {scope: _light(found, cell, scope) for scope, found in lights.items() if found}
    if case.flops and cell.latency and not cell.launch_bound and not cell.impossible.get(COLD):
        data["flops_per_second"] = rounded(case.flops / cell.latency.p50_seconds)
    return data


def _light(found: Light, cell: CellResult, scope: str) -> dict[str, Any]:
    return {
        "attained": rounded(found.attained),
        "distance_seconds": rounded(found.distance_seconds),
        "cache_resident_bytes": cell.cache_resident.get(scope),
    }
