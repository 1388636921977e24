"""Experiments that the tests of lab.run measure in real processes: put `tests/toys` on the worker's PYTHONPATH."""

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.traffic import Traffic

CALLS_WHILE_CHECKED = 4  # one to prepare, one for each of three seeds


class Report(Tensor):
    """Not a plain tensor."""


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


def no_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    raise MemoryError("no room for the inputs")


def operator(name: str, make: Callable[..., Any]) -> Operator:
    return Operator(
        name=name, inputs=make, reference=lambda x: 2 * x.double(), tolerance=1,
        traffic=lambda shape, itemsize: Traffic(read_bytes=itemsize, written_bytes=itemsize, flops=1),
    )  # fmt: skip


def double(x: Tensor) -> Tensor:
    return x * 2


def chatty(x: Tensor) -> Tensor:
    print("a library that talks on standard output", flush=True)
    return x * 2


def crash(x: Tensor) -> Tensor:
    ctypes.string_at(0)
    return x


def leave(x: Tensor) -> Tensor:
    sys.exit(3)


def refuse(x: Tensor) -> Tensor:
    raise ValueError(f"not today, said {os.path.expanduser('~')}/it\nand more")


def hang(x: Tensor) -> Tensor:
    while True:
        time.sleep(1)


def once_checked(then: Callable[[Tensor], Tensor]) -> Callable[[], Callable[[Tensor], Tensor]]:
    """Right while it is checked, and another once it is timed."""

    def load() -> Callable[[Tensor], Tensor]:
        count = itertools.count(1)
        return lambda x: double(x) if next(count) <= CALLS_WHILE_CHECKED else then(x)

    return load


def profile(name: str, function: Callable[..., Any], load: Callable[[], Any] | None = None, **more: Any) -> Profile:
    loader = load or (lambda: function)
    return Profile(
        name=name, title=name, technique="As named.", hypothesis="As named.", signal="None.",
        implementations={"doubling": loader, "lost": loader}, **more,
    )  # fmt: skip


def experiment(name: str, cases: tuple[Case, ...], profiles: tuple[Profile, ...]) -> Experiment:
    claim = Claim(name="one-beats-two", text="It is.", subject=profiles[0], baseline=profiles[1], cases=cases)
    return Experiment(
        name=name, title=name, question="Does it stay whole?", importance="It must.", focus="Faults", cases=cases,
        profiles=profiles, claims=(claim,), headlines=(claim,), does_not_show=("All else.",),
        metrics={"Latency": ("p50",)},
    )  # fmt: skip


CASE = Case(operator=operator("doubling", inputs), shape=(64, 64), dtype="float32", description="small")
LOST = Case(operator=operator("lost", no_inputs), shape=(64, 64), dtype="float32", description="no room")

STEADY = experiment("steady", (CASE,), (profile("one", double), profile("two", double)))
MISCHIEF = experiment(
    "mischief",
    (CASE,),
    (
        profile("good", double),
        profile("spoils-its-input", lambda x: x.mul_(2).clone()),
        profile("chatty", chatty),
        profile("crashes", crash),
        profile("crashes-when-timed", double, once_checked(crash)),
        profile("hangs", hang),
        profile("leaves", leave),
        profile("refuses", refuse),
        profile("wrong", lambda x: x * 3),
        profile("wrong-when-timed", double, once_checked(lambda x: x * 3)),
        profile("no-tensor", lambda x: (x * 2).as_subclass(Report)),
        profile("needs-a-gpu", double, devices=("cuda",)),
        profile("needs-a-package", double, package="no_such_package_anywhere"),
    ),
)
NO_ROOM = experiment("no-room", (LOST, CASE), (profile("one", double), profile("two", double)))

EXPERIMENTS = (STEADY, MISCHIEF, NO_ROOM)
