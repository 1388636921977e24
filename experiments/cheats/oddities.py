"""Honest but odd kernels: each does for a good reason something that a cheat does too."""

import gc
import inspect
import logging
import os
import random
import signal
import subprocess
import sys
import typing
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
LONG_SECONDS = 60


def thread_pool() -> Norm:
    pool: list[ThreadPoolExecutor] = []

    def run(x: Tensor, weight: Tensor) -> Tensor:
        pool[:] = pool or [ThreadPoolExecutor(2)]
        y = torch.empty_like(x)
        half = len(x) // 2

        def part(rows: slice) -> None:
            y[rows] = rmsnorm_fused(x[rows], weight)

        list(pool[0].map(part, (slice(0, half), slice(half, None))))
        return y

    return run


def waiting_child() -> Norm:
    started: list[subprocess.Popen[bytes]] = []

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if not started:
            started.append(subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_SECONDS})"]))
        return rmsnorm_fused(x, weight)

    return run


def _leaving(leave: Callable[[], Any]) -> Norm:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        leave()
        return rmsnorm_fused(x, weight)

    return run


def one_thread() -> Norm:
    return _leaving(lambda: torch.set_num_threads(1))


def high_precision() -> Norm:
    return _leaving(lambda: torch.set_float32_matmul_precision("high"))


def set_when_loaded() -> Norm:
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(1)
    return rmsnorm_fused


def own_variable() -> Norm:
    return _leaving(lambda: os.environ.update(LAB_ODDITY="1"))


def logging_norm() -> Norm:
    log = logging.getLogger("oddity")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return _leaving(lambda: log.warning("called"))


def warning_norm() -> Norm:
    return _leaving(lambda: warnings.warn("slow path", RuntimeWarning, stacklevel=2))


def time_limit() -> Norm:
    """Sets its own alarm in each call, and cancels it."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, LONG_SECONDS)
        try:
            return rmsnorm_fused(x, weight)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    return run


def collecting() -> Norm:
    return _leaving(lambda: gc.collect(0))


def own_numbers() -> Norm:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        torch.randn(3)
        random.random()
        return rmsnorm_fused(x, weight)

    return run


def looked_over() -> Norm:
    """Checks every 512th element for NaN, and computes everything."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if bool(x.view(-1)[::512].isnan().any()):
            warnings.warn("NaN in the input", RuntimeWarning, stacklevel=2)
        return rmsnorm_fused(x, weight)

    return run


def in_quarters() -> Norm:
    """The mean square of each quarter of a row, then of all four."""

    def run(x: Tensor, weight: Tensor) -> Tensor:
        if x.shape[-1] % 4:
            return rmsnorm_fused(x, weight)
        squares = torch.stack([part.float().pow(2).mean(-1, keepdim=True) for part in x.chunk(4, dim=-1)]).mean(0)
        return (x.float() * torch.rsqrt(squares + 1e-6)).to(x.dtype) * weight

    return run


def weak_scratch() -> Norm:
    class Scratch:
        def __init__(self, like: Tensor) -> None:
            self.memory = torch.empty_like(like)

    buffers: weakref.WeakValueDictionary[Any, Scratch] = weakref.WeakValueDictionary()
    kept: list[Scratch] = []

    def run(x: Tensor, weight: Tensor) -> Tensor:
        scratch = buffers.get(x.shape) or Scratch(x)
        buffers[x.shape] = scratch
        kept[:] = [scratch]
        return rmsnorm_fused(scratch.memory.copy_(x), weight)

    return run


def own_types() -> Norm:
    """Makes a class and reads its own source when loaded, as compilers of kernels do."""

    class Options(typing.NamedTuple):
        eps: float = 1e-6

    inspect.getsource(own_types)
    options = Options()
    return lambda x, weight: rmsnorm_fused(x, weight, options.eps)
