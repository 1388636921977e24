"""Two small cases, two profiles, on the CPU: what the tests of faults measure through the command line."""

from typing import Any

import torch
from torch import Tensor

from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.traffic import Traffic


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


def double(x: Tensor) -> Any:
    return x * 2


DOUBLING = Operator(
    name="doubling", inputs=inputs, reference=lambda x: 2 * x.double(), tolerance=1, edges=(),
    traffic=lambda shape, itemsize: Traffic(read_bytes=shape[0] * 64 * itemsize, written_bytes=itemsize, flops=1),
)  # fmt: skip
CASES = tuple(
    Case(operator=DOUBLING, shape=(rows, 64), dtype="float32", description=f"{rows} rows") for rows in (8, 16)
)
ONE, TWO = (
    Profile(
        name=name, title=name, technique="As named.", hypothesis="As named.", signal="None.",
        implementations={"doubling": lambda: double},
    )
    for name in ("one", "two")
)  # fmt: skip
CLAIM = Claim(name="one-beats-two", text="One is faster.", subject=ONE, baseline=TWO, cases=CASES)
PAIR = Experiment(
    name="pair", title="Pair", question="Does it stay whole?", importance="It must.", focus="Faults", cases=CASES,
    profiles=(ONE, TWO), claims=(CLAIM,), headlines=(CLAIM,), does_not_show=("All else.",),
    metrics={"Latency": ("p50",)},
)  # fmt: skip
EXPERIMENTS = (PAIR,)
