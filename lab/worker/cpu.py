"""The CPU's clock: its own wall time."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from lab.worker.clock import FALLBACK_CACHE_BYTES, BackToBack, Block, Call, Replay, nothing, poison
from lab.worker.hook_check import HookCheck


class CpuClock:
    """The CPU's own wall time, its last-level cache flushed before each cold call. No launch, no spin.

    Reading twice the cache's size flushes it. With a cache of 480 MiB the next read of 1 MiB then took 142 µs instead
    of 8, and one of 8 MiB 762 µs instead of 294; where the buffer was written as well, which takes three times as long,
    143 and 783 µs.
    """

    device = "cpu"
    scopes: tuple[str, ...] = ("device_cold", "device_warm")

    def __init__(self) -> None:
        self.cache_bytes = last_level_cache_bytes()
        # Pages that were never written would all be one page of zeros.
        self._flush_buffer = torch.ones(2 * self.cache_bytes // 4, dtype=torch.float32)
        self._hooks = HookCheck()

    def block(self, scope: str, calls: Sequence[Call], spin_seconds: float) -> Block:
        # Bound before the first call, so that none can put something in its place for a moment.
        moment, hooks = time.perf_counter, self._hooks
        seconds = []
        output = None
        for call in calls:
            poison(output)
            output = None
            call.prepare()
            if scope == "device_cold":
                self._flush_buffer.sum()
            call.touch()
            begin, output, end = hooks.run((moment, call.run, moment))
            seconds.append(round(end - begin, 10))
            call.done(output)
            call.ended()
        return Block(tuple(seconds), 0)

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        return [0.0 for _ in calls]

    def capture(self, runs: Sequence[Callable[[], Any]]) -> Replay:
        raise RuntimeError("a CPU has no CUDA graphs")

    def back_to_back(self, replay: Replay, replays: int, batches: int, ask: Callable[[], Any]) -> BackToBack:
        raise RuntimeError("a CPU has no CUDA graphs")

    def properties(self) -> dict[str, Any]:
        return {"l2_bytes": self.cache_bytes}

    def floors(self) -> tuple[float, float]:
        target = torch.empty(1)
        calls = [[Call(nothing, nothing, run)] * 20 for run in (target.zero_, nothing)]
        work, empty = (statistics.median(self.block("device_cold", each, 0.0).seconds) for each in calls)
        return work, empty

    def canary(self) -> tuple[float, float] | None:
        """None: a shared CPU drifts by more than any limit that would mean something."""
        return None

    def peak_memory_bytes(self, run: Callable[[], Any]) -> int | None:
        """None: torch keeps no count of a CPU's memory."""
        return None

    def graph_pools(self) -> Mapping[tuple[int, int], int]:
        return {}

    def tampering(self) -> str:
        return self._hooks.tampering()


def last_level_cache_bytes() -> int:
    """Size of the CPU's largest cache as Linux tells it, else 64 MiB."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [FALLBACK_CACHE_BYTES]
    files = list(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    if files:
        texts = [path.read_text().strip() for path in files]
        sizes = [int(text[:-1]) * units[text[-1]] for text in texts if text[-1:] in units] or sizes
    return max(sizes)
