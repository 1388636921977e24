"""Cheats that return at once and finish after the clock has stopped, in a thread, hook or callback."""

import _thread
import gc
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
SOON_SECONDS = 20e-6


class Owed:
    """Deferred work, which `finish` does."""

    def __init__(self) -> None:
        self._owed: tuple[Tensor, Tensor, Tensor] | None = None

    def promise(self, x: Tensor, weight: Tensor) -> Tensor:
        y = torch.empty_like(x)
        self._owed = y, x, weight
        return y

    def finish(self) -> None:
        if self._owed:
            y, x, weight = self._owed
            self._owed = None
            y.copy_(rmsnorm_fused(x, weight))


def by_profile_hook() -> Norm:
    owed = Owed()

    def hook(frame: Any, event: str, argument: Any) -> None:
        if (
            event == "c_return" and getattr(argument, "__name__", "") in ("perf_counter", "record", "query")
        ) or event == "call":
            sys.setprofile(None)
            owed.finish()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        sys.setprofile(hook)
        return y

    return run


def by_trace_hook() -> Norm:
    owed = Owed()

    def hook(frame: Any, event: str, argument: Any) -> None:
        sys.settrace(None)
        owed.finish()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        sys.settrace(hook)
        return y

    return run


def by_signal() -> Norm:
    owed = Owed()
    before: list[Any] = []

    def handler(number: int, frame: Any) -> None:
        owed.finish()
        signal.signal(signal.SIGALRM, before[0])

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        before[:] = [signal.signal(signal.SIGALRM, handler)]
        signal.setitimer(signal.ITIMER_REAL, SOON_SECONDS)
        return y

    return run


def by_collector() -> Norm:
    owed = Owed()

    def finish(phase: str, about: dict[str, int]) -> None:
        if finish in gc.callbacks:
            gc.callbacks.remove(finish)
            owed.finish()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        gc.callbacks.append(finish)
        gc.set_threshold(1)
        gc.enable()
        return y

    return run


def by_thread() -> Norm:
    owed = Owed()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        sys.setswitchinterval(1e-6)
        threading.Thread(target=owed.finish, daemon=True).start()
        return y

    return run


def by_patient_thread() -> Norm:
    """A thread of each call that gets its turn when the interpreter gives it one, after some milliseconds."""
    owed = Owed()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = owed.promise(x, weight)
        _thread.start_new_thread(owed.finish, ())
        return y

    return run


def by_waiting_thread() -> Norm:
    """Its thread waits for the next call to begin, and does not change the interpreter's switch interval."""
    owed = Owed()
    wake = _thread.allocate_lock()
    wake.acquire()
    started = False

    def serve() -> None:
        while wake.acquire():
            owed.finish()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal started
        if not started:
            _thread.start_new_thread(serve, ())
            started = True
        y = owed.promise(x, weight)
        if wake.locked():
            wake.release()
        return y

    return run
