"""How long does it take to quantise a tensor to float8, and how much does fusing that into the norm before it save?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Output, Profile, in_graph
from lab.kernels.fp8 import quantize_fp8, quantize_fp8_inputs, quantize_fp8_reference, quantize_fp8_traffic
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8, rmsnorm_fp8_inputs, rmsnorm_fp8_reference, rmsnorm_fp8_traffic

LARGEST = 448.0  # of float8_e4m3fn
SMALLEST_SCALE = 2.0**-126
GROUP = 128


def scale_for(largest: Tensor) -> Tensor:
    return (largest.float() / LARGEST).clamp(min=SMALLEST_SCALE)


def float8(x: Tensor, scale: Tensor) -> Tensor:
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


def rows_written_out(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = scale_for(x.abs().amax(-1, keepdim=True))
    return float8(x, scale), scale


def groups_written_out(x: Tensor) -> tuple[Tensor, Tensor]:
    columns = x.shape[-1]
    groups = F.pad(x, (0, -columns % GROUP)).unflatten(-1, (-1, GROUP))
    scale = scale_for(groups.abs().amax(-1, keepdim=True))
    return float8(groups, scale).flatten(-2)[..., :columns].contiguous(), scale.squeeze(-1)


def tensor_written_out(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = scale_for(x.abs().amax())
    return float8(x, scale), scale


def norm_then_rows(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return rows_written_out(F.rms_norm(x, (x.shape[-1],), weight, 1e-6))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


# q is compared with x / scale before rounding. Rounding to the nearest errs by half an epsilon, or at the bottom of the
# range by half the smallest step. A thousandth is added for a float32 quotient on the other side of a midpoint.
Q = Output(dtype="float8_e4m3fn", tolerance=0.501, scale=2**-6)
SCALE = Output(dtype="float32", tolerance=2, scale=SMALLEST_SCALE)


def quantisation(name: str, granularity: str) -> Operator:
    return Operator(
        name=name,
        inputs=quantize_fp8_inputs,
        reference=partial(quantize_fp8_reference, granularity=granularity),
        traffic=partial(quantize_fp8_traffic, granularity=granularity),
        outputs=(Q, SCALE),
        edges=EDGES,
    )


ROW, BLOCK, TENSOR = (
    quantisation("fp8-row", "row"), quantisation("fp8-group-128", "group"), quantisation("fp8-tensor", "tensor")
)  # fmt: skip
RMSNORM = Operator(
    name="rmsnorm-fp8",
    inputs=rmsnorm_fp8_inputs,
    reference=rmsnorm_fp8_reference,
    traffic=rmsnorm_fp8_traffic,
    # A pair of calls rounds the norm to bfloat16 in between, by up to 2^-8, and with it the largest value, which makes
    # the scale. Both together are a sixteenth of an epsilon of float8.
    outputs=(
        Output(dtype="float8_e4m3fn", tolerance=0.57, scale=2**-6),
        Output(dtype="float32", tolerance=1.01 * 2**15, scale=SMALLEST_SCALE),
    ),
    edges=EDGES,
)

ALL_SHAPES = "all-shapes"
ROW_CASE = Case(operator=ROW, shape=(4096, 8192), dtype="bfloat16", description="activations, a scale for each token")
GROUP_CASE = Case(
    operator=BLOCK, shape=(4096, 8192), dtype="bfloat16", only_with=ALL_SHAPES,
    description="activations, a scale for each 128 numbers of a token",
)  # fmt: skip
TENSOR_CASE = Case(
    operator=TENSOR, shape=(4096, 8192), dtype="bfloat16", only_with=ALL_SHAPES,
    description="one scale for all activations",
)  # fmt: skip
RMSNORM_CASE = Case(
    operator=RMSNORM, shape=(16_384, 4096), dtype="bfloat16",
    description="the norm before a float8 product of Llama 3 8B, 16,384 tokens",
)  # fmt: skip

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="eager PyTorch",
    technique="Magnitude, maximum, quotient, clamp and cast, one kernel launch each; F.rms_norm before them.",
    hypothesis="Slowest by far: float32 intermediates cross memory several times.",
    signal="Several kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={
        "fp8-row": lambda: rows_written_out,
        "fp8-group-128": lambda: groups_written_out,
        "fp8-tensor": lambda: tensor_written_out,
        "rmsnorm-fp8": lambda: norm_then_rows,
    },
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the eager form, dynamic=False, max-autotune without CUDA graphs.",
    hypothesis="Close where the generated reduction keeps its row on chip; else it reads the tensor twice.",
    signal="One or two generated kernels; DRAM bytes near the least traffic or one read above it.",
    implementations={
        "fp8-row": lambda: compiled(rows_written_out),
        "fp8-group-128": lambda: compiled(groups_written_out),
        "fp8-tensor": lambda: compiled(tensor_written_out),
        "rmsnorm-fp8": lambda: compiled(norm_then_rows),
    },
    recompiles=True,
)
TRITON_PAIR = Profile(
    name="triton-unfused",
    title="Triton, two kernels",
    technique="The lab's RMSNorm writes bfloat16, then the lab's quantisation reads it.",
    hypothesis="Seven bytes an element where the fused kernel moves three: what fusing saves, all else alike.",
    signal="Two kernels of the lab's.",
    implementations={"rmsnorm-fp8": lambda: lambda x, weight: quantize_fp8(rmsnorm(x, weight))},
    kernels={"rmsnorm-fp8": "_quantize_kernel"},
    devices=("cuda",),
)
TRITON = Profile(
    name="triton-fp8",
    title="Triton",
    technique="Rows and groups stay in registers between their maximum and their cast: one kernel. A tensor takes two.",
    hypothesis="Bound by one read and a byte an element: at the rate of a copy, but for the whole tensor.",
    signal="The lab's own kernel; DRAM throughput near that of a copy.",
    implementations={
        "fp8-row": lambda: quantize_fp8,
        "fp8-group-128": lambda: lambda x: quantize_fp8(x, "group"),
        "fp8-tensor": lambda: lambda x: quantize_fp8(x, "tensor"),
        "rmsnorm-fp8": lambda: rmsnorm_fp8,
    },
    kernels={
        "fp8-row": "_quantize_kernel",
        "fp8-group-128": "_quantize_kernel",
        "fp8-tensor": "_quantize_tensor_kernel",
        "rmsnorm-fp8": "_rmsnorm_fp8_kernel",
    },
    devices=("cuda",),
)

ROWS_AND_GROUPS = (ROW_CASE, GROUP_CASE)
BEATS_EAGER = Claim(
    name="triton-fp8-beats-eager",
    text="Triton quantisation is at least 3 times as fast as eager PyTorch.",
    subject=TRITON, baseline=TORCH_BASELINE, cases=(*ROWS_AND_GROUPS, TENSOR_CASE), threshold=3,
)  # fmt: skip
KEEPS_UP_WITH_COMPILE = Claim(
    name="triton-fp8-keeps-up-with-compile",
    text="Triton quantisation by rows and groups is at most 2 % slower than torch.compile.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=ROWS_AND_GROUPS, threshold=0.98,
)  # fmt: skip
FUSED_BEATS_COMPILE = Claim(
    name="triton-rmsnorm-fp8-beats-compile",
    text="Triton RMSNorm to float8 is at least 20 % faster than torch.compile.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=(RMSNORM_CASE,), threshold=1.2,
)  # fmt: skip
CLAIMS = (
    BEATS_EAGER,
    KEEPS_UP_WITH_COMPILE,
    FUSED_BEATS_COMPILE,
    in_graph(BEATS_EAGER),
    in_graph(KEEPS_UP_WITH_COMPILE),
    in_graph(FUSED_BEATS_COMPILE),
    Claim(
        name="triton-fp8-beats-compile",
        text="Triton quantisation by rows and groups is at least 2 % faster than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=ROWS_AND_GROUPS,
    ),
    Claim(
        name="triton-fp8-tensor-keeps-up-with-compile",
        text="Triton quantisation of a whole tensor is at most 2 % slower than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(TENSOR_CASE,), threshold=0.98,
    ),
    Claim(
        name="triton-rmsnorm-fp8-keeps-up-with-compile",
        text="Triton RMSNorm to float8 is at most 2 % slower than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(RMSNORM_CASE,), threshold=0.98,
    ),
    Claim(
        name="triton-rmsnorm-fp8-beats-two-kernels",
        text="Triton RMSNorm to float8 in one kernel is at least 1.5 times as fast as in two.",
        subject=TRITON, baseline=TRITON_PAIR, cases=(RMSNORM_CASE,), threshold=1.5,
    ),
    Claim(
        name="triton-rmsnorm-fp8-beats-eager",
        text="Triton RMSNorm to float8 is at least 3 times as fast as eager PyTorch.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=(RMSNORM_CASE,), threshold=3,
    ),
)  # fmt: skip

FP8_QUANTIZATION = Experiment(
    name="fp8-quantization",
    title="FP8 Quantisation",
    question="What does quantising activations to float8 cost, and what does fusing it into RMSNorm save?",
    importance=(
        "A float8 matrix product is up to twice as fast as one in bfloat16, but its activations have to be made float8 "
        "first, with a scale that is known only once all of them were seen. Done in PyTorch operators that costs more "
        "memory traffic than the product saves at small sizes. In one kernel it is a read and half a write; fused into "
        "the norm before it, which reads the same numbers anyway, it makes the norm cheaper than it was."
    ),
    focus="Quantisation",
    cases=(*ROWS_AND_GROUPS, TENSOR_CASE, RMSNORM_CASE),
    profiles=(TORCH_BASELINE, TORCH_COMPILE, TRITON_PAIR, TRITON),
    claims=CLAIMS,
    headlines=(BEATS_EAGER, KEEPS_UP_WITH_COMPILE, FUSED_BEATS_COMPILE),
    does_not_show=(
        "The accuracy of any model: what is checked is that each number is rounded to the nearest float8 under its "
        "scale, not what a network makes of such numbers.",
        "The matrix product that takes the result, or its speed.",
        "Anything about fake quantisation, which rounds to the grid of an eight-bit integer and stores floats again, "
        "as the systems before this lab did: here real float8_e4m3fn is stored, a byte a number.",
        "Scales that are known beforehand, or carried over from earlier steps: every scale here is that of its data.",
        "float8_e5m2, which the kernels and their tests cover and no case times.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error of q and of the scale against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph", "device_dirty"),
)
