"""What an H100 makes of the kernels that turn heads, compiled without one; and what a search may try of them."""

import json
import math

import pytest
import torch
import triton
from compiled import printed

from lab.kernels.heads import head_choices, head_rule, unit_of
from lab.kernels.rmsnorm_rope import rmsnorm_rope_choices, rmsnorm_rope_rule

# Compiles kernels and prints of each: accesses of global memory of 16 bytes, all of them, and bytes of shared memory;
# in a process of its own, where kernels are not interpreted.
COMPILING = """
import importlib, json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

for module, name, dtype, warps, constants in json.load(sys.stdin):
    kernel = getattr(importlib.import_module(f"lab.kernels.{module}"), name)
    uneven = {"eps"}
    if constants.get("UNIT", 16) < 16:  # strides in units are no multiples of 16
        uneven |= {n for n in kernel.arg_names if n.endswith(("_batch", "_head", "_token"))}
    types = {n: f"*{dtype}" if n.endswith("_ptr") else "i32" for n in kernel.arg_names} | {"eps": "fp32"}
    signature = {n: "constexpr" if n in constants else types[n] for n in kernel.arg_names}
    aligned = [i for i, n in enumerate(kernel.arg_names) if n not in constants and n not in uneven]
    source = ASTSource(kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in aligned})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    wide = len(re.findall(r"(?:ld|st)[.]global[^;]*[.]v4[.]", made.asm["ptx"]))
    print(json.dumps([wide, len(re.findall(r"(?:ld|st)[.]global", made.asm["ptx"])), made.metadata.shared]))
"""
EVERY = {"INTERLEAVED": False, "MASKED": False}
Asked = tuple[str, str, str, int, dict[str, int]]  # module, kernel, dtype, warps, constants


def triton_version() -> tuple[int, ...]:
    return tuple(int(part) for part in triton.__version__.split(".")[:2])


def turning(module: str, name: str, width: int, dtype: str, **more: int) -> Asked:
    chosen = head_rule((1, 32, 8, 8192, width), 4 if dtype == "fp32" else 2)
    unit = math.gcd(16, width // 2)
    sizes = {"D": width, "PAIRS": triton.next_power_of_2(width // 2), "Q_HEADS": 32, "K_HEADS": 8}
    sizes |= {"UNIT": unit, "ANGLE_UNIT": unit, "HEADS_FIRST": True, "ONE_SEQUENCE": True}
    return module, name, dtype, chosen.num_warps, dict(chosen.constants) | sizes | EVERY | more


def turning_rows(heads: int, width: int, masked: bool) -> Asked:
    chosen = rmsnorm_rope_rule((1, 4096, heads, width), 2)
    sizes = {"D": width, "PAIRS": width // 2, "H": heads * width, "HEADS": triton.next_power_of_2(heads)}
    constants = dict(chosen.constants) | sizes | EVERY | {"MASKED": masked}
    return "rmsnorm_rope", "_rmsnorm_rope_kernel", "fp16", chosen.num_warps, constants


ROPE = {"PASS": 0, "INVERSE": False}
TURNED = [
    turning("rope", "_rope_kernel", 128, "bf16", HALF=64, **ROPE),
    turning("rope", "_rope_kernel", 64, "fp16", HALF=32, **ROPE),
    turning("rope", "_rope_kernel", 128, "fp32", HALF=64, **ROPE),
    turning("rope", "_rope_kernel", 96, "bf16", HALF=48, **ROPE | {"MASKED": True}),
    turning("rmsnorm_rope", "_qk_norm_rope_kernel", 128, "bf16"),
    turning("rmsnorm_rope", "_qk_norm_rope_kernel", 72, "fp32", MASKED=True),
]
ROWS = [turning_rows(64, 64, masked=False), turning_rows(28, 128, masked=True)]


@pytest.fixture(scope="module")
def compiled() -> list[list[int]]:
    """What became of TURNED, then of ROWS."""
    asked = [*TURNED, *ROWS]
    answers = [json.loads(line) for line in printed(COMPILING, asked).splitlines()]
    assert len(answers) == len(asked)
    return answers


def test_heads_cross_memory_16_bytes_a_thread_and_threads_exchange_no_more_than_angles(
    compiled: list[list[int]],
) -> None:
    """Triton 3.6 hands the angles of a program, loaded once for several heads, round through shared memory."""
    angle_bytes = 2 * 4 * 64 * 4 if triton_version() < (3, 7) else 0
    for wide, accesses, shared in compiled[: len(TURNED)]:
        assert wide == accesses > 0
        assert shared <= angle_bytes


def test_rows_cross_memory_16_bytes_a_thread(compiled: list[list[int]]) -> None:
    for wide, accesses, _ in compiled[len(TURNED) :]:
        assert wide == accesses > 0


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(
    "shape", [(1, 32, 8, 8192, 128), (64, 28, 4, 1, 128), (1, 32, 0, 512, 64), (1, 2, 1, 3, 8), (2, 7, 7, 100, 2)]
)
def test_what_the_rule_says_is_among_the_choices(shape: tuple[int, ...], itemsize: int) -> None:
    choices = list(head_choices(shape, itemsize))
    assert head_rule(shape, itemsize) in choices
    assert len(set(choices)) == len(choices) <= 30


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("shape", [(8, 2048, 64, 64), (1, 1, 256, 128), (1, 3, 2, 8), (2, 5, 28, 128)])
def test_what_the_rule_says_of_rows_is_among_the_choices(shape: tuple[int, ...], itemsize: int) -> None:
    choices = list(rmsnorm_rope_choices(shape, itemsize))
    assert rmsnorm_rope_rule(shape, itemsize) in choices
    assert len(set(choices)) == len(choices) <= 30


def test_the_unit_of_strides_divides_them_and_a_half_of_a_head() -> None:
    heads = torch.empty((3, 5, 71, 72)).transpose(1, 2)
    assert unit_of([heads], 36) == 4
    assert unit_of([heads, heads[..., 1:]], 72) == 8
    assert unit_of([heads, torch.empty((3, 71, 5, 73))[..., :72]], 36) == 1
    assert unit_of([torch.empty((1, 2, 4, 128))], 64) == 16
    # Steps that are never taken, such as between sequences if there is one, do not count.
    assert unit_of([torch.empty_strided((1, 2, 4, 64), (3, 256, 64, 1))], 32) == 16
