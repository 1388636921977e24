"""What an H100 makes of the kernels for wide rows, compiled without one; and what a search may try of them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from compiled import printed

from lab.kernels.fp8 import quantize_fp8, quantize_fp8_choices, quantize_fp8_rule
from lab.kernels.launch import Configuration
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8, rmsnorm_fp8_choices, rmsnorm_fp8_rule
from lab.kernels.rows import norm_choices, norm_rule
from lab.kernels.softmax import softmax

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# Compiles a wide kernel of a module and prints how many accesses of global memory are 16 bytes wide, and how many there
# are; in a process of its own, where kernels are not interpreted. Where a kernel quantises only loads count: a thread
# stores a byte for each element that it loads.
COMPILING = """
import importlib, json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

for name, kernel, N, held, tile, warps, dtype in json.load(sys.stdin):
    kernel = getattr(importlib.import_module(f"lab.kernels.{name}"), kernel)
    constants = {"N": N, "HELD": held, "BLOCK": tile, "MASKED": N % tile != 0, "LARGEST": 448.0}
    constants |= {name: N for name in kernel.arg_names if name.endswith("_stride")}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    types = {"eps": "fp32", "M": "i32", "columns": "i32", "q_ptr": "*fp8e4nv", "scale_ptr": "*fp32"}
    signature = {n: "constexpr" if n in constants else types.get(n, f"*{dtype}") for n in kernel.arg_names}
    pointers = [i for i, n in enumerate(kernel.arg_names) if n.endswith("_ptr")]
    source = ASTSource(kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in pointers})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    open(f"{name}-{N}-{dtype}.cubin", "wb").write(made.asm["cubin"])
    counted = "ld" if "q_ptr" in kernel.arg_names else "(?:ld|st)"
    wide = len(re.findall(rf"{counted}[.]global[^;]*[.]v4[.]", made.asm["ptx"]))
    print(json.dumps([wide, len(re.findall(rf"{counted}[.]global", made.asm["ptx"]))]))
"""
KERNELS = {
    "rmsnorm": ("_rmsnorm_wide_kernel", norm_rule),
    "layernorm": ("_layernorm_wide_kernel", norm_rule),
    "add_rmsnorm": ("_add_rmsnorm_wide_kernel", norm_rule),
    "fp8": ("_quantize_wide_kernel", quantize_fp8_rule),
    "rmsnorm_fp8": ("_rmsnorm_fp8_wide_kernel", rmsnorm_fp8_rule),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[int]]]:
    """(a folder of cubins, of each: [accesses of global memory of 16 bytes a thread, all accesses])."""
    folder = tmp_path_factory.mktemp("wide")
    asked = []
    for name, (kernel, rule) in KERNELS.items():
        for columns, dtype, itemsize in ((65_536, "bf16", 2), (131_072, "bf16", 2), (131_072, "fp32", 4)):
            chosen = rule((4, columns), itemsize)
            asked.append((name, kernel, columns, chosen["HELD"], chosen["BLOCK"], chosen.num_warps, dtype))
    lines = printed(COMPILING, asked, folder=folder).splitlines()
    names = [f"{name}-{columns}-{dtype}.cubin" for name, _, columns, _, _, _, dtype in asked]
    return folder, dict(zip(names, map(json.loads, lines), strict=True))


def test_wide_rows_cross_memory_16_bytes_a_thread(compiled: tuple[Path, dict[str, list[int]]]) -> None:
    for name, (wide, accesses) in compiled[1].items():
        assert wide == accesses > 0, name


@pytest.mark.skipif(not CUOBJDUMP.exists(), reason="this Triton comes without the tool that tells")
def test_what_is_held_of_a_wide_row_stays_in_registers(compiled: tuple[Path, dict[str, list[int]]]) -> None:
    folder, names = compiled
    for name in names:
        command = [CUOBJDUMP, "--dump-resource-usage", folder / name]
        listing = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        spilled = int(listing.partition("STACK:")[2].split()[0])
        assert spilled <= 32, f"{name}: {spilled} bytes a thread"


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("columns", [1, 1000, 16_384, 16_385, 32_768, 50_000, 131_072, 262_144])
@pytest.mark.parametrize(
    ("rule", "of"),
    [
        (norm_rule, norm_choices),
        (quantize_fp8_rule, quantize_fp8_choices),
        (rmsnorm_fp8_rule, rmsnorm_fp8_choices),
    ],
)
def test_what_the_rule_says_is_among_the_choices(rule: Any, of: Any, columns: int, itemsize: int) -> None:
    choices = list(of((64, columns), itemsize))
    assert rule((64, columns), itemsize) in choices
    assert len(set(choices)) == len(choices) <= 30


def test_no_choice_holds_more_than_a_row_or_a_multiprocessors_registers() -> None:
    for chosen in norm_choices((64, 50_000), 2):
        if "HELD" in dict(chosen.constants):
            assert (chosen["HELD"] - 1) * chosen["BLOCK"] < 50_000
            assert chosen["HELD"] * chosen["BLOCK"] * 2 <= 196_608


@pytest.mark.parametrize("tiles", [0, 5, 1000])
def test_more_tiles_than_a_row_has_are_refused(tiles: int, device: str) -> None:
    """Where the tiles divide the row nothing masks them: such a launch would write into the next row."""
    rows = torch.randn(2, 4 * 8192, dtype=torch.float16, device=device)
    weight = torch.ones(4 * 8192, dtype=torch.float16, device=device)
    chosen = Configuration.of(HELD=tiles, BLOCK=8192, num_warps=32)
    refused = rf"configuration: HELD is {tiles}; accepted are 1 to 4, the tiles of 8192 columns in a row of 32768"
    for call in (
        lambda: rmsnorm(rows, weight, configuration=chosen),
        lambda: softmax(rows, configuration=chosen),
        lambda: quantize_fp8(rows, configuration=chosen),
        lambda: rmsnorm_fp8(rows, weight, configuration=chosen),
    ):
        with pytest.raises(ValueError, match=refused):
            call()
