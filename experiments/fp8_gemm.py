"""How much faster than bfloat16 is a float8 product, quantised before or by the call, and how large is its error?"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.fp8_matmul import (
    fp8_matmul,
    fp8_matmul_inputs,
    fp8_matmul_reference,
    fp8_matmul_sources,
    fp8_matmul_traffic,
)
from lab.kernels.matmul import matmul_traffic

GRANULARITIES = ("tensor", "row", "block")


def gemm(granularity: str) -> Operator:
    """The product of operands that are quantised before the call, so that only the error of the product counts.

    The result is rounded once to bfloat16, by at most half an epsilon. The matrix units keep about 14 bits of mantissa
    of a sum over K. At K = 8192, for a sum of size 1, the standard deviation of that error is a quarter of an epsilon
    of bfloat16, and it grows with K. Six standard deviations, and at K = 19,000 twice as much, are within four
    epsilons.
    """
    return Operator(
        name=f"fp8-gemm-{granularity}",
        inputs=partial(fp8_matmul_inputs, granularity=granularity),
        reference=partial(fp8_matmul_reference, granularity=granularity),
        traffic=fp8_matmul_traffic,
        tolerance=5,
        output_dtype="bfloat16",
        edges=("zeros",),
    )


def linear_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight, float8 of the weight, scales of its rows): a model's weight is quantised once, before the calls."""
    x, weight = fp8_matmul_sources(shape, dtype, device, seed)
    _, q, _, scale = fp8_matmul_inputs(shape, dtype, device, seed)
    return x, weight, q, scale


