"""Which code each sweep drew where code is compiled or tuned at run time, and what it cost, as data."""

from typing import Any

from lab.definition.plan import PlannedProfile
from lab.evidence.record import Cell, Compiled
from lab.verdict.cells import CellResult
from lab.verdict.results import RunResult
from lab.website.data.rounding import rounded


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
        "sweep": record.sweep,
        "code": _code(record),
        "configuration": "; ".join(_configuration(kernel) for kernel in record.compiled),
        "p50_seconds": rounded(p50),
        "compile_seconds": rounded(record.compile_seconds),
        "autotune_seconds": rounded(record.autotune_seconds),
        "blind": record.compiled_blind,
    }


def _code(record: Cell) -> str:
    return " ".join(kernel.code_sha256 for kernel in record.compiled)


def _configuration(kernel: Compiled) -> str:
    """'XBLOCK=1, RBLOCK=4096, 8 warps, 1 stages': how it is launched."""
    sizes = [f"{name}={value}" for name, value in kernel.configuration.items()]
    return ", ".join([*sizes, f"warps={kernel.warps}", f"stages={kernel.stages}"])
