"""What was measured of each cell: times, memory, errors, and what the profiler and the compiler told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from lab.definition.plan import PlannedProfile
from lab.evidence.record import Cell, Compiled, Counters, Kernel
from lab.verdict.call_counters import call_of, limiters, top_stall
from lab.verdict.cells import CellResult
from lab.verdict.results import RunResult
from lab.verdict.standing import BySweep
from lab.verdict.sustained import SustainedRate
from lab.verdict.traffic import DramTraffic
from lab.website.data.typed import ByScope, Digest, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeTimes:
    p50_seconds: float
    p95_seconds: float | None
    noise_ratio: float | None
    samples: int
    fastest_sweep_seconds: float
    slowest_sweep_seconds: float
    void_share: float
    tokens_per_second: Annotated[float | None, "The tokens of a call over its median."] = None
    by_sweep_seconds: Annotated[
        Mapping[str, float] | None, "By sweep, its median; where not every sweep measured all implementations."
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelData(Kernel):
    """`stalls`: warps that waited for each reason, per instruction issued; blocks by what limits them."""

    limiters: tuple[str, ...]
    top_stall: str
    top_stall_warps: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CountersData:
    """One call as the profiler saw it. `call`: of all its kernels sums, or means weighted by their durations."""

    outcome: str
    reason: str
    blocker: str
    ncu: str
    metric_set: str
    cache_control: str
    clock_control: str
    report_sha256: Digest
    report_bytes: int
    kernels: tuple[KernelData, ...]
    launches: int
    call: Annotated[dict[str, float | None], "By name of a counter."]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledData:
    """Its Triton kernels, as first compiled; `variants` counts the codes that were seen over all sweeps."""

    kernels: tuple[Compiled, ...]
    variants: int
    compile_seconds: float | None
    autotune_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    sweep: int
    code: str
    configuration: str
    p50_seconds: float | None
    compile_seconds: float | None
    autotune_seconds: float | None
    blind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Draws:
    """Which code each sweep drew, by the SHA-256 of its kernels, and what it cost.

    `fresh`: every sweep chose anew, though it may have used binaries of an earlier one. Else the choice was made once,
    and all sweeps repeat it.
    """

    fresh: bool
    codes: int
    sweeps: tuple[Draw, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellData:
    """The times are of the scope device_cold; those of every scope stand under `scopes`."""

    outcome: Annotated[str, "'measured', 'wrong', 'failed', 'crashed', 'skipped', 'not-planned' or 'unfinished'."]
    reason: str
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    noise_ratio: float | None = None
    between_sweep_spread: float | None = None
    samples: int | None = None
    sweep_p50_seconds: Annotated[tuple[float, ...] | None, "In seconds, the median of each sweep."] = None
    sweeps: int | None = None
    scopes: ByScope[ScopeTimes] | None = None
    unmeasured: Annotated[dict[str, str] | None, "By scope, why it has no time."] = None
    void_share: float | None = None
    bytes_per_second: float | None = None
    enqueue_seconds: float | None = None
    prepare_seconds: float | None = None
    peak_memory_bytes: Annotated[
        int | None, "The most that one call takes beyond its inputs and weights, in bytes."
    ] = None
    graph_memory_bytes: Annotated[
        int | None, "Of it what CUDA graphs of the implementation's own hold, from schema 10 on."
    ] = None
    launch_bound: bool | None = None
    host_bound: bool | None = None
    impossible: Annotated[dict[str, str] | None, "By scope, why no honest time can be so short."] = None
    worst_absolute_error: float | None = None
    worst_tolerance_share: float | None = None
    standard_tolerance_share: Annotated[
        float | None, "The standard implementation's on the same inputs; null where it was not needed."
    ] = None
    edges: Annotated[dict[str, str] | None, "By edge input."] = None
    correctness_checks: int | None = None
    counters: CountersData | None = None
    traffic: DramTraffic | None = None
    compiled: CompiledData | None = None
    draws: Draws | None = None
    sustained: Annotated[
        SustainedRate | None, "Of its CUDA graph, replayed back to back for about a second; from schema 12 on."
    ] = None


def cell_data(
    profile: PlannedProfile,
    cell: CellResult,
    run: RunResult | None,
    tokens: int | None,
    uneven: Mapping[str, Mapping[str, BySweep]],
) -> CellData:
    """`tokens`: how many a call is, where it is any; `uneven`: by scope and profile, of `uneven_sweep_seconds`."""
    checked = cell.correctness
    worst = max(checked, key=lambda each: each.worst_tolerance_share, default=None)
    timed = cell.latency or next(iter(cell.latencies.values()), None)
    of_times = {
        "sweeps": len(timed.sweep_p50_seconds),
        "scopes": {
            scope: _times(cell, scope, tokens, uneven.get(scope, {}).get(profile.name)) for scope in cell.latencies
        },
        "peak_memory_bytes": _largest(each.memory_bytes for each in cell.cells),
        "graph_memory_bytes": _largest(each.graph_memory_bytes for each in cell.cells) or None,
        "impossible": {scope: why for scope, why in cell.impossible.items() if why},
    } if timed else {}  # fmt: skip
    of_checks = {
        "worst_absolute_error": max(each.worst_absolute_error for each in checked),
        "worst_tolerance_share": worst.worst_tolerance_share,
        "standard_tolerance_share": worst.standard_tolerance_share or None,
        "edges": {edge.name: edge.outcome for each in checked for edge in each.edges},
        "correctness_checks": sum(len(each.seeds) + 1 for each in checked),
    } if worst else {}  # fmt: skip
    return taken(
        CellData, cell.latency, cell if timed else None, outcome=cell.outcome, reason=cell.reason, **of_times,
        **of_checks, counters=_counters(cell.counters) if cell.counters else None, traffic=cell.traffic,
        compiled=_compiled(cell), draws=_draws(profile, cell, run) if run else None,
    )  # fmt: skip


def _largest(sizes: Iterable[int | None]) -> int | None:
    """In any sweep; None on a CPU, and of runs that did not ask."""
    return max((size for size in sizes if size is not None), default=None)


def _times(cell: CellResult, scope: str, tokens: int | None, by_sweep: BySweep | None) -> ScopeTimes:
    latency = cell.latencies[scope]
    return taken(
        ScopeTimes, latency,
        fastest_sweep_seconds=min(latency.sweep_p50_seconds), slowest_sweep_seconds=max(latency.sweep_p50_seconds),
        void_share=cell.void_shares.get(scope, 0.0),
        tokens_per_second=tokens / latency.p50_seconds if tokens else None,
        by_sweep_seconds={str(sweep): seconds for sweep, seconds in by_sweep.items()} if by_sweep else None,
    )  # fmt: skip


def _counters(counters: Counters) -> CountersData:
    call = call_of(counters)
    return taken(
        CountersData, counters, kernels=tuple(map(_kernel, counters.kernels)), launches=call.launches if call else 0,
        call={**call.counters, "dram_bytes": call.dram_bytes} if call else {},
    )  # fmt: skip


def _kernel(kernel: Kernel) -> KernelData:
    stall = top_stall(kernel)
    warps = kernel.stalls[stall] if stall else None
    return taken(KernelData, kernel, limiters=limiters(kernel), top_stall=stall, top_stall_warps=warps)


def _compiled(cell: CellResult) -> CompiledData | None:
    records = [record for record in cell.cells if record.compiled]
    if not records:
        return None
    return CompiledData(
        kernels=records[0].compiled,
        variants=len({_code(record) for record in records}),
        compile_seconds=_longest(record.compile_seconds for record in cell.cells),
        autotune_seconds=_longest(record.autotune_seconds for record in cell.cells),
    )


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((value for value in seconds if value is not None), default=None)


def _draws(profile: PlannedProfile, cell: CellResult, run: RunResult) -> Draws | None:
    """None of code that does not depend on the shape, or that was not measured."""
    measured = [record for record in cell.cells if record.outcome == "measured"]
    if not profile.recompiles or not measured:
        return None
    p50s = cell.latency.sweep_p50_seconds if cell.latency else ()
    times = p50s if len(p50s) == len(measured) else (None,) * len(measured)
    return Draws(
        fresh=run.plan.protocol.fresh_caches,
        codes=len({_code(record) for record in measured if record.compiled}),
        sweeps=tuple(_draw(record, p50) for record, p50 in zip(measured, times, strict=True)),
    )


def _draw(record: Cell, p50: float | None) -> Draw:
    configuration = "; ".join(_configuration(kernel) for kernel in record.compiled)
    blind = record.compiled_blind
    return taken(Draw, record, code=_code(record), configuration=configuration, p50_seconds=p50, blind=blind)


def _code(record: Cell) -> str:
    return " ".join(kernel.code_sha256 for kernel in record.compiled)


def _configuration(kernel: Compiled) -> str:
    """'XBLOCK=1, RBLOCK=4096, warps=8, stages=1': how it is launched."""
    sizes = [f"{name}={value}" for name, value in kernel.configuration.items()]
    return ", ".join([*sizes, f"warps={kernel.warps}", f"stages={kernel.stages}"])
