"""What a profiler might have counted, for tests of what reads it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from factory import FAST, LARGE, PLAIN, machine, plan_of, records_of, small_experiment

from lab.definition.experiment import Claim
from lab.definition.plan import Plan
from lab.evidence.record import Cell, Counters, Kernel, Record
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult

MB = 1e6
LARGE_BYTES = 4096 * 4096 * 4  # that the large case must read, and as many that it must write
L2_BYTES = machine().l2_bytes
TIMES = {(LARGE.name, "plain"): 120e-6, (LARGE.name, "fast"): 60e-6}
FAST_MOVES_THE_LEAST = Claim(
    name="fast-moves-the-least", text="Fast moves at most 1.10 times the least.", subject=FAST, baseline=None,
    cases=(LARGE,), threshold=1 / 1.10, measure="traffic",
)  # fmt: skip
PLAIN_MOVES_TWICE = Claim(
    name="plain-moves-twice", text="Plain moves at least twice the bytes of fast.", subject=FAST, baseline=PLAIN,
    cases=(LARGE,), threshold=2.0, measure="traffic",
)  # fmt: skip

RESULT_ALONE = Claim(
    name="fast-allocates-its-result", text="Fast needs little but its result.", subject=FAST, baseline=None,
    cases=(LARGE,), threshold=1 / 1.05, measure="memory",
)  # fmt: skip
PLAIN_TAKES_TWICE = Claim(
    name="plain-allocates-twice", text="Plain needs more than fast.", subject=FAST, baseline=PLAIN, cases=(LARGE,),
    threshold=2.0, measure="memory",
)  # fmt: skip


def kernel(read_bytes: float | None = 100 * MB, written_bytes: float | None = 100 * MB, **changes: Any) -> Kernel:
    facts: dict[str, Any] = {
        "name": "a_kernel", "grid": "(1, 1, 1)", "block": "(128, 1, 1)", "duration_seconds": 1e-5,
        "dram_read_bytes": read_bytes, "dram_written_bytes": written_bytes, "dram_percent": 80.0,
        "occupancy_percent": 90.0, "registers_per_thread": 32.0, "shared_bytes_per_block": 0.0,
    }  # fmt: skip
    return Kernel(**(facts | changes))


def counters(*kernels: Kernel, **changes: Any) -> Counters:
    facts: dict[str, Any] = {
        "experiment": "doubling", "case": LARGE.name, "profile": "fast", "outcome": "measured", "reason": "",
        "kernels": kernels, "ncu": "2025.3.1.0", "report_sha256": "",
    }  # fmt: skip
    return Counters(**(facts | changes))


def recounted(records: Iterable[Record], kernels: Mapping[str, Sequence[Kernel]]) -> list[Record]:
    """The records with other kernels of some profiles."""
    return [
        dataclasses.replace(record, kernels=tuple(kernels[record.profile]))
        if isinstance(record, Counters) and record.profile in kernels
        else record
        for record in records
    ]


def once(times_read: float = 1.0, times_written: float = 1.0, **changes: Any) -> list[Kernel]:
    """One kernel, with multiples of what the large case must move."""
    return [kernel(times_read * LARGE_BYTES, times_written * LARGE_BYTES, **changes)]


def traffic_plan(*claims: Claim, **how: Any) -> Plan:
    claims = claims or (FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE)
    experiment = small_experiment(claims=claims, headlines=claims)
    return plan_of(experiments=[experiment], **({"include": ["large-sweep"], "profiling": True} | how))


def counted_run(
    *claims: Claim, fast: Sequence[Kernel] = (), plain: Sequence[Kernel] = (), profiling: bool = True, **how: Any
) -> RunResult:
    """A run of the large case, its claims judged. Where not told otherwise, fast moves the least and plain thrice."""
    plan = traffic_plan(*claims, profiling=profiling)
    counts = {"fast": fast or once(), "plain": plain or once(3.0, 3.0)}
    return judge_run(plan, recounted(records_of(plan, TIMES, noise=0.001, **how), counts))


def allocating(fast: int | None, plain: int | None) -> RunResult:
    """A run whose two profiles allocate so many times the result of the large case."""
    plan = traffic_plan(RESULT_ALONE, PLAIN_TAKES_TWICE, profiling=False)
    times = {"fast": fast, "plain": plain}
    return judge_run(
        plan,
        [
            dataclasses.replace(record, peak_memory_bytes=None if (share := times[record.profile]) is None else
                                share * LARGE_BYTES)
            if isinstance(record, Cell) and record.profile in times
            else record
            for record in records_of(plan, TIMES, noise=0.001)
        ],
    )  # fmt: skip
