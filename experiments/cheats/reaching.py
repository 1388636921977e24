"""Cheats that change the process that measures them: its records, its samples, its choice of checked calls."""

import gc
import json
import os
import random
import struct
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from experiments.normalization_fusion import rmsnorm_fused

Norm = Callable[[Tensor, Tensor], Tensor]
HONEST_CALLS = 40  # more than the checks and the warm-up take
QUIET_SECONDS = {True: 50e-6, False: 100e-6}  # whether it is the cheat's own


def after_honest_calls(act: Callable[[], None], every_time: bool = False) -> Norm:
    """A correct function that also calls `act` once, or at every call, after the checks."""
    calls = 0

    def run(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > HONEST_CALLS if every_time else calls == HONEST_CALLS + 1:
            act()
        return rmsnorm_fused(x, weight)

    return run


def _quietened(content: Any) -> Any:
    """A record with invented times without noise, half as long for the cheat as for others."""
    if not isinstance(content, dict) or not content.get("timings"):
        return content
    seconds = QUIET_SECONDS["torch" not in content["profile"]]
    quiet = [
        {**timing, "rounds": [[seconds + 1e-8 * (at % 5) for at in range(len(taken))] for taken in timing["rounds"]]}
        for timing in content["timings"]
    ]
    return {**content, "timings": quiet}


def _replace_send() -> None:
    main: Any = sys.modules["__main__"]
    real = main.send
    main.send = lambda descriptor, data: real(descriptor, {**data, "content": _quietened(data["content"])})


def patched_send() -> Norm:
    _replace_send()
    return rmsnorm_fused


def patched_send_later() -> Norm:
    return after_honest_calls(_replace_send)


def patched_json() -> Norm:
    real = json.dumps

    def dumps(data: Any, **options: Any) -> str:
        quiet = (
            {**data, "content": _quietened(data["content"])} if isinstance(data, dict) and "content" in data else data
        )
        return real(quiet, **options)

    def replace() -> None:
        setattr(json, "dumps", dumps)  # noqa: B010

    return after_honest_calls(replace)


def patched_write() -> Norm:
    real = os.write
    header = struct.Struct(">I")

    def write(descriptor: int, data: Any) -> int:
        frame = bytes(data)
        try:
            message = json.loads(frame[header.size :])
            content = json.dumps({**message, "content": _quietened(message["content"])}).encode()
        except (ValueError, TypeError, KeyError):
            return real(descriptor, data)
        real(descriptor, header.pack(len(content)) + content)
        return len(frame)

    def replace() -> None:
        os.write = write

    return after_honest_calls(replace)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _halve(frame: FrameType) -> None:
    """Halve the samples that the clock has taken of this block so far."""
    for caller in _callers(frame):
        seconds = caller.f_locals.get("seconds")
        if caller.f_code.co_name.endswith("block") and isinstance(seconds, list):
            seconds[:] = [each / 2 for each in seconds]


def _slow_rivals(frame: FrameType) -> None:
    """Double the samples of other profiles so far."""
    for caller in _callers(frame):
        each_series = getattr(caller.f_locals.get("self"), "_series", {})
        for (profile, _), series in each_series.items():
            if profile.startswith("torch-fused"):
                series.seconds[:] = [tuple(each * 2 for each in block) for block in series.seconds]


def own_samples() -> Norm:
    return after_honest_calls(lambda: _halve(sys._getframe()), every_time=True)


def rivals_samples() -> Norm:
    def act() -> None:
        try:
            raise ValueError
        except ValueError as problem:
            _slow_rivals(problem.__traceback__.tb_frame)  # type: ignore[union-attr]

    return after_honest_calls(act)


def samples_by_generator() -> Norm:
    def act() -> None:
        def looking() -> Iterator[None]:
            _halve(own.gi_frame)
            yield

        own: Any = looking()
        next(own)

    return after_honest_calls(act, every_time=True)


def samples_by_thread_frames() -> Norm:
    def act() -> None:
        for frame in list(sys._current_frames().values()):
            _slow_rivals(frame)

    return after_honest_calls(act)


def samples_by_search() -> Norm:
    def act() -> None:
        for thing in gc.get_objects():
            if type(thing).__name__ == "_Series" and thing.profile.startswith("torch-fused"):
                thing.seconds[:] = [tuple(each * 2 for each in block) for block in thing.seconds]

    return after_honest_calls(act)


def rewritten_function() -> Norm:
    """Replaces the code of the judge's comparison by code that always says yes."""

    def act() -> None:
        judge: Any = sys.modules["lab.worker.tensors"].same
        judge.__code__ = (lambda one, other: True).__code__

    return after_honest_calls(act)


def half_where_unchecked(replace: Callable[[], None]) -> Norm:
    """Writes only half of the result, except in the first call after each pause, which begins a block."""
    calls = 0
    replace()

    def run(x: Tensor, weight: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls <= HONEST_CALLS or calls % 12 == 0:
            return rmsnorm_fused(x, weight)
        y = torch.empty_like(x)
        y[: len(x) // 2] = rmsnorm_fused(x[: len(x) // 2], weight)
        return y

    return run


def patched_draws() -> Norm:
    def replace() -> None:
        sys.modules["lab.worker.reservoir"].below = lambda limit: 1 % limit  # type: ignore[attr-defined]

    return half_where_unchecked(replace)


def patched_random_source() -> Norm:
    def replace() -> None:
        os.urandom = lambda count: b"\1" + bytes(count - 1)
        random.SystemRandom.getrandbits = lambda self, k: 1  # type: ignore[method-assign]

    return half_where_unchecked(replace)
