"""What a profile would have to replace in order to forge its time, or to pass for right."""

import builtins
import gc
import math
import random
import secrets
import statistics
import time

import torch

from lab.evidence import codec, record
from lab.worker import (
    clock,
    compiled,
    correctness,
    cpu,
    deferred,
    device,
    draws,
    guard,
    inductor,
    launches,
    measure,
    ptx,
    ring,
    sweep_case,
    tensors,
)

ROOMS = (
    clock, codec, compiled, correctness, cpu, deferred, device, draws, guard, inductor, launches, measure, ptx, record,
    ring, sweep_case, tensors,
)  # fmt: skip
USED_OF = (builtins, gc, math, random, random.Random, random.SystemRandom, secrets, statistics, time, torch.Tensor)
OPERATORS = tuple(f"__{name}__" for name in ("eq", "or", "and", "mul", "add", "getitem", "bool", "float"))
# Named one by one, because importing torch._dynamo replaces some that the lab does not use.
TORCH = (
    "neg",
    "bitwise_xor",
    "cat",
    "randint",
    "equal",
    "empty_strided",
    "finfo",
    "full_like",
    "sum",
    "zeros",
    "ones",
    "ones_like",
    "empty",
    "Generator",
)


def make_guard() -> guard.Guard:
    """To be made before anything of a profile's is imported."""
    named = [
        *((torch.Tensor, name) for name in OPERATORS),
        *((torch, name) for name in TORCH),
        *((kind, "_randbelow") for kind in (random.Random, random.SystemRandom)),
    ]
    return guard.Guard([*device.WATCHED, *named, *guard.used(ROOMS, USED_OF)], ROOMS)
