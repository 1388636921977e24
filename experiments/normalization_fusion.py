"""How much does one fused kernel move the latency of RMSNorm and LayerNorm, and against whom?"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile
from lab.kernels.layernorm import layernorm, layernorm_inputs, layernorm_reference, layernorm_traffic
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs, rmsnorm_reference, rmsnorm_traffic


def rmsnorm_decomposed(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return x * rstd.to(x.dtype) * weight


def layernorm_decomposed(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    return (centred * rstd).to(x.dtype) * weight + bias


def rmsnorm_fused(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def layernorm_fused(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


RMSNORM = Operator(
    name="rmsnorm",
    inputs=rmsnorm_inputs,
    reference=rmsnorm_reference,
    traffic=rmsnorm_traffic,
    # Three roundings to the storage dtype (rstd, product, weighted product) in the decomposed form.
    tolerance=3,
    standard=rmsnorm_fused,
    edges=EDGES,
)
LAYERNORM = Operator(
    name="layernorm",
    inputs=layernorm_inputs,
    reference=layernorm_reference,
    traffic=layernorm_traffic,
    # The scale pays for cancellation against the bias, and in float32 for the order of summation.
    tolerance=4,
    scale=4.0,
    standard=layernorm_fused,
    edges=EDGES,
)


def load_liger_rmsnorm() -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # Liger uses it without importing it
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return lambda x, weight: LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False)


def load_liger_layernorm() -> Callable[..., Any]:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return lambda x, weight, bias: LigerLayerNormFunction.apply(x, weight, bias, 1e-5)


SWEEP = "rmsnorm-shape-sweep"
RMSNORM_CASES = (
    Case(operator=RMSNORM, shape=(512, 1024), dtype="float16", description="small point of the shape sweep"),
    Case(
        operator=RMSNORM, shape=(1024, 2048), dtype="float16", only_with=SWEEP,
        description="second point of the shape sweep",
    ),
    Case(operator=RMSNORM, shape=(2048, 4096), dtype="float16", description="middle of the shape sweep"),
    Case(
        operator=RMSNORM, shape=(4096, 4096), dtype="float16",
        description="RMSNorm forward pass over rows as wide as a language model's hidden state",
    ),
    Case(
        operator=RMSNORM, shape=(4096, 8192), dtype="float16", only_with=SWEEP,
        description="large end of the shape sweep",
    ),
)  # fmt: skip
LAYERNORM_CASES = (
    Case(
        operator=LAYERNORM, shape=(4096, 4096), dtype="float32",
        description="LayerNorm forward pass in full precision",
    ),
    Case(
        operator=LAYERNORM, shape=(4096, 4096), dtype="float16", only_with=SWEEP,
        description="LayerNorm forward pass in half precision",
    ),
)  # fmt: skip

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="decomposed PyTorch",
    technique="The formula written out in PyTorch operators, one kernel launch each.",
    hypothesis="Slowest: every operator reads and writes the whole tensor again.",
    signal="Several kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={"rmsnorm": lambda: rmsnorm_decomposed, "layernorm": lambda: layernorm_decomposed},
)
TORCH_FUSED = Profile(
    name="torch-fused",
    title="fused PyTorch",
    technique="F.rms_norm and F.layer_norm: one hand-written CUDA kernel of the library.",
    hypothesis="What a user has today without effort; near the memory's limit on small rows only.",
    signal="One kernel, about one read and one write of the tensor.",
    implementations={"rmsnorm": lambda: rmsnorm_fused, "layernorm": lambda: layernorm_fused},
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile(dynamic=False) of the fused PyTorch call: a kernel generated for this shape.",
    hypothesis="A close rival where the generated reduction keeps the row on chip.",
    signal="One generated kernel; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": lambda: torch.compile(rmsnorm_fused, dynamic=False),
        "layernorm": lambda: torch.compile(layernorm_fused, dynamic=False),
    },
)
TRITON_RMSNORM = Profile(
    name="triton-fused-rmsnorm",
    title="Triton RMSNorm",
    technique="One Triton kernel; a row stays in registers between the sum of squares and the product.",
    hypothesis="Bound by one read and one write of the tensor: ahead of PyTorch, level with its best rivals.",
    signal="The lab's own kernel; DRAM throughput near peak on the larger shapes.",
    implementations={"rmsnorm": lambda: rmsnorm},
    kernels={"rmsnorm": "_rmsnorm_kernel"},
    devices=("cuda",),
)
TRITON_LAYERNORM = Profile(
    name="triton-fused-layernorm",
    title="Triton LayerNorm",
    technique="One Triton kernel; a row stays in registers for mean, variance and the affine map.",
    hypothesis="Bound by one read and one write of the tensor, as RMSNorm is.",
    signal="The lab's own kernel; DRAM throughput near peak.",
    implementations={"layernorm": lambda: layernorm},
    kernels={"layernorm": "_layernorm_kernel"},
    devices=("cuda",),
)
LIGER = Profile(
    name="liger",
    title="Liger",
    technique="The Triton kernels of the Liger library, as published.",
    hypothesis="The strongest Triton rival that a user can install; expected level with ours.",
    signal="One kernel of Liger's; DRAM bytes near the least traffic.",
    implementations={"rmsnorm": load_liger_rmsnorm, "layernorm": load_liger_layernorm},
    devices=("cuda",),
    package="liger_kernel",
)

LARGE_RMSNORM_CASES = tuple(case for case in RMSNORM_CASES if case.shape[0] * case.shape[1] >= 2048 * 4096)

RMSNORM_BEATS_TORCH = Claim(
    name="triton-rmsnorm-beats-torch-fused",
    text="The fused Triton RMSNorm is faster than F.rms_norm.",
    subject=TRITON_RMSNORM, baseline=TORCH_FUSED, cases=RMSNORM_CASES,
)  # fmt: skip
LAYERNORM_BEATS_TORCH = Claim(
    name="triton-layernorm-beats-torch-fused",
    text="The fused Triton LayerNorm is faster than F.layer_norm.",
    subject=TRITON_LAYERNORM, baseline=TORCH_FUSED, cases=LAYERNORM_CASES,
)  # fmt: skip
CLAIMS = (
    RMSNORM_BEATS_TORCH,
    LAYERNORM_BEATS_TORCH,
    Claim(
        name="large-triton-rmsnorm-beats-torch-fused",
        text="The fused Triton RMSNorm is faster than F.rms_norm on the larger shapes of the sweep.",
        subject=TRITON_RMSNORM, baseline=TORCH_FUSED, cases=LARGE_RMSNORM_CASES,
    ),
    Claim(
        name="large-triton-rmsnorm-beats-decomposed",
        text="The fused Triton RMSNorm is faster than RMSNorm written out, on the larger shapes of the sweep.",
        subject=TRITON_RMSNORM, baseline=TORCH_BASELINE, cases=LARGE_RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-decomposed",
        text="The fused Triton RMSNorm is faster than RMSNorm written out in PyTorch operators.",
        subject=TRITON_RMSNORM, baseline=TORCH_BASELINE, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-compile",
        text="The fused Triton RMSNorm is faster than torch.compile of F.rms_norm.",
        subject=TRITON_RMSNORM, baseline=TORCH_COMPILE, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-liger",
        text="The fused Triton RMSNorm is faster than Liger's RMSNorm.",
        subject=TRITON_RMSNORM, baseline=LIGER, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-decomposed",
        text="The fused Triton LayerNorm is faster than LayerNorm written out in PyTorch operators.",
        subject=TRITON_LAYERNORM, baseline=TORCH_BASELINE, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-compile",
        text="The fused Triton LayerNorm is faster than torch.compile of F.layer_norm.",
        subject=TRITON_LAYERNORM, baseline=TORCH_COMPILE, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-liger",
        text="The fused Triton LayerNorm is faster than Liger's LayerNorm.",
        subject=TRITON_LAYERNORM, baseline=LIGER, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="torch-fused-beats-decomposed",
        text="PyTorch's own fused norms are faster than the same norms written out.",
        subject=TORCH_FUSED, baseline=TORCH_BASELINE, cases=RMSNORM_CASES + LAYERNORM_CASES,
    ),
    Claim(
        name="compile-beats-torch-fused",
        text="torch.compile is faster than PyTorch's own fused norms.",
        subject=TORCH_COMPILE, baseline=TORCH_FUSED, cases=RMSNORM_CASES + LAYERNORM_CASES,
    ),
)  # fmt: skip

NORMALIZATION_FUSION = Experiment(
    name="normalization-fusion",
    title="Normalization Fusion",
    question="How much does a fused Triton RMSNorm or LayerNorm kernel move latency versus PyTorch?",
    importance=(
        "Normalisation runs twice in every layer of a language model and does almost no arithmetic, so its "
        "time is the time of its memory traffic. Written out in PyTorch operators it reads and writes the "
        "tensor several times; fused, once. How large the win looks depends on the rival: against the "
        "written-out form it is large, against PyTorch's own fused call and against compiled code it may "
        "be small or nothing. This experiment registers a claim against each of them."
    ),
    focus="Kernel fusion",
    cases=RMSNORM_CASES + LAYERNORM_CASES,
    profiles=(TORCH_BASELINE, TORCH_FUSED, TORCH_COMPILE, TRITON_RMSNORM, TRITON_LAYERNORM, LIGER),
    claims=CLAIMS,
    headlines=(RMSNORM_BEATS_TORCH, LAYERNORM_BEATS_TORCH),
    does_not_show=(
        "The backward pass, or any gradient.",
        "The speed of a whole model: a faster norm moves a layer by its share of the layer's time only.",
        "A gain for eager Python callers: every claim is about GPU time, and at these sizes most eager calls wait for "
        "the host.",
        "A claim for inputs that are still in the cache because the previous layer has just written them: "
        "device_warm is measured and shown, and no claim rests on it.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
)
