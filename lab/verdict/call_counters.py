"""What the profiler counted of one call: its kernels, summed up. Pure.

A sum where a sum has sense, such as bytes and time; else the mean of the kernels, weighted by their durations, as
lab.quantities says. A figure that one of the kernels lacks is None: a part of a call would be taken for all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.evidence.record import Counters, Kernel
from lab.quantities import COUNTERS


@dataclass(frozen=True, kw_only=True, slots=True)
class CallCounters:
    """One call of a profile, as the profiler's pass saw it. `counters` are by their names in lab.quantities."""

    launches: int
    counters: Mapping[str, float | None]

    @property
    def dram_read_bytes(self) -> float | None:
        return self.counters["dram_read_bytes"]

    @property
    def dram_written_bytes(self) -> float | None:
        return self.counters["dram_written_bytes"]

    @property
    def dram_bytes(self) -> float | None:
        if self.dram_read_bytes is None or self.dram_written_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_written_bytes


def call_of(counters: Counters | None) -> CallCounters | None:
    """The kernels of a profiled cell as one call; None where none were counted."""
    if counters is None or not counters.kernels:
        return None
    kernels = counters.kernels
    summed_up = {
        name: _over_call(kernels, name, quantity.over_call) for name, quantity in COUNTERS.items() if quantity.over_call
    }
    return CallCounters(launches=len(kernels), counters=summed_up)


def limiters(kernel: Kernel) -> tuple[str, ...]:
    """What allows the fewest blocks on a multiprocessor; several where they tie, none where ncu did not say."""
    blocks = kernel.blocks_per_multiprocessor
    fewest = min(blocks.values(), default=0.0)
    return tuple(limit for limit, allowed in sorted(blocks.items()) if allowed == fewest)


def top_stall(kernel: Kernel) -> str:
    """The reason that most warps waited for, per instruction issued; empty where ncu did not say."""
    return max(sorted(kernel.stalls), key=lambda reason: kernel.stalls[reason], default="")


def _over_call(kernels: Sequence[Kernel], name: str, how: str) -> float | None:
    values = [getattr(kernel, name) for kernel in kernels]
    return _sum(values) if how == "sum" else _mean(kernels, values)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _mean(kernels: Sequence[Kernel], values: Sequence[float | None]) -> float | None:
    pairs = [
        (kernel.duration_seconds, value)
        for kernel, value in zip(kernels, values, strict=True)
        if kernel.duration_seconds is not None and value is not None
    ]
    total = sum(seconds for seconds, _ in pairs)
    if len(pairs) < len(values) or total <= 0:
        return None
    return sum(seconds * value for seconds, value in pairs) / total
