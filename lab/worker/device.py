"""The GPU's clock: time on the device, block by block. With lab/kernels/launch.py the only module that uses torch.cuda.

A `device_cold` sample: the previous output is poisoned and released, so that the memory the call receives
holds NaN; the cache is flushed by writing, then reading, a buffer of twice its size; the GPU spins while the
host enqueues the call between two events. A sample whose start event the GPU had reached before the host
was done is void, whatever its time. In `device_dirty` the buffer is only written, so that lines are left in the cache
that must go back to memory while the call runs.

The host waits until the call has ended before it enqueues the next one. While it goes on, each launch takes longer to
begin: on an H100 a cold SwiGLU of 128 × 4864 in float32 then read 6.0 to 6.6 µs, and 5.8 to 5.9 otherwise; a
kernel that does next to nothing read 3.8 and 3.4. How far ahead the host runs depends on what a call costs it, so that
of two kernels that are equally fast the one with the cheaper launch seemed slower. Up to four launches behind a call
change nothing: the copies of a drawn result are enqueued before the wait, so that work on another stream is too late.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from lab.errors import PlanError
from lab.worker.clock import FALLBACK_CACHE_BYTES, BackToBack, Block, Call, Clock, Replay, nothing, poison
from lab.worker.cpu import CpuClock
from lab.worker.hook_check import HookCheck

LARGEST_BLOCK = 64
CANARY_SAMPLES = 7
RESTED = 0.99  # of the clock that the process began with
LONGEST_REST_SECONDS = 0.25
NO_POOL = (0, 0)  # where torch puts what belongs to no CUDA graph
PERSISTING_L2 = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
# What a profile would have to replace in order to forge its own time.
WATCHED: tuple[tuple[object, str], ...] = (
    *((torch.cuda.Event, name) for name in ("__new__", "record", "query", "elapsed_time", "synchronize")),
    *((torch.cuda, name) for name in ("Event", "synchronize", "_sleep", "CUDAGraph", "current_stream", "set_stream")),
    *((torch.cuda, name) for name in ("memory_allocated", "max_memory_allocated", "reset_peak_memory_stats")),
    *((torch.cuda, name) for name in ("memory_snapshot", "empty_cache")),
    *((torch._C, name) for name in ("_cuda_synchronize", "_cuda_sleep", "_cuda_getCurrentStream")),
    *((torch.cuda.CUDAGraph, name) for name in ("capture_begin", "capture_end", "replay")),
    *((time, name) for name in ("perf_counter", "monotonic")),
    (statistics, "median"),
)

LIBRARIES = (torch.cuda,)  # what its names stand for is to stay as it is


class CudaClock:
    device = "cuda"
    scopes: tuple[str, ...] = ("device_cold", "device_warm", "graph", "eager", "device_dirty")
    CYCLES = 2_000_000
    CLOCK_CYCLES = 400_000  # about 200 µs: long against the timer's step

    def __init__(self) -> None:
        self.cache_bytes: int = torch.cuda.get_device_properties(0).L2_cache_size or FALLBACK_CACHE_BYTES
        self._flush_buffer = torch.ones(2 * self.cache_bytes // 4, dtype=torch.float32, device="cuda")
        self._sink = torch.empty((), dtype=torch.float32, device="cuda")
        self._copied = torch.empty(4 * self.cache_bytes, dtype=torch.uint8, device="cuda")
        self._original = torch.ones_like(self._copied)
        # Bound here, like all that a block uses, so that no call can put something in its place for a moment.
        self._write = partial(self._flush_buffer.fill_, 1.0)
        self._read = partial(torch.sum, self._flush_buffer, dim=0, out=self._sink)
        self._stream = torch.cuda.current_stream()
        self._current_stream = partial(torch._C._cuda_getCurrentStream, torch.cuda.current_device())
        self._home = self._current_stream()
        self._strayed = False
        self._hooks = HookCheck()
        self._events = [_event_pair() for _ in range(LARGEST_BLOCK)]
        self._clock_events = _event_pair()
        self._persisting_bytes = _persisting_bytes()
        self._cycles_per_second = statistics.median(self._spin_hertz(self.CYCLES) for _ in range(5))

    def block(self, scope: str, calls: Sequence[Call], spin_seconds: float) -> Block:
        """Time each call once. More calls than LARGEST_BLOCK are a caller's bug."""
        if scope == "eager":
            return self._eager_block(calls)
        cycles = int(spin_seconds * self._cycles_per_second)
        sleep, synchronize, stream = torch.cuda._sleep, torch._C._cuda_synchronize, self._stream
        timers = [_Timer.of(*pair) for pair in self._events[: len(calls)]]
        starved: list[bool] = []
        output = None
        in_time = self._enqueue_clock_spin()
        for call, timer in zip(calls, timers, strict=True):
            if scope != "graph":
                poison(output)
                output = None
            call.prepare()
            if scope in ("device_cold", "device_dirty"):
                self.flush(reads=scope == "device_cold")
            sleep(cycles)
            call.touch()
            steps = (partial(timer.start, stream), call.run, partial(timer.stop, stream), timer.started)
            _, output, _, started = self._hooks.run(steps)
            starved.append(started)
            self._restore_stream()
            call.done(output)
            synchronize()
            call.ended()
        seconds = [timer.milliseconds() * 1e-3 for timer in timers]
        valid = tuple(round(s, 10) for s, bad in zip(seconds, starved, strict=True) if not bad)
        return Block(valid, sum(starved), self._clock_hertz() if in_time else None)

    def cold_seconds(self, runs: Sequence[Callable[[], Any]], *, flush_reads: bool, spin_seconds: float) -> list[float]:
        """Times of `runs` after a flush that reads what it wrote, or leaves it dirty in the cache."""
        for run, (start, stop) in zip(runs, self._events, strict=False):
            self.flush(reads=flush_reads)
            torch.cuda._sleep(int(spin_seconds * self._cycles_per_second))
            start.record()
            run()
            stop.record()
            torch.cuda.synchronize()
        return [start.elapsed_time(stop) * 1e-3 for start, stop in self._events[: len(runs)]]

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        """Host time of each sample while the GPU is kept busy, so that only enqueueing is timed."""
        moment, synchronize = time.perf_counter, torch._C._cuda_synchronize
        timer = _Timer.of(*self._events[0])
        seconds = []
        for call in calls:
            call.prepare()
            torch.cuda._sleep(self.CYCLES)
            begin = moment()
            call.touch()
            timer.start(self._stream)
            call.run()
            timer.stop(self._stream)
            seconds.append(moment() - begin)
            synchronize()
        return seconds

    def capture(self, runs: Sequence[Callable[[], Any]]) -> Replay:
        """The calls as one CUDA graph; RuntimeError where they cannot be captured, or leave work unjoined.

        Every output stays alive, so that each has memory of its own.
        """
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin()
            try:
                outputs = [run() for run in runs]
            except BaseException:
                with suppress(RuntimeError):  # what broke the capture is already on its way up
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        return _CudaReplay(graph, outputs)

    def back_to_back(self, replay: Replay, replays: int, batches: int, ask: Callable[[], Any]) -> BackToBack:
        """Events stand around each batch, and behind a spin of about 250 µs that follows it and shows the clock.

        The host is late where the GPU had nothing left to do before a replay, or before the spin behind a batch was
        enqueued. A launch that takes longer than a replay leaves the GPU dry in the middle of it, when nobody can look:
        so the host is late too where the GPU had come to the last replay of a batch before that was enqueued. Nothing
        comes before the very first replay. Returns when the clock has recovered, or after LONGEST_REST_SECONDS.
        """
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * batches + 1)]
        begins, ends = events[0::2], events[1::2]
        stream, before_last = torch.cuda.current_stream(), torch.cuda.Event()
        begun = late = False
        begins[0].record()
        for end, next_begin in zip(ends, begins[1:], strict=True):
            for number in range(replays):
                late |= begun and stream.query()
                if number == replays - 1:
                    before_last.record()
                replay.replay()
                late |= begun and number == replays - 1 and before_last.query()
                begun = True
            end.record()
            torch.cuda._sleep(self.CLOCK_CYCLES)
            late |= end.query()
            next_begin.record()
        begins[-2].synchronize()
        told = ask()
        torch.cuda.synchronize()
        self._rest()
        batch_milliseconds, spin_milliseconds = (
            [before.elapsed_time(after) for before, after in zip(*pairs, strict=True)]
            for pairs in ((begins[:-1], ends), (ends, begins[1:]))
        )
        return BackToBack(
            seconds=tuple(milliseconds * 1e-3 for milliseconds in batch_milliseconds),
            spin_hertz=tuple(round(self.CLOCK_CYCLES / (each * 1e-3)) for each in spin_milliseconds),
            told=told,
            late=late,
        )

    def on_stream(self, address: int) -> AbstractContextManager[Any]:
        """Launches inside go to a stream that another library made."""
        return torch.cuda.stream(torch.cuda.ExternalStream(address))

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

    def floors(self) -> tuple[float, float]:
        """(seconds of a kernel that does nothing, seconds between two events with nothing between them)."""
        target = torch.empty(1, device="cuda")
        return self._floor(target.zero_), self._floor(nothing)

    def canary(self) -> tuple[float, float] | None:
        """(seconds of a fixed copy, clock in hertz during a fixed spin); None where the host was never in time."""
        self._rest()
        seconds = [self._guarded(lambda: self._copied.copy_(self._original)) for _ in range(CANARY_SAMPLES)]
        spins = [self._guarded(lambda: torch.cuda._sleep(self.CYCLES)) for _ in range(CANARY_SAMPLES)]
        copies, turns = ([value for value in values if value is not None] for values in (seconds, spins))
        if not copies or not turns:
            return None
        return statistics.median(copies), round(self.CYCLES / statistics.median(turns))

    def _rest(self) -> None:
        """Wait until the clock has recovered from a case that held the GPU at its power limit."""
        deadline = time.monotonic() + LONGEST_REST_SECONDS
        # Spins as long as those at the beginning: the events around one cost a part of it.
        while self._spin_hertz(self.CYCLES) < RESTED * self._cycles_per_second and time.monotonic() < deadline:
            time.sleep(0.01)

    def _guarded(self, run: Callable[[], Any]) -> float | None:
        """Cold seconds of one call, or None where the GPU had to wait for the host."""
        start, stop = self._events[0]
        self.flush()
        torch.cuda._sleep(self.CLOCK_CYCLES)
        start.record()
        run()
        stop.record()
        late = start.query()
        torch.cuda.synchronize()
        return None if late else float(start.elapsed_time(stop)) * 1e-3

    def peak_memory_bytes(self, run: Callable[[], Any]) -> int | None:
        """By torch's own allocator: what a library takes from the driver by itself is not seen."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before_bytes = torch.cuda.memory_allocated()
        output = run()
        torch.cuda.synchronize()
        peak_bytes = torch.cuda.max_memory_allocated() - before_bytes
        del output
        return int(peak_bytes)

    def graph_pools(self) -> Mapping[tuple[int, int], int]:
        """Whole segments of torch's allocator; what libraries take from the driver by themselves is not seen."""
        pools = bytes_by_pool(torch.cuda.memory_snapshot())
        if pools:
            torch.cuda.empty_cache()  # gives back the pools of graphs that are gone
            pools = bytes_by_pool(torch.cuda.memory_snapshot())
        return pools

    def flush(self, reads: bool = True) -> None:
        """Push everything out of the cache; reading back leaves clean lines, which need no write-back."""
        self._write()
        if reads:
            self._read()

    def tampering(self) -> str:
        """Whether a profile left another stream current, or set a part of the GPU's cache aside for itself."""
        self._restore_stream()
        strayed, self._strayed = self._strayed, False
        left = self._hooks.tampering()
        if (size_bytes := _persisting_bytes()) != self._persisting_bytes:
            _set_persisting_bytes(self._persisting_bytes)
            return f"set the L2 cache's persisting part from {self._persisting_bytes} to {size_bytes} bytes"
        return left or ("left another stream current" if strayed else "")

    def _restore_stream(self) -> None:
        """Undo and note that a call left another stream current: what follows it would run, and wait, there."""
        if self._current_stream() != self._home:
            torch.cuda.set_stream(self._stream)
            self._strayed = True

    def _eager_block(self, calls: Sequence[Call]) -> Block:
        """Wall time of each call with the wait for its result: what a Python caller sees."""
        moment, synchronize = time.perf_counter, torch._C._cuda_synchronize
        seconds = []
        output = None
        for call in calls:
            poison(output)
            output = None
            call.prepare()
            call.touch()
            synchronize()
            begin, output, _, end = self._hooks.run((moment, call.run, synchronize, moment))
            seconds.append(round(end - begin, 10))
            self._restore_stream()
            call.done(output)
            call.ended()
        return Block(tuple(seconds), 0)

    def _floor(self, run: Callable[[], Any]) -> float:
        calls = [Call(nothing, nothing, run)] * 20
        blocks = [self.block("device_cold", calls, 200e-6) for _ in range(3)]
        return statistics.median(s for block in blocks for s in block.seconds)

    def _enqueue_clock_spin(self) -> bool:
        """Whether the host was in time: else the spin's time holds a wait for the host."""
        start, stop = self._clock_events
        torch.cuda._sleep(self.CLOCK_CYCLES)
        start.record()
        torch.cuda._sleep(self.CLOCK_CYCLES)
        stop.record()
        return not start.query()

    def _clock_hertz(self) -> float:
        start, stop = self._clock_events
        return round(self.CLOCK_CYCLES / (float(start.elapsed_time(stop)) * 1e-3))

    def _spin_hertz(self, cycles: int) -> float:
        start, stop = self._events[0]
        self.flush()  # keeps the GPU busy until the spin is enqueued
        start.record()
        torch.cuda._sleep(cycles)
        stop.record()
        torch.cuda.synchronize()
        return round(cycles / (float(start.elapsed_time(stop)) * 1e-3))


