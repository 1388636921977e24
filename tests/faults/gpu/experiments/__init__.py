"""Experiments whose profiles do to a GPU what kernels do by mistake: LAB_PROJECT names `tests/faults/gpu`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.traffic import Traffic

FOR_EVER_CYCLES = 10**16  # two months at 2 GHz


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


DOUBLING = Operator(
    name="doubling", inputs=inputs, reference=lambda x: 2 * x.double(), tolerance=1, edges=(),
    traffic=lambda shape, itemsize: Traffic(read_bytes=4 << 20, written_bytes=4 << 20, flops=1 << 20),
)  # fmt: skip
CASE = Case(operator=DOUBLING, shape=(1024, 1024), dtype="float32", description="a million")


def double(x: Tensor) -> Tensor:
    return x * 2


def too_much(x: Tensor) -> Tensor:
    """More memory than the GPU has."""
    return torch.empty(2 * torch.cuda.get_device_properties(x.device).total_memory, dtype=torch.uint8, device=x.device)


def out_of_bounds(x: Tensor) -> Tensor:
    """A kernel that reads where nothing is: CUDA answers no further call of the process."""
    return x.view(-1)[torch.full((1,), 1 << 40, device=x.device)] * 2


def for_ever(x: Tensor) -> Tensor:
    torch.cuda._sleep(FOR_EVER_CYCLES)
    return x * 2


def profile(name: str, function: Callable[..., Any]) -> Profile:
    return Profile(
        name=name, title=name, technique="As named.", hypothesis="As named.", signal="None.",
        implementations={"doubling": lambda: function}, devices=("cuda",),
    )  # fmt: skip


ONE, TWO = profile("one", double), profile("two", double)
CLAIM = Claim(name="one-beats-two", text="One is faster.", subject=ONE, baseline=TWO, cases=(CASE,))
QUIET = Experiment(
    name="quiet", title="Quiet", question="Is it fast?", importance="It is.", focus="Doubling", cases=(CASE,),
    profiles=(ONE, TWO), claims=(CLAIM,), headlines=(CLAIM,), does_not_show=("Anything else.",),
    metrics={"Latency": ("p50",)},
)  # fmt: skip
FAULTS = dataclasses.replace(
    QUIET,
    name="gpu-faults",
    profiles=(
        ONE,
        profile("needs-too-much", too_much),
        profile("reads-out-of-bounds", out_of_bounds),
        profile("never-ends", for_ever),
        TWO,
    ),
)
EXPERIMENTS = (QUIET, FAULTS)