def linear_reference(x: Tensor, weight: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """The float64 product of x and the weight before any quantisation."""
    return x.double() @ weight.double().t()


def block_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(a, b, a_scale, b_scale, a_scale with the library's strides: the scales of one group of columns are adjacent)."""
    a, b, a_scale, b_scale = fp8_matmul_inputs(shape, dtype, device, seed, granularity="block")
    return a, b, a_scale, b_scale, a_scale.t().contiguous().t()


def block_reference(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, turned: Tensor) -> Tensor:
    return fp8_matmul_reference(a, b, a_scale, b_scale, granularity="block")


TENSOR, ROW, BLOCK = (gemm(granularity) for granularity in GRANULARITIES)
BLOCK = replace(BLOCK, inputs=block_inputs, reference=block_reference)
# Both factors are rounded to 3 bits of mantissa, by up to 2^-4 of their size. The error of a sum of K products, of size
# 1, has a standard deviation of about 0.04, and is at most six of these: 31 epsilons of bfloat16, which are 2^-7. The
# tolerance is a quarter more.
LINEAR = Operator(
    name="fp8-linear-row", inputs=linear_inputs, reference=linear_reference, traffic=matmul_traffic, tolerance=40,
    edges=("zeros",),
)  # fmt: skip

ALL_SHAPES = "all-shapes"


def case(operator: Operator, shape: tuple[int, int, int], description: str, only_with: str = "") -> Case:
    return Case(operator=operator, shape=shape, dtype="bfloat16", description=description, only_with=only_with)


LARGE = case(ROW, (8192, 8192, 8192), "a large square product, a scale for each row")
SQUARE = case(ROW, (4096, 4096, 4096), "a square product, a scale for each row")
GATE = case(ROW, (2048, 18_944, 3584), "2048 tokens through the gate projection of Qwen2.5-7B, a scale for each row")
DOWN = case(ROW, (2048, 3584, 18_944), "2048 tokens through the down projection of Qwen2.5-7B", ALL_SHAPES)
LLAMA = case(ROW, (4096, 14_336, 4096), "4096 tokens through the gate projection of Llama 3 8B", ALL_SHAPES)
DECODE = case(ROW, (16, 18_944, 3584), "one decoding step of sixteen sequences", ALL_SHAPES)
WHOLE = case(TENSOR, (2048, 18_944, 3584), "as before, with one scale for each tensor", ALL_SHAPES)
SQUARES = case(
    BLOCK, (4096, 4096, 4096), "a scale for each 128 of a row and each square of 128 of the weight", ALL_SHAPES
)
BLOCKS_GATE = case(BLOCK, (2048, 18_944, 3584), "the gate projection with scales of blocks", ALL_SHAPES)
CALL = case(LINEAR, (2048, 18_944, 3584), "the gate projection with activations that the call quantises")
PREFILL = (LARGE, SQUARE, GATE, DOWN, LLAMA)


def scaled_rows(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, *, fast: bool = True) -> Tensor:
    return torch._scaled_mm(
        a, b.t(), scale_a=a_scale, scale_b=b_scale.t(), out_dtype=torch.bfloat16, use_fast_accum=fast
    )


def scaled_tensor(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return torch._scaled_mm(a, b.t(), scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16, use_fast_accum=True)


def scaled_blocks(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, turned: Tensor) -> Tensor:
    """The library's product; on a CPU, where it has none for blocks, the product of the dequantised operands."""
    if not a.is_cuda:
        return dequantised_blocks(a, b, a_scale, b_scale, turned)
    return torch._scaled_mm(a, b.t(), scale_a=turned, scale_b=b_scale.t(), out_dtype=torch.bfloat16)


def multiplied_blocks(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, turned: Tensor) -> Tensor:
    return fp8_matmul(a, b, a_scale, b_scale, granularity="block")


def quantize_and_scaled(x: Tensor, weight: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """Quantises with PyTorch's operators, and multiplies with its scaled product."""
    x_scale = (x.abs().amax(-1, keepdim=True).float() / 448).clamp(min=2.0**-126)
    x_q = (x.float() / x_scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return scaled_rows(x_q, q, x_scale, scale)


def quantize_and_multiply(x: Tensor, weight: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    return fp8_matmul(x, q, None, scale)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def ours(granularity: str, accumulation: str = "fast") -> Callable[[], Callable[..., Any]]:
    return lambda: partial(fp8_matmul, granularity=granularity, accumulation=accumulation)


KERNEL = "_gemm_kernel or _hopper_gemm_kernel"
LIBRARY = Profile(
    name="torch-scaled-mm",
    title="torch._scaled_mm",
    technique="The library's product of float8, fast accumulation: CUTLASS for rows, cuBLASLt for whole tensors.",
    hypothesis="The measure: near twice the rate of bfloat16, a little less with scales of rows.",
    signal="One kernel of the library's.",
    implementations={
        "fp8-gemm-row": lambda: scaled_rows,
        "fp8-gemm-tensor": lambda: scaled_tensor,
        "fp8-gemm-block": lambda: scaled_blocks,
        "fp8-linear-row": lambda: quantize_and_scaled,
    },
)
BFLOAT16 = Profile(
    name="torch-bfloat16",
    title="cuBLAS in bfloat16",
    technique="F.linear on the numbers that were not quantised: the baseline of speed and of error.",
    hypothesis="Half the rate, and an error of half an epsilon.",
    signal="One kernel of cuBLAS.",
    implementations={"fp8-linear-row": lambda: lambda x, weight, q, scale: F.linear(x, weight)},
)
COMPILED = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of quantisation and torch._scaled_mm, dynamic=False, max-autotune without CUDA graphs.",
    hypothesis="The quantisation in one generated kernel, then the library's product.",
    signal="Two kernels.",
    implementations={"fp8-linear-row": lambda: compiled(quantize_and_scaled)},
    devices=("cuda",),
    recompiles=True,
)
TRITON = Profile(
    name="triton-fp8-matmul",
    title="Triton float8 matmul",
    technique="The lab's product with the matrix units' own accumulation; rows quantised by a kernel of their own.",
    hypothesis="Within a few per cent of the library: scales cost nothing at the end of a tile.",
    signal="One kernel of the lab's, with quantisation two; Tensor-pipe use near the library's.",
    implementations={
        "fp8-gemm-row": ours("row"),
        "fp8-gemm-tensor": ours("tensor"),
        "fp8-linear-row": lambda: quantize_and_multiply,
    },
    kernels={"fp8-gemm-row": KERNEL, "fp8-gemm-tensor": KERNEL, "fp8-linear-row": KERNEL},
    devices=("cuda",),
)
PRECISE = Profile(
    name="triton-fp8-precise",
    title="Triton float8, precise",
    technique="The same, with sums of each 128 of K added up in float32 by the ordinary units.",
    hypothesis="A sixth slower: tiles are half as large, and sums are added up while the next step is multiplied.",
    signal="Lower Tensor-pipe use; the smaller error of the two.",
    implementations={
        "fp8-gemm-row": ours("row", "precise"),
        "fp8-gemm-block": lambda: multiplied_blocks,
    },
    kernels={"fp8-gemm-row": KERNEL, "fp8-gemm-block": KERNEL},
    devices=("cuda",),
)
WRITTEN_OUT = Profile(
    name="torch-dequantised",
    title="dequantised, in PyTorch",
    technique="Blocks multiplied out to bfloat16 and a product of cuBLAS: what is left without a kernel for blocks.",
    hypothesis="Slowest: both operands are written and read again at twice their size.",
    signal="Several kernels.",
    implementations={"fp8-gemm-block": lambda: dequantised_blocks},
)


def dequantised_blocks(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, turned: Tensor) -> Tensor:
    def wide(scale: Tensor, rows: int, like: Tensor) -> Tensor:
        return scale.repeat_interleave(128, 1)[:, : like.shape[1]].repeat_interleave(rows, 0)[: len(like)]

    return torch.mm(a.float() * wide(a_scale, 1, a), (b.float() * wide(b_scale, 128, b)).t()).bfloat16()


KEEPS_UP = Claim(
    name="triton-fp8-keeps-up-with-scaled-mm",
    text="Triton FP8 product is at most 5 % slower than torch._scaled_mm, with scales of rows.",
    subject=TRITON, baseline=LIBRARY, cases=PREFILL, threshold=0.95,
)  # fmt: skip
BEATS_BFLOAT16 = Claim(
    name="triton-fp8-linear-beats-bfloat16",
    text="Triton FP8 product that quantises its input is at least 1.5 times as fast as a bfloat16 one.",
    subject=TRITON, baseline=BFLOAT16, cases=(CALL,), threshold=1.5,
)  # fmt: skip
BLOCKS_KEEP_UP = Claim(
    name="triton-fp8-blocks-keep-up-with-scaled-mm",
    text="With scales of blocks the Triton FP8 product is at most 10 % slower than torch._scaled_mm.",
    subject=PRECISE, baseline=LIBRARY, cases=(SQUARES, BLOCKS_GATE), threshold=0.9,
)  # fmt: skip
CLAIMS = (
    KEEPS_UP,
    BEATS_BFLOAT16,
    in_graph(KEEPS_UP),
    in_graph(BEATS_BFLOAT16),
    Claim(
        name="triton-fp8-linear-beats-compile",
        text="Quantised by the call, the Triton product is at least as fast, within 2 %, as torch.compile.",
        subject=TRITON, baseline=COMPILED, cases=(CALL,), threshold=0.98,
    ),
    Claim(
        name="triton-fp8-tensor-keeps-up-with-scaled-mm",
        text="Triton FP8 product with one scale a tensor is at most 5 % slower than torch._scaled_mm.",
        subject=TRITON, baseline=LIBRARY, cases=(WHOLE,), threshold=0.95,
    ),
    Claim(
        name="triton-decode-fp8-keeps-up-with-scaled-mm",
        text="In a CUDA graph the Triton product of sixteen rows is at least as fast as torch._scaled_mm.",
        subject=TRITON, baseline=LIBRARY, cases=(DECODE,), scope="graph", threshold=1.0,
    ),
    Claim(
        name="triton-fp8-precise-costs-less-than-half",
        text="Precise accumulation makes the Triton FP8 product at most 35 % slower than fast accumulation.",
        subject=PRECISE, baseline=TRITON, cases=(LARGE, GATE), threshold=0.65,
    ),
    Claim(
        name="triton-fp8-blocks-beat-dequantised",
        text="With scales of blocks the product is at least 3 times as fast as one of what was multiplied out before.",
        subject=PRECISE, baseline=WRITTEN_OUT, cases=(SQUARES,), threshold=3.0,
    ),
    BLOCKS_KEEP_UP,
    in_graph(BLOCKS_KEEP_UP),
)  # fmt: skip

FP8_GEMM = Experiment(
    name="fp8-gemm",
    title="Float8 GEMM",
    question="What does a product of float8 gain over bfloat16, quantised before or by the call, and at what error?",
    importance=(
        "Hopper's matrix units multiply float8 at twice the rate of bfloat16. What a model gains of it depends on what "
        "is around the product: scales, their granularity, and the quantisation of activations, which each call pays "
        "for. What it loses is told as two figures: the error of the product alone, against what the float8 stand for, "
        "and the error of it all, against the product of the numbers that were quantised."
    ),
    focus="Quantisation",
    cases=(LARGE, SQUARE, GATE, DOWN, LLAMA, DECODE, WHOLE, SQUARES, BLOCKS_GATE, CALL),
    profiles=(LIBRARY, BFLOAT16, COMPILED, WRITTEN_OUT, TRITON, PRECISE),
    claims=CLAIMS,
    headlines=(KEEPS_UP, BEATS_BFLOAT16),
    does_not_show=(
        "What the error does to a model: it is that of one product of normal numbers, which have no outliers.",
        "Scales that were collected before (static quantisation): the call finds those of its activations itself.",
        "Quantisation fused into the norm before the product, which fp8-quantization measures.",
        "A claim on float8 that was quantised before, against bfloat16: the checks change an input, and its copy in "
        "float8 would no longer match. matmul-tiling has the times of bfloat16 at three of the shapes.",
        "Claims under steady load, where the board lowers its clock: they are about spaced calls. The pages of cases "
        "tell both rates.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("TFLOP/s", "Tensor-pipe use (profiler)", "DRAM bytes (profiler)"),
        "Validation": (
            "error against the dequantised product in float64", "error against the product before quantisation",
            "noise ratio (p95 / p50)",
        ),
    },
    scopes=("device_cold", "graph"),
    sustained=True,
)  # fmt: skip
