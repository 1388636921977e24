"""Softmax of a row by a cluster of programs: against float64 on a GPU, and the code that it becomes for an H100."""

import re
from pathlib import Path

import pytest
import torch
from compiled import printed

from lab.kernels.launch import Configuration
from lab.kernels.softmax import softmax, softmax_inputs, softmax_reference

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
EPSILONS = {torch.float16: 0.51, torch.bfloat16: 0.51, torch.float32: 8}  # 16 bits: the result is rounded once


def clusters(programs: int, warps: int) -> Configuration:
    return Configuration.of(PROGRAMS=programs, num_warps=warps)


def assert_near(y: torch.Tensor, x: torch.Tensor) -> None:
    truth = softmax_reference(x)
    info = torch.finfo(y.dtype)
    allowed = EPSILONS[y.dtype] * info.eps * truth.clamp(min=info.tiny)
    if y.dtype != torch.float32:
        allowed += 1e-5 * truth  # of the arithmetic in float32
    assert bool(((y.double() - truth).abs() <= allowed).all())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [8, 4096, 16_392, 50_432, 131_072])
@pytest.mark.parametrize(("programs", "warps"), [(2, 16), (4, 8), (8, 4), (16, 4)], ids=str)
def test_on_a_gpu_every_cluster_agrees_again_and_again(
    programs: int, warps: int, columns: int, dtype: torch.dtype
) -> None:
    chosen = clusters(programs, warps)
    for seed in range(10):
        (x,) = softmax_inputs((301, columns), dtype, "cuda", seed=seed)
        y = softmax(x, configuration=chosen)
        assert_near(y, x)
        assert torch.equal(y, softmax(x, configuration=chosen))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_infinities_and_no_numbers_are_as_in_pytorch(dtype: torch.dtype) -> None:
    (x,) = softmax_inputs((7, 32_768), dtype, "cuda", seed=2)
    x[0, :20_000] = float("-inf")  # some programs have no other value
    x[1] = float("-inf")
    x[2, 5] = float("inf")
    x[3, 30_000] = float("nan")
    x[4] = -1000.0
    x[5, :8] = 60_000.0
    y = softmax(x, configuration=clusters(8, 4))
    expected = torch.softmax(x.double(), -1)
    torch.testing.assert_close(y.double(), expected, equal_nan=True, rtol=2 * torch.finfo(dtype).eps, atol=1e-7)


FOR_AN_H100 = """
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental.gluon._runtime import GluonASTSource
from lab.kernels.softmax_cluster import _softmax_cluster_kernel as kernel, cluster_layout

constants = dict(x_stride=131072, N=131072, PROGRAMS=8, TILES=8, BLOCK=2048, LAYOUT=cluster_layout(8, 8, 2))
signature = dict(x_ptr="*bf16", y_ptr="*bf16") | dict.fromkeys(constants, "constexpr")
places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
source = GluonASTSource(kernel, signature, places, {(place,): [["tt.divisibility", 16]] for place in (0, 1)})
print(compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_ctas": 8}).asm["ptx"])
"""


def test_for_an_h100_a_program_reads_its_part_once_and_tells_the_others_its_sum(tmp_path: Path) -> None:
    ptx = printed(FOR_AN_H100, cache=tmp_path)
    steps = re.findall(r"(?:ld|st)\.global\S*|barrier\.cluster\.\w+|st\.async", ptx)
    columns = [".global.v4.b32"] * 8  # 131,072 columns by 8 programs of 256 threads: 64 for each
    assert steps == [
        "barrier.cluster.arrive", *(f"ld{each}" for each in columns), "barrier.cluster.wait", "st.async",
        *(f"st{each}" for each in columns),
    ]  # fmt: skip
