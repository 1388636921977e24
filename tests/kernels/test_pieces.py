"""Rows held in pieces: every way to hold one gives the same result, and the rule's way wastes few lanes and no load."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from accuracy import DTYPES, assert_near
from compiled import printed

from lab.kernels.add_rmsnorm import add_rmsnorm, add_rmsnorm_inputs
from lab.kernels.fp8 import quantize_fp8, quantize_fp8_rule
from lab.kernels.launch import Configuration
from lab.kernels.layernorm import layernorm, layernorm_inputs, layernorm_reference, layernorm_without_clusters
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs, rmsnorm_reference
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8, rmsnorm_fp8_rule
from lab.kernels.rows import FEW_ROWS, norm_rule, piece_constants, row_choices
from lab.kernels.softmax import softmax, softmax_inputs, softmax_reference, softmax_without_clusters

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# Divided by the pieces and not; one row a program and several, the last of which lacks some; packed and not.
WAYS = [
    (640, Configuration.of(ROWS=1, BLOCK=128, num_warps=1)),
    (700, Configuration.of(ROWS=1, BLOCK=256, num_warps=4)),
    (96, Configuration.of(ROWS=2, BLOCK=32, num_warps=1)),
    (1100, Configuration.of(ROWS=4, BLOCK=256, num_warps=2)),
    (33, Configuration.of(ROWS=16, BLOCK=64, num_warps=4)),
    (2100, Configuration.of(ROWS=1, BLOCK=256, num_warps=1)),
]
WIDTHS = (1, 100, 513, 576, 768, 896, 1600, 2880, 4544, 5120, 7168, 12288, 14336, 16383)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("columns", "chosen"), WAYS, ids=str)
def test_norms_agree_with_float64(columns: int, chosen: Configuration, dtype: torch.dtype, device: str) -> None:
    x, weight, bias = layernorm_inputs((5, columns), dtype, device, seed=1)
    assert_near(layernorm(x, weight, bias, configuration=chosen), layernorm_reference(x, weight, bias), x)
    x, weight = rmsnorm_inputs((5, columns), dtype, device, seed=2)
    assert_near(rmsnorm(x, weight, configuration=chosen), rmsnorm_reference(x, weight), x)
    x, residual, weight = add_rmsnorm_inputs((5, columns), dtype, device, seed=3)
    y, s = add_rmsnorm(x, residual, weight, configuration=chosen)
    assert_near(y, rmsnorm_reference(s, weight), x)
    torch.testing.assert_close(s, x + residual)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("columns", "chosen"), WAYS, ids=str)
def test_softmax_agrees_with_float64(columns: int, chosen: Configuration, dtype: torch.dtype, device: str) -> None:
    (x,) = softmax_inputs((5, columns), dtype, device, seed=4)
    x[1] = float("-inf")
    x[2, columns // 2 :] = float("-inf")
    y, truth = softmax(x, configuration=chosen), softmax_reference(x)
    assert y[1].isnan().all()
    assert_near(y[[0, 2, 3, 4]], truth[[0, 2, 3, 4]], x[[0, 2, 3, 4]])


@pytest.mark.parametrize(("columns", "chosen"), WAYS, ids=str)
def test_quantised_rows_come_out_alike(columns: int, chosen: Configuration, device: str) -> None:
    x, weight = rmsnorm_inputs((5, columns), torch.bfloat16, device, seed=5)
    for call in (lambda **how: quantize_fp8(x, **how), lambda **how: rmsnorm_fp8(x, weight, **how)):
        q, scale = call(configuration=chosen)
        again, again_scale = call()
        torch.testing.assert_close(scale, again_scale)
        torch.testing.assert_close(q.float() * scale, again.float() * again_scale, rtol=0.13, atol=1e-3)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(
    "rule", [norm_rule, layernorm_without_clusters, softmax_without_clusters, quantize_fp8_rule, rmsnorm_fp8_rule]
)
def test_the_rule_holds_a_row_in_few_loads_and_wastes_few_lanes(rule: Any, itemsize: int) -> None:
    for rows in (1, 256, 512, 1023, 1024, 4096, 65_536):
        for columns in WIDTHS:
            chosen = rule((rows, columns), itemsize)
            how = piece_constants(chosen, rows, columns, itemsize)
            threads = 32 * chosen.num_warps
            lanes = chosen["ROWS"] * chosen["BLOCK"] * how["PIECES"]
            assert how["PIECES"] * chosen["BLOCK"] >= columns
            assert lanes * itemsize <= 16 * 16 * threads, (rows, columns, chosen)  # at most 16 loads a thread
            if rows > FEW_ROWS and columns > 1024:
                assert lanes <= 1.5 * columns * chosen["ROWS"], (rows, columns, chosen)


@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_search_tries_few_ways_and_each_once(itemsize: int) -> None:
    for columns in (1, 128, 5120, 50_257, 262_144):
        choices = list(row_choices((4096, columns), itemsize))
        assert len(set(choices)) == len(choices) <= 20


# Compiles kernels as their rules launch them, in a process of its own, where kernels are not interpreted; prints for
# each [accesses of global memory of 16 bytes a thread, all accesses].
COMPILING = """
import importlib, json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

