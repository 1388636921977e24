"""Kernels that begin before the one before them has ended read nothing of it too early: their code for an H100."""

import re
from pathlib import Path

import pytest
from compiled import printed

from lab.kernels.few_rows import few_rows_rule, stages_that_fit

FOR_AN_H100 = """
import lab.kernels.few_rows, lab.kernels.gemv, lab.kernels.rmsnorm_linear
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

kernel = getattr(lab.kernels.{module}, "{kernel}")
constants = dict({constants}, EARLY=True)
types = {{name: "fp32" if name == "eps" else "i32" for name in kernel.arg_names}}
types |= {{name: "*bf16" for name in kernel.arg_names if name.endswith("_ptr")}} | dict({types})
places = {{(kernel.arg_names.index(name),): value for name, value in constants.items()}}
known = {{*constants, "eps", "M"}}
aligned = {{(n,): [["tt.divisibility", 16]] for n, name in enumerate(kernel.arg_names) if name not in known}}
source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), places, aligned)
made = compile(source, target=GPUTarget("cuda", 90, 32), options={{"num_warps": 4, "launch_pdl": True}})
print(made.asm["ptx"])
"""
ONE_LAYER = "SECOND=0, THIRD=0, BIASED0=True, BIASED1=False, BIASED2=False, NORM=True, RESIDUAL=True"
BEGUN, WAITED = "griddepcontrol.launch_dependents", "griddepcontrol.wait"


def steps(tmp_path: Path, module: str, kernel: str, constants: str, types: str = "") -> list[str]:
    """The reads and writes of a kernel in the order of its code, and where it waits: a weight is read to be evicted."""
    ptx = printed(FOR_AN_H100.format(module=module, kernel=kernel, constants=constants, types=types), tmp_path)
    told = re.findall(r"griddepcontrol\.\w+|(?:ld|st)\.global\S*|cp\.async\.c[ag]\S*", ptx)
    return ["weight" if "evict_first" in each else each for each in told]


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize(
    ("module", "kernel", "constants"),
    [
        ("gemv", "_gemv_kernel",
         "K=4096, NORM=True, NORM_WEIGHT=True, BIAS=True, ACTIVATION=None, ROWS=4, BLOCK_K=1024"),
        ("few_rows", "_one_row_kernel", f"K=4096, {ONE_LAYER}, PAIRED=False, BLOCK_N=4, BLOCK_K=1024"),
        ("few_rows", "_one_row_kernel", f"K=4096, {ONE_LAYER}, PAIRED=True, BLOCK_N=2, BLOCK_K=1024"),
    ],
    ids=["gemv", "one row", "one row, paired"],
)  # fmt: skip
def test_one_row_reads_nothing_but_weights_before_it_waits(
    module: str, kernel: str, constants: str, ahead: int, tmp_path: Path
) -> None:
    told = steps(tmp_path, module, kernel, f"{constants}, AHEAD={ahead}")
    begun, *early = told[: told.index(WAITED)]
    assert begun == BEGUN
    assert early == ["weight"] * (4 * ahead)  # of 4096 elements by 128 threads
    assert told.count("weight") == 16
    assert told[-1].startswith("st.global")


def test_few_rows_wait_before_they_read(tmp_path: Path) -> None:
    sizes = "BLOCK_M=16, BLOCK_N=64, BLOCK_K=128, TURNED=True"
    assert steps(tmp_path, "few_rows", "_few_rows_kernel", f"K=4096, {ONE_LAYER}, PAIRED=True, {sizes}")[:2] == [
        BEGUN, WAITED,
    ]  # fmt: skip


def test_what_joins_splits_begins_when_its_row_exists_and_waits_for_the_splits(tmp_path: Path) -> None:
    parts = "NORM_WEIGHT=True, WIDE=False, WHOLE_K=True, TURNED=False, SPLITS=2, BLOCK_M=16, BLOCK_N=32, BLOCK_K=256"
    assert steps(tmp_path, "rmsnorm_linear", "_skinny_kernel", parts, "y_ptr='*fp32'")[:2] == [WAITED, BEGUN]
    sizes = "SPLITS=2, BLOCK_K=1024, BLOCK_N=1024"
    joined = steps(tmp_path, "rmsnorm_linear", "_join_kernel", sizes, "shares_ptr='*fp32'")
    row, sums = ["ld.global.v4.b32"], ["ld.global.v4.b32"] * 4  # 16 bits and 32, of 1024 by 128 threads
    assert joined == [BEGUN, *row, WAITED, *sums, "st.global.v4.b32"]


@pytest.mark.parametrize("shared_bytes", [101_376, 166_912, 232_448])  # of an L40S, an A100 and an H100
@pytest.mark.parametrize(("rows", "outputs"), [(16, 64), (16, 18_944), (32, 18_944), (64, 64)])
@pytest.mark.parametrize(("paired", "normed"), [(False, False), (False, True), (True, True)])
def test_stages_fit_into_the_gpu_and_an_h100_has_those_of_the_rule(
    rows: int, outputs: int, paired: bool, normed: bool, shared_bytes: int
) -> None:
    chosen = few_rows_rule((rows, outputs, 3584), 2, paired=paired, normed=normed)
    stages = stages_that_fit(chosen, 2, paired, shared_bytes)
    step = (chosen["BLOCK_M"] + chosen["BLOCK_N"] * (2 if paired else 1)) * chosen["BLOCK_K"] * 2
    assert 1 <= stages <= chosen.num_stages
    assert stages * step < shared_bytes
    if shared_bytes == 232_448:
        assert stages == chosen.num_stages
