"""What a clock is: it times blocks of calls on one kind of device, in one or more scopes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

FALLBACK_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """One sample. `prepare` runs before the flush, `touch` right before the clock starts, `done` gets the result right
    after it stopped, and `ended` runs when the device has done all that was asked of it; only `run` is timed.

    What `done` asks of the device comes right behind the call, before work that the call may have left elsewhere."""

    prepare: Callable[[], None]
    touch: Callable[[], None]
    run: Callable[[], Any]
    done: Callable[[Any], None] = lambda output: None
    ended: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of the valid samples, the number of void ones, the GPU's clock."""

    seconds: tuple[float, ...]
    void: int
    spin_hertz: float | None = None


@dataclass(frozen=True, slots=True)
class BackToBack:
    """Seconds of each batch of replays, the GPU's clock right behind it, and what was `told` as the last one began.

    `late`: the GPU had to wait for the host, so that the replays were not back to back."""

    seconds: tuple[float, ...]
    spin_hertz: tuple[float, ...]
    told: Any
    late: bool


class Replay(Protocol):
    """Calls captured once and replayed together, without the host. Each replay overwrites `outputs`."""

    @property
    def outputs(self) -> Sequence[Any]: ...

    def replay(self) -> None: ...


class Clock(Protocol):
    """Times blocks of calls on one kind of device."""

    device: str
    scopes: tuple[str, ...]
    cache_bytes: int

    def block(self, scope: str, calls: Sequence[Call], spin_seconds: float) -> Block: ...

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]: ...

    def capture(self, runs: Sequence[Callable[[], Any]]) -> Replay: ...

    def back_to_back(self, replay: Replay, replays: int, batches: int, ask: Callable[[], Any]) -> BackToBack:
        """So many batches of so many replays, none of which waits for the host. `ask` is called as the last batch
        begins."""
        ...

    def properties(self) -> dict[str, Any]: ...

    def floors(self) -> tuple[float, float]: ...

    def canary(self) -> tuple[float, float] | None: ...

    def peak_memory_bytes(self, run: Callable[[], Any]) -> int | None:
        """What a call allocates at most beyond what was there before it, its result included; None where the device
        does not tell."""
        ...

    def graph_pools(self) -> Mapping[tuple[int, int], int]:
        """The bytes that CUDA graphs hold, by their memory pool; none where the device has no graphs."""
        ...

    def tampering(self) -> str:
        """What a profile changed on the device, which is undone; empty where nothing was changed."""
        ...


def poison(output: Any) -> None:
    """Fill a result with NaN, so that what is not written again cannot look right."""
    for tensor in output if isinstance(output, tuple) else (output,):
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            tensor.fill_(float("nan"))


def nothing() -> None:
    """The call that does no work."""
