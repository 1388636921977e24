"""What the profiler and Triton's compiler told of a cell, as the data behind its page."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from lab.definition.plan import PlannedCase
from lab.evidence.record import Counters, Kernel, Machine
from lab.verdict.call import call_of, limiters, top_stall
from lab.verdict.cells import CellResult
from lab.verdict.traffic import dram_traffic
from lab.website.data.rounding import rounded


def counters_data(counters: Counters) -> dict[str, Any]:
    """One call: its kernels, their sums where a sum has sense and duration-weighted means where not."""
    call = call_of(counters)
    return {
        "outcome": counters.outcome,
        "reason": counters.reason,
        "blocker": counters.blocker,
        "ncu": counters.ncu,
        "metric_set": counters.metric_set,
        "cache_control": counters.cache_control,
        "clock_control": counters.clock_control,
        "report_sha256": counters.report_sha256,
        "report_bytes": counters.report_bytes,
        "kernels": [_kernel(kernel) for kernel in counters.kernels],
        **(_fields(call) | {"dram_bytes": rounded(call.dram_bytes)} if call else {"launches": 0}),
    }


def traffic_data(case: PlannedCase, cell: CellResult, machine: Machine) -> dict[str, Any] | None:
    """DRAM bytes of one call over the least; None where the profiler did not count them."""
    found = dram_traffic(case, cell.counters, machine)
    return _fields(found) if found else None


def compiled_data(cell: CellResult) -> dict[str, Any] | None:
    """The Triton kernels of a cell as first compiled; `variants` counts the codes seen over all sweeps."""
    held = [record for record in cell.cells if record.compiled]
    if not held:
        return None
    codes = {tuple(kernel.code_sha256 for kernel in record.compiled) for record in held}
    return {
        "kernels": [_fields(kernel) for kernel in held[0].compiled],
        "variants": len(codes),
        "compile_seconds": rounded(_longest(record.compile_seconds for record in cell.cells)),
        "autotune_seconds": rounded(_longest(record.autotune_seconds for record in cell.cells)),
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    stall = top_stall(kernel)
    return _fields(kernel) | {
        "limiters": list(limiters(kernel)),
        "top_stall": stall,
        "top_stall_warps": rounded(kernel.stalls[stall]) if stall else None,
    }


def _fields(value: Any) -> dict[str, Any]:
    """A record's own fields, floats rounded."""
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: _plain(item) for name, item in held.items()}


def _plain(item: Any) -> Any:
    return {key: rounded(each) for key, each in item.items()} if isinstance(item, Mapping) else rounded(item)


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((value for value in seconds if value is not None), default=None)