@dataclass(frozen=True, slots=True)
class _Timer:
    """Two events through the methods that torch's own class wraps: they cannot be replaced, even for a moment."""

    start: Callable[[Any], None]
    stop: Callable[[Any], None]
    started: Callable[[], bool]
    milliseconds: Callable[[], float]

    @classmethod
    def of(cls, start: torch.cuda.Event, stop: torch.cuda.Event) -> "_Timer":
        first: Any = super(torch.cuda.Event, start)
        last: Any = super(torch.cuda.Event, stop)
        return cls(first.record, last.record, first.query, partial(first.elapsed_time, stop))


@dataclass(frozen=True, slots=True)
class _CudaReplay:
    graph: torch.cuda.CUDAGraph
    outputs: Sequence[Any]

    def replay(self) -> None:
        self.graph.replay()


def bytes_by_pool(segments: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], int]:
    """Of the segments of torch's allocator those that belong to a pool, as the memory of each CUDA graph does."""
    pools: dict[tuple[int, int], int] = {}
    for segment in segments:
        pool = segment["segment_pool_id"]
        if pool != NO_POOL:
            pools[pool] = pools.get(pool, 0) + segment["total_size"]
    return pools


def choose_device(wanted: str) -> str:
    """'cuda' or 'cpu' for 'auto', 'cuda' or 'cpu'; PlanError where CUDA is wanted and absent."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise PlanError("--device cuda: torch sees no CUDA GPU here (`lab doctor` says why); accepted is cpu")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def make_clock(device: str) -> Clock:
    return CudaClock() if device == "cuda" else CpuClock()


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


def release_memory() -> None:
    """Give the GPU back what torch keeps of tensors that are gone."""
    torch.cuda.empty_cache()


def _persisting_bytes() -> int:
    """How much of the L2 cache this process may keep from eviction; the driver has a default of its own."""
    size = ctypes.c_size_t(0)
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuCtxGetLimit(ctypes.byref(size), PERSISTING_L2)
    return size.value


def _set_persisting_bytes(size_bytes: int) -> None:
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuCtxSetLimit(PERSISTING_L2, ctypes.c_size_t(size_bytes))


def _event_pair() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
