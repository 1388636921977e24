"""Cheats that use what all profiles share: names in modules, settings of the process, its processor time."""

import importlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
DAWDLE_SECONDS = 500e-6
WORKING_SECONDS = 60.0


def _dawdling(function: Callable[..., Any]) -> Callable[..., Any]:
    def dawdle(*arguments: Any, **options: Any) -> Any:
        until = time.perf_counter() + DAWDLE_SECONDS
        while time.perf_counter() < until:
            pass
        return function(*arguments, **options)

    return dawdle


def _own() -> Norm:
    """F.rms_norm by the function that it calls, so that rebinding F.rms_norm does not change it."""
    real = torch.rms_norm
    return lambda x, weight: real(x, (x.shape[-1],), weight, 1e-6)


def slowed_lookup() -> Norm:
    own = _own()
    F.rms_norm = _dawdling(F.rms_norm)
    return own


def slowed_lookup_later() -> Norm:
    own, slow, calls = _own(), _dawdling(F.rms_norm), 0

    def run(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        F.rms_norm = slow
        return own(x, weight)

    return run


def slowed_module() -> Norm:
    own = _own()
    rival: Any = importlib.import_module("experiments.normalization_fusion")

    def run(x: Tensor, weight: Tensor) -> Tensor:
        rival.F = type("Slow", (), {"rms_norm": staticmethod(_dawdling(torch.nn.functional.rms_norm))})
        return own(x, weight)

    return run


def hidden_built_in() -> Norm:
    """Defines a `round` in the measuring modules, which hides Python's own."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        sys.modules["lab.worker.cpu"].round = lambda value, digits: value / 2  # type: ignore[attr-defined]
        sys.modules["lab.worker.measure"].round = lambda value, digits: value / 2  # type: ignore[attr-defined]
        return rmsnorm_fused(x, weight)

    return run


def constant_inputs() -> Norm:
    real = torch.randn
    results: dict[Any, Tensor] = {}

    def constant(*size: Any, **options: Any) -> Tensor:
        options.pop("generator", None)
        return real(*size, **options, generator=torch.Generator(options.get("device", "cpu")).manual_seed(7))

    torch.randn = constant
    return lambda x, weight: results.setdefault(x.shape, rmsnorm_fused(x, weight)).clone()


def constant_places() -> Norm:
    """Makes torch.randint return zeros, so that the same elements change before each call."""
    library: Any = torch
    library.randint = lambda high, size, **options: torch.zeros(size, dtype=torch.int64)
    results: dict[int, Tensor] = {}

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if x.data_ptr() not in results:
            results[x.data_ptr()] = rmsnorm_fused(x, weight)
        return results[x.data_ptr()].clone()

    return run


def working_thread() -> Norm:
    started: list[threading.Thread] = []

    def work() -> None:
        until = time.monotonic() + WORKING_SECONDS
        while time.monotonic() < until:
            pass

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if not started:
            started.append(threading.Thread(target=work, daemon=True))
            started[0].start()
        return rmsnorm_fused(x, weight)

    return run


def working_child() -> Norm:
    started: list[subprocess.Popen[bytes]] = []
    program = f"import time\nuntil = time.monotonic() + {WORKING_SECONDS}\nwhile time.monotonic() < until: pass"

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if not started:
            started.append(subprocess.Popen([sys.executable, "-c", program]))
        return rmsnorm_fused(x, weight)

    return run


def many_threads_for_others() -> Norm:
    """Sets more threads than there are cores for other profiles, whose operators then wait for each other's threads."""
    own, threads = _own(), torch.get_num_threads()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        torch.set_num_threads(threads)
        y = own(x, weight)
        torch.set_num_threads(8 * (os.cpu_count() or 1))
        return y

    return run


def one_core_for_others() -> Norm:
    own, cores = _own(), os.sched_getaffinity(0)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        os.sched_setaffinity(0, cores)
        y = own(x, weight)
        os.sched_setaffinity(0, {min(cores)})
        return y

    return run