for place, (module, kernel, constants, warps, dtype) in enumerate(json.load(sys.stdin)):
    kernel = getattr(importlib.import_module(f"lab.kernels.{module}"), kernel)
    constants = {name: constants["N"] if name.endswith("_stride") else constants[name]
                 for name in kernel.arg_names if name.endswith("_stride") or name in constants}
    signature = {n: "constexpr" if n in constants else {"eps": "fp32", "M": "i32"}.get(n, f"*{dtype}")
                 for n in kernel.arg_names}
    pointers = [i for i, n in enumerate(kernel.arg_names) if n.endswith("_ptr")]
    source = ASTSource(kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in pointers})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    open(f"{place}.cubin", "wb").write(made.asm["cubin"])
    wide = len(re.findall(r"(?:ld|st)[.]global[^;]*[.]v4[.]", made.asm["ptx"]))
    print(json.dumps([wide, len(re.findall(r"(?:ld|st)[.]global", made.asm["ptx"]))]))
"""


def _asked() -> list[Any]:
    asked = []
    kinds = (
        ("rmsnorm", "_rmsnorm_kernel", norm_rule),
        ("layernorm", "_layernorm_kernel", layernorm_without_clusters),
        ("add_rmsnorm", "_add_rmsnorm_kernel", norm_rule),
        ("softmax", "_softmax_kernel", softmax_without_clusters),
    )
    for module, kernel, rule in kinds:
        for columns, dtype, itemsize in ((5120, "bf16", 2), (14336, "bf16", 2), (5120, "fp32", 4)):
            chosen = rule((4096, columns), itemsize)
            constants = {"N": columns, **dict(chosen.constants), **piece_constants(chosen, 4096, columns, itemsize)}
            asked.append((module, kernel, constants, chosen.num_warps, dtype))
    for columns in (50_257, 250_002):
        chosen = softmax_without_clusters((4096, columns), 2)
        tiles = -(-(columns + 7) // chosen["BLOCK"])
        constants = {"N": columns, **dict(chosen.constants), "TILES": tiles}
        asked.append(("softmax", "_softmax_shifted_kernel", constants, chosen.num_warps, "fp16"))
    return asked


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]]]:
    folder = tmp_path_factory.mktemp("pieces")
    return folder, [json.loads(line) for line in printed(COMPILING, _asked(), folder=folder).splitlines()]


def test_what_is_divided_crosses_memory_16_bytes_a_thread(compiled: tuple[Path, list[list[int]]]) -> None:
    for (module, kernel, *_), (wide, accesses) in zip(_asked(), compiled[1], strict=True):
        if kernel.endswith("_shifted_kernel"):  # but for the ends of a row, which are written element by element
            assert wide >= 4, module
        else:
            assert wide == accesses > 0, module


@pytest.mark.skipif(not CUOBJDUMP.exists(), reason="this Triton comes without the tool that tells")
def test_no_rule_spills_more_than_two_registers(compiled: tuple[Path, list[list[int]]]) -> None:
    for place, asked in enumerate(_asked()):
        command = [CUOBJDUMP, "--dump-resource-usage", compiled[0] / f"{place}.cubin"]
        listing = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        assert int(listing.partition("STACK:")[2].split()[0]) <= 8, asked
