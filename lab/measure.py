"""Time on the device, sample by sample. The only room that touches torch.cuda.

A `device_cold` sample: the previous output is poisoned and released, so that the memory the call
receives holds NaN; the cache is flushed by writing, then reading, a buffer of twice its size; the GPU
spins while the host enqueues the call between two events. A sample whose start event the GPU had
reached before the host was done is void, whatever its time. One synchronisation a block.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from lab import plan
from lab.errors import PlanError
from lab.record import Timing

Call = Callable[[], Any]
Verify = Callable[[str, int, Any], None]
Announce = Callable[[str], None]
WINDOW = 5
STEADY = 0.005
FALLBACK_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of the valid samples, the number of void ones, and what the last call returned."""

    seconds: tuple[float, ...]
    void: int
    output: Any


class Clock(Protocol):
    """Times blocks of calls on one kind of device."""

    device: str

    def block(self, calls: Sequence[Call], spin_seconds: float) -> Block: ...

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]: ...

    def properties(self) -> dict[str, Any]: ...

    def launch_floor_seconds(self) -> float: ...


class CudaClock:
    device = "cuda"
    CYCLES = 2_000_000

    def __init__(self, block: int) -> None:
        cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size or FALLBACK_CACHE_BYTES
        self._flush = torch.ones(2 * cache_bytes // 4, dtype=torch.float32, device="cuda")
        self._sink = torch.empty((), dtype=torch.float32, device="cuda")
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(max(block, WINDOW))
        ]
        self._cycles_per_second = self._measure_spin()

    def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
        """Time each call once, cold. More calls than the clock has events for are a caller's bug."""
        cycles = int(spin_seconds * self._cycles_per_second)
        starved: list[bool] = []
        output = None
        for call, (start, stop) in zip(calls, self._events, strict=False):
            _poison(output)
            output = None
            self._flush.fill_(1.0)
            torch.sum(self._flush, dim=0, out=self._sink)
            torch.cuda._sleep(cycles)
            start.record()
            output = call()
            stop.record()
            starved.append(start.query())
        torch.cuda.synchronize()
        seconds = [start.elapsed_time(stop) * 1e-3 for start, stop in self._events[: len(calls)]]
        valid = tuple(round(s, 10) for s, bad in zip(seconds, starved, strict=True) if not bad)
        return Block(valid, sum(starved), output)

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        """Host time of each call while the GPU is kept busy, so that only enqueueing is timed."""
        seconds = []
        for call in calls:
            torch.cuda._sleep(self.CYCLES)
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
            torch.cuda.synchronize()
        return seconds

    def properties(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(0)
        return {
            "gpu": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda or "",
        }

    def launch_floor_seconds(self) -> float:
        """Time of a one-element fill: what a kernel costs that does nothing."""
        nothing = torch.empty(1, device="cuda")
        blocks = [self.block([nothing.zero_] * WINDOW, 200e-6) for _ in range(6)]
        return statistics.median(s for block in blocks for s in block.seconds)

    def _measure_spin(self) -> float:
        start, stop = self._events[0]
        rates = []
        for _ in range(5):
            start.record()
            torch.cuda._sleep(self.CYCLES)
            stop.record()
            torch.cuda.synchronize()
            rates.append(self.CYCLES / (float(start.elapsed_time(stop)) * 1e-3))
        return statistics.median(rates)


class CpuClock:
    """The CPU's own wall time, its last-level cache flushed before each call. No launch, no spin."""

    device = "cpu"

    def __init__(self) -> None:
        self._cache_bytes = last_level_cache_bytes()
        self._flush = torch.ones(2 * self._cache_bytes // 4, dtype=torch.float32)

    def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
        seconds = []
        output = None
        for call in calls:
            _poison(output)
            output = None
            self._flush.fill_(1.0)
            self._flush.sum()
            begin = time.perf_counter()
            output = call()
            seconds.append(round(time.perf_counter() - begin, 10))
        return Block(tuple(seconds), 0, output)

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        return [0.0 for _ in calls]

    def properties(self) -> dict[str, Any]:
        return {"l2_bytes": self._cache_bytes}

    def launch_floor_seconds(self) -> float:
        nothing = torch.empty(1)
        return statistics.median(self.block([nothing.zero_] * 20, 0.0).seconds)


def choose_device(wanted: str) -> str:
    """'cuda' or 'cpu' for 'auto', 'cuda' or 'cpu'; PlanError where CUDA is wanted and absent."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise PlanError("--device cuda: torch sees no CUDA GPU here (`lab doctor` says why); accepted is cpu")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


@contextmanager
def profiled_range(name: str) -> Iterator[None]:
    """Let an attached profiler see exactly the launches inside, under this name."""
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda.nvtx.range_push(name)
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.nvtx.range_pop()
        torch.cuda.cudart().cudaProfilerStop()


def make_clock(device: str, block: int) -> Clock:
    return CudaClock(block) if device == "cuda" else CpuClock()


def time_case(
    clock: Clock,
    calls: Mapping[str, Sequence[Call]],
    protocol: plan.Protocol,
    shuffler: random.Random,
    verify: Verify,
    announce: Announce,
) -> dict[str, Timing]:
    """Interleaved rounds of all profiles of one case.

    calls: per profile, one call per input set of the ring. verify(profile, ring_index, output) is
    called once per profile, with the last output of a block that is drawn after it was timed;
    announce(profile) is called before a profile's code runs, so that a crash can be laid to it.
    """
    pace = {}
    for name, ring in calls.items():
        announce(name)
        pace[name] = _warm_up(clock, ring, protocol)
    overlong = [p for p in pace.values() if p.sample_seconds * p.block * protocol.rounds > protocol.cell_seconds]
    rounds = protocol.fewest_rounds if overlong else protocol.rounds
    seconds: dict[str, list[tuple[float, ...]]] = {name: [] for name in calls}
    void: dict[str, list[int]] = {name: [] for name in calls}
    unverified = set(calls)
    with _garbage_collection_off():
        for round_index in range(rounds):
            for name in shuffler.sample(sorted(calls), len(calls)):
                ring = calls[name]
                first = round_index * pace[name].block
                indices = [(first + i) % len(ring) for i in range(pace[name].block)]
                announce(name)
                block = clock.block([ring[i] for i in indices], pace[name].spin_seconds)
                seconds[name].append(block.seconds)
                void[name].append(block.void)
                if name in unverified and shuffler.random() * (rounds - round_index) <= 1:
                    verify(name, indices[-1], block.output)
                    unverified.remove(name)
    return {
        name: Timing(
            scope="device_cold",
            rounds=tuple(seconds[name]),
            void=tuple(void[name]),
            enqueue_seconds=round(pace[name].enqueue_seconds, 10),
            spin_seconds=round(pace[name].spin_seconds, 10),
        )
        for name in calls
    }


@dataclass(frozen=True, slots=True)
class _Pace:
    sample_seconds: float
    block: int
    enqueue_seconds: float
    spin_seconds: float


def _warm_up(clock: Clock, ring: Sequence[Call], protocol: plan.Protocol) -> _Pace:
    """Run until three windows agree or time is up; then size the spin and the block for this cell."""
    began = time.perf_counter()
    enqueue = clock.enqueue_seconds([ring[i % len(ring)] for i in range(20)]) if clock.device == "cuda" else [0.0]
    # The slow tail, not the median: a launch that the host is late for is a lost sample.
    spin_seconds = max(protocol.shortest_spin_seconds, 1.5 * sorted(enqueue)[-2 if len(enqueue) > 1 else 0])
    medians: list[float] = []
    sample_seconds = 0.0
    while True:
        window_began = time.perf_counter()
        block = clock.block([ring[i % len(ring)] for i in range(WINDOW)], spin_seconds)
        sample_seconds = (time.perf_counter() - window_began) / WINDOW
        medians.append(statistics.median(block.seconds or (sample_seconds,)))
        steady = len(medians) >= 3 and max(medians[-3:]) <= min(medians[-3:]) * (1 + STEADY)
        if steady or time.perf_counter() - began > protocol.warmup_seconds:
            break
    fitting = int(protocol.cell_seconds / (protocol.rounds * sample_seconds))
    return _Pace(
        sample_seconds=sample_seconds,
        block=max(protocol.smallest_block, min(protocol.block, fitting)),
        enqueue_seconds=statistics.median(enqueue),
        spin_seconds=spin_seconds,
    )


def last_level_cache_bytes() -> int:
    """Size of the CPU's largest cache as Linux tells it, else 64 MiB."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [FALLBACK_CACHE_BYTES]
    found = list(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    if found:
        texts = [path.read_text().strip() for path in found]
        sizes = [int(text[:-1]) * units[text[-1]] for text in texts if text[-1:] in units] or sizes
    return max(sizes)


def _poison(output: Any) -> None:
    """Fill a result with NaN before its memory goes back to the allocator and on to the next call."""
    for tensor in output if isinstance(output, tuple) else (output,):
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            tensor.fill_(float("nan"))


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
