"""What a run leaves behind: frozen, typed values.

SI units inside; the unit is in the field's name. A failure is a value too: `outcome` and `reason`. A field `added` in a
later schema reads as its default in older records. What each schema added:

     1  the first
     2  scopes, controls, canaries, what the GPU did meanwhile, edge inputs, stages of a sweep, other instruments
     3  the stage of a crash, the experiment of a canary, whether the watch was blind, the clock as NVML tells it,
        energy of the rounds alone
     4  what Triton compiled for a cell, more of what Nsight Compute says of a launch and of its own pass
     5  why a run was cut short, quack's version, which profiles are compiled for one shape
     6  a fresh cache in every sweep, what Inductor generated and how it chose, the memory that a call takes, settings
        that a profile left changed
     7  lines of a journal that name the one before, hits in L1
     8  versions of libraries as a mapping, any number of them
     9  runs on several GPUs, and GPUs that they lost
    10  the memory of a profile's own CUDA graphs
    11  timed calls behind which the host enqueues nothing until they have ended
    12  calls back to back
    13  a digest of what is timed
"""

import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.evidence.codec import added

# What must not change between the sweeps of one run.
SAME_MACHINE = (
    "device", "gpu", "gpu_id", "driver", "cuda", "torch", "triton", "libraries", "python", "cpu", "cpu_count",
    "power_limit_watts", "ecc", "mig", "persistence", "environment",
)  # fmt: skip
# What may differ between the GPUs of a run that has several: which board it is, and how CUDA was led to it.
BOARD, CHOSEN_BY = "gpu_id", "CUDA_VISIBLE_DEVICES"
# NVML's clock-event reasons that no profile is to blame for; the power limit is none.
SLOWDOWNS = {0x8: "hardware slowdown", 0x20: "thermal slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
OUTCOMES = ("measured", "wrong", "crashed", "failed", "skipped")
# Why there are no counters.
BLOCKERS = (
    "no-gpu", "not-installed", "no-permission", "busy", "time-out", "crash", "empty", "changed-units", "wrong-kernel",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Where a sweep ran. Facts only: no host name, no user, no path. Empty or 0 means unknown."""

    device: str  # "cuda" or "cpu": what the cells were measured on
    gpu: str
    gpu_id: str  # hash of the GPU's UUID
    compute_capability: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int  # on the CPU: the last-level cache
    peak_bytes_per_second: float  # from the memory clock and bus width
    power_limit_watts: float
    sm_clock_hertz: float  # largest that the GPU may reach
    memory_clock_hertz: float
    ecc: str
    mig: str
    persistence: str
    driver: str
    cuda: str
    torch: str
    triton: str
    ncu: str
    python: str
    os: str
    cpu: str
    cpu_count: int
    environment: Mapping[str, str]  # an allow-list of variables
    # Installed distribution → version, of those whose kernels are measured or that build them.
    libraries: Mapping[str, str] = added(8, {}, gathers={"liger": "liger-kernel", "quack": "quack-kernels"})


def unlike(began: Machine, now: Machine, unknown_fields: Collection[str] = (), several_gpus: bool = False) -> list[str]:
    """Why these are not one machine; `unknown_fields` are not compared.

    `several_gpus`: they may be two boards of one GPU model in hosts that are alike.
    """
    if several_gpus:
        unknown_fields = {*unknown_fields, BOARD}
        began, now = (
            replace(each, environment={name: text for name, text in each.environment.items() if name != CHOSEN_BY})
            for each in (began, now)
        )
    return [
        f"{name} was {getattr(began, name)!r}, is {getattr(now, name)!r}"
        for name in SAME_MACHINE
        if name not in unknown_fields and getattr(began, name) != getattr(now, name)
    ]


def slowdown(reasons: int | None) -> str:
    """What of SLOWDOWNS is among NVML's reasons, or nothing: what is not known is no fault."""
    return next((name for bit, name in SLOWDOWNS.items() if (reasons or 0) & bit), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStart:
    """First line of a journal."""

    schema: int
    run_id: str
    plan_digest: str
    source_digest: str
    commit: str  # empty where the tree has no .git
    dirty: bool
    started_utc: str
    several_gpus: bool = added(9, False)  # whether its sweeps may be measured on different boards of one GPU model
    # Of the part of the source that is timed and times: runs that share it are repeats.
    timed_digest: str = added(13, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepStart:
    """A fresh process begins to measure; a sweep that was interrupted has several."""

    sweep: int
    process: str
    machine: Machine
    launch_floor_seconds: float  # a kernel that does nothing
    started_utc: str
    empty_seconds: float = added(2, 0.0)  # two events with nothing between them: no call can be faster


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """One call with unusual inputs: zeros, a large mean, NaN, odd sizes, strided rows and their like."""

    name: str
    outcome: str  # "passed", "wrong", or "refused" where the profile raised an error
    tolerance_share: float
    standard_share: float  # what the operator's standard implementation reached on the same inputs
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Correctness:
    """How far a result was from the float64 truth, over all seeds, edges and the timed outputs."""

    passed: bool
    seeds: tuple[int, ...]
    worst_absolute_error: float
    # Largest |error| / tolerance; above 1 fails, unless the standard errs as much. Of long sums, if |error| exceeds the
    # tolerance: what is left of |error| after LONG_SUM_ALLOWANCE of lab/worker/correctness.py.
    worst_tolerance_share: float
    message: str
    standard_tolerance_share: float = added(2, 0.0)  # the standard implementation's own, on the same inputs
    edges: tuple[Edge, ...] = added(2, ())  # asked until they are answered


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The samples of one cell in one sweep and scope."""

    scope: str
    rounds: Sequence[Sequence[float]]  # seconds a call; one tuple per round; void samples left out
    void: tuple[int, ...]  # samples per round that the GPU had begun before the host was done
    enqueue_seconds: float  # median time the host needs to enqueue one sample; 0 on the CPU
    spin_seconds: float
    calls_per_sample: int = added(2, 1)  # in the graph scope: the calls that one replay holds


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A Triton or CUDA C++ kernel that a profile launched at a case, as it was compiled for it."""

    name: str
    registers_per_thread: int
    spills: int  # registers that did not fit and went to memory
    shared_bytes: int  # a block
    warps: int
    stages: int
    configuration: Mapping[str, str]  # its compile-time constants
    code_sha256: str  # of its PTX without the lines that name source files; of CUDA C++, its sources and compiler
    generator: str = added(6, "")  # "inductor" where torch.compile wrote the kernel; empty where its author did
    candidates: int | None = added(6, None)  # configurations that the autotuner timed before it chose this one
    autotune_seconds: float | None = added(6, None)  # spent on timing them, without compiling


@dataclass(frozen=True, kw_only=True, slots=True)
class Sustained:
    """A profile's CUDA graph replayed back to back for a second, after the rounds; or why it was not."""

    reason: str = ""  # why there are no times
    batch_seconds: tuple[float, ...] = ()  # seconds a call; one for each batch of replays, in order
    calls_per_batch: int = 0
    spin_hertz: tuple[float, ...] = ()  # the clock that a spin right behind each batch showed
    power_watts: float | None = None  # of the board as the last batch began: on an H100, NVML's mean of a second


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What one case × profile gave in one sweep."""

    experiment: str
    case: str
    profile: str
    sweep: int
    process: str
    outcome: str
    reason: str
    prepare_seconds: float  # load, compile and first call
    correctness: Correctness | None
    timings: tuple[Timing, ...]
    finished_utc: str
    unmeasured: Mapping[str, str] = added(2, {})  # scope → why it has no timing
    stage: str = added(3, "")  # of a cell that a process died of: what it was at, such as "load" or "time"
    compiled: tuple[Compiled, ...] = added(4, ())  # the Triton kernels that its call launched
    compile_seconds: float | None = added(4, None)  # in Triton's compiler; None where nothing was compiled afresh
    autotune_seconds: float | None = added(4, None)  # spent on choosing among configurations; None where none was
    peak_memory_bytes: int | None = added(6, None)  # that one call allocates at most beyond its inputs; None on a CPU
    compiled_blind: str = added(6, "")  # why what Inductor generated for the call is not on record, or not all of it
    left_behind: tuple[str, ...] = added(6, ())  # process-wide settings that it changed; put back before the next
    # That CUDA graphs of its own hold for a call: intermediate results and results. None where nobody asked.
    graph_memory_bytes: int | None = added(10, None)
    # None where the plan does not ask for it, and on a CPU.
    sustained: Sustained | None = added(12, None)  # noqa: RUF009, for each of its values is frozen

    @property
    def memory_bytes(self) -> int | None:
        """What a call takes beyond its inputs and weights; None where torch does not count."""
        return None if self.peak_memory_bytes is None else self.peak_memory_bytes + (self.graph_memory_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """The A/A control of a case in one sweep: a profile timed once more, as if it were another."""

    experiment: str
    case: str
    profile: str  # the one that was timed twice
    sweep: int
    process: str
    timings: tuple[Timing, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """Two fixed pieces of work, before the first case of a process and after each: they should not change."""

    sweep: int
    process: str
    after: str  # the case, or empty before the first
    copy_seconds: float
    spin_hertz: float  # cycles of a fixed spin over its time: the clock that the GPU really ran at
    experiment: str = added(3, "")  # whose case it is; empty before the first, and where older records lack it


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What the GPU did during one round of a case, whatever was timed in it. None means not known."""

    seconds: float
    polls: int  # how often NVML was asked during the round
    reasons: int | None  # clock-event reasons seen, as NVML's bits
    violation_seconds: Mapping[str, float]  # by policy, such as "thermal": time at a reduced clock
    spin_hertz: float | None  # lowest clock of the spins before its blocks
    power_watts: float | None  # largest seen
    temperature_celsius: float | None  # largest seen
    foreign_processes: int | None  # largest number of processes of others on the GPU
    sm_hertz: float | None = added(3, None)  # lowest clock that NVML told


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """When a round ran, by time.monotonic; the lowest clock that its own spins showed."""

    begin_seconds: float
    end_seconds: float
    spin_hertz: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """When the rounds of a case ran: told by the worker, and not journalled, for a Watch is made of it."""

    experiment: str
    case: str
    windows: tuple[Window, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """The GPU as the supervisor saw it while one case was timed."""

    experiment: str
    case: str
    sweep: int
    process: str
    rounds: tuple[Round, ...]
    blind: str = added(3, "")  # why the GPU's state is not known, or not in all rounds
    energy_joules: float | None = added(2, None)  # from the first round to the last; in schema 2 with warm-up


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFinish:
    """A process has measured all that it was asked to, and where its time went."""

    sweep: int
    process: str
    stage_seconds: Mapping[str, float]  # "load", "start", "inputs", "check", "time", …
    finished_utc: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One kernel launch as Nsight Compute saw it; a counter that it did not give is None."""

    name: str
    grid: str
    block: str
    duration_seconds: float | None
    dram_read_bytes: float | None
    dram_written_bytes: float | None
    dram_percent: float | None
    occupancy_percent: float | None
    registers_per_thread: float | None
    shared_bytes_per_block: float | None
    theoretical_occupancy_percent: float | None = added(4, None)
    blocks_per_multiprocessor: Mapping[str, float] = added(4, {})  # limit → blocks that it allows
    l1_hit_percent: float | None = added(7, None)
    l2_hit_percent: float | None = added(4, None)
    sm_percent: float | None = added(4, None)  # of the multiprocessors' peak throughput
    tensor_percent: float | None = added(4, None)  # of the time in which the tensor pipe was active
    stalls: Mapping[str, float] = added(4, {})  # reason → warps that waited for it, per instruction issued
    sm_hertz: float | None = added(4, None)  # clock during the pass: not the clock of any timing


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """The profiler's pass over one cell: every kernel of one call, or why there are none."""

    experiment: str
    case: str
    profile: str
    outcome: str  # "measured" or "blocked"
    reason: str
    kernels: tuple[Kernel, ...]
    ncu: str
    report_sha256: str
    blocker: str = added(4, "")  # one of BLOCKERS, where the outcome is "blocked"
    report_bytes: int = added(4, 0)
    cache_control: str = added(4, "all")  # "all": ncu empties the caches before each kernel
    clock_control: str = added(4, "none")  # "none": ncu leaves the clocks alone
    metric_set: str = added(4, "chosen")  # or "full"


@dataclass(frozen=True, kw_only=True, slots=True)
class FlushCheck:
    """DRAM bytes that reading a buffer smaller than the cache costs: after the lab's flush, and again at once.

    None where the profiler told nothing, and `reason` says why.
    """

    footprint_bytes: int
    flushed_read_bytes: float | None
    warm_read_bytes: float | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What another instrument says of a cell, in a pass of its own; seconds is None where it says nothing."""

    experiment: str
    case: str
    profile: str
    instrument: str
    seconds: float | None
    reason: str  # why there is no time


@dataclass(frozen=True, kw_only=True, slots=True)
class LostGpu:
    """A run on several GPUs lost one. What it had not measured yet is measured on another, or there once more."""

    gpu_id: str  # as in Machine
    during: str  # what it was doing, such as "sweep 2"
    reason: str
    lost_utc: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinish:
    """Last line of a journal."""

    finished_utc: str
    # None where the run was interrupted and taken up again: what was spent before is not on record.
    wall_seconds: float | None = added(2, 0.0)
    profiling_seconds: float | None = added(2, 0.0)
    cut_short: str = added(5, "")  # why the run ended before all of its plan was measured


Record = (
    RunStart | SweepStart | Cell | Control | Canary | Watch | SweepFinish | Counters | FlushCheck | Reading | LostGpu
    | RunFinish
)  # fmt: skip
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Record)}
