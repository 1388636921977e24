"""How much faster are RMSNorm, with and without a residual add before it, and LayerNorm as one fused kernel?"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.add_rmsnorm import add_rmsnorm, add_rmsnorm_inputs, add_rmsnorm_reference, add_rmsnorm_traffic
from lab.kernels.cuda_rows import rmsnorm_cuda
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


def add_rmsnorm_fused(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    s = x + residual
    return F.rms_norm(s, (s.shape[-1],), weight, eps), s


RMSNORM = Operator(
    name="rmsnorm",
    inputs=rmsnorm_inputs,
    reference=rmsnorm_reference,
    traffic=rmsnorm_traffic,
    # The decomposed form rounds three times to the storage dtype: rstd, product, weighted product.
    tolerance=3,
    standard=rmsnorm_fused,
    edges=EDGES,
)
LAYERNORM = Operator(
    name="layernorm",
    inputs=layernorm_inputs,
    reference=layernorm_reference,
    traffic=layernorm_traffic,
    # The scale allows for cancellation against the bias, and in float32 for the order of summation.
    tolerance=4,
    scale=4.0,
    standard=layernorm_fused,
    edges=EDGES,
)
ADD_RMSNORM = Operator(
    name="add-rmsnorm",
    inputs=add_rmsnorm_inputs,
    reference=add_rmsnorm_reference,
    traffic=add_rmsnorm_traffic,
    # Three roundings, as for RMSNorm. An implementation that normalises the unrounded sum uses up one of them.
    tolerance=3,
    standard=add_rmsnorm_fused,
    edges=EDGES,
)


def load_liger_rmsnorm() -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # Liger uses it without importing it
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return lambda x, weight: LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False)


def load_liger_layernorm() -> Callable[..., Any]:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return lambda x, weight, bias: LigerLayerNormFunction.apply(x, weight, bias, 1e-5)


def load_liger_add_rmsnorm() -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # as above
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    return lambda x, residual, weight: LigerFusedAddRMSNormFunction.apply(
        x, residual, weight, 1e-6, 0.0, "llama", False
    )


def load_quack_rmsnorm() -> Callable[..., Any]:
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, weight: rmsnorm_fwd(x, weight, eps=1e-6)[0]


def load_quack_layernorm() -> Callable[..., Any]:
    from quack.rmsnorm import layernorm_fwd

    return lambda x, weight, bias: layernorm_fwd(x, weight, bias, 1e-5)


def load_quack_add_rmsnorm() -> Callable[..., Any]:
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, residual, weight: rmsnorm_fwd(x, weight, residual=residual, eps=1e-6)[:2]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled by PyTorch for static shapes, with max-autotune."""
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


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

# Qwen2.5-7B's hidden state: a prompt of 8192 tokens, and 16 sequences decoded together.
PROMPT = Case(
    operator=RMSNORM, shape=(8192, 3584), dtype="bfloat16", only_with=SWEEP,
    description="RMSNorm of Qwen2.5-7B over a prompt of 8192 tokens",
)  # fmt: skip
DECODE = Case(
    operator=RMSNORM, shape=(16, 3584), dtype="bfloat16", only_with=SWEEP,
    description="RMSNorm of Qwen2.5-7B while 16 sequences are decoded",
)  # fmt: skip
LONG_ROWS = Case(
    operator=RMSNORM, shape=(1024, 131_072), dtype="bfloat16", only_with=SWEEP,
    description="rows too wide for the registers of one multiprocessor",
)  # fmt: skip
RESIDUAL = Case(
    operator=ADD_RMSNORM, shape=(4096, 4096), dtype="bfloat16", only_with=SWEEP,
    description="residual add and RMSNorm of a layer of Llama 3 8B",
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
    technique="F.rms_norm and F.layer_norm: one hand-written CUDA kernel of the library; a residual is added before.",
    hypothesis="What a user has today without effort; near the memory's limit on small rows only.",
    signal="One kernel, about one read and one write of the tensor.",
    implementations={
        "rmsnorm": lambda: rmsnorm_fused,
        "layernorm": lambda: layernorm_fused,
        "add-rmsnorm": lambda: add_rmsnorm_fused,
    },
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the fused PyTorch call, dynamic=False and max-autotune: a kernel made for this shape.",
    hypothesis="A close rival where the generated reduction keeps the row on chip.",
    signal="One generated kernel; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": lambda: compiled(rmsnorm_fused),
        "layernorm": lambda: compiled(layernorm_fused),
        "add-rmsnorm": lambda: compiled(add_rmsnorm_fused),
    },
    recompiles=True,
)
TRITON_RMSNORM = Profile(
    name="triton-fused-rmsnorm",
    title="Triton RMSNorm",
    technique="One Triton kernel; a row, or what fits of it, stays in registers from the sum of squares on.",
    hypothesis="Bound by one read and one write of the tensor: ahead of PyTorch, level with its best rivals.",
    signal="The lab's own kernel; DRAM throughput near peak on the larger shapes.",
    implementations={"rmsnorm": lambda: rmsnorm},
    kernels={"rmsnorm": "_rmsnorm_kernel or _rmsnorm_cluster_kernel or _rmsnorm_wide_kernel"},
    devices=("cuda",),
)
TRITON_LAYERNORM = Profile(
    name="triton-fused-layernorm",
    title="Triton LayerNorm",
    technique="One Triton kernel; a row stays in registers for mean, variance and the affine map.",
    hypothesis="Bound by one read and one write of the tensor, as RMSNorm is.",
    signal="The lab's own kernel; DRAM throughput near peak.",
    implementations={"layernorm": lambda: layernorm},
    kernels={"layernorm": "_layernorm_kernel or _layernorm_cluster_kernel or _layernorm_wide_kernel"},
    devices=("cuda",),
)
TRITON_ADD_RMSNORM = Profile(
    name="triton-fused-add-rmsnorm",
    title="Triton add-RMSNorm",
    technique="One Triton kernel for the residual add and the norm; the sum stays in registers between the two.",
    hypothesis="Two calls read three tensors; fused, two.",
    signal="The lab's own kernel; DRAM throughput near peak.",
    implementations={"add-rmsnorm": lambda: add_rmsnorm},
    kernels={"add-rmsnorm": "_add_rmsnorm_kernel or _add_rmsnorm_cluster_kernel or _add_rmsnorm_wide_kernel"},
    devices=("cuda",),
)
LIGER = Profile(
    name="liger",
    title="Liger",
    technique="The Triton kernels of the Liger library, as published.",
    hypothesis="The strongest Triton rival that a user can install; expected level with ours.",
    signal="One kernel of Liger's; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": load_liger_rmsnorm,
        "layernorm": load_liger_layernorm,
        "add-rmsnorm": load_liger_add_rmsnorm,
    },
    devices=("cuda",),
    package="liger_kernel",
)
QUACK = Profile(
    name="quack",
    title="QuACK",
    technique="The CuTe kernels of the QuACK library, as published: a wide row is spread over a cluster of programs.",
    hypothesis="The fastest norms that a user of a Hopper can install: near the memory's limit at any width.",
    signal="One kernel of QuACK's; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": load_quack_rmsnorm,
        "layernorm": load_quack_layernorm,
        "add-rmsnorm": load_quack_add_rmsnorm,
    },
    devices=("cuda",),
    package="quack",
)

CUDA_CPP = Profile(
    name="cuda-cpp",
    title="CUDA C++",
    technique=(
        "A CUDA C++ kernel of the lab, compiled by nvcc for the chip that is there: loads of 16 bytes, the row in "
        "registers, sums by warp shuffles, and a wide row spread over a cluster of blocks."
    ),
    hypothesis="Level with Triton where a row fits a block, ahead of it in rows that only a cluster holds.",
    signal="The lab's own kernel, once; DRAM bytes at the least traffic, for the widest rows too.",
    implementations={"rmsnorm": lambda: rmsnorm_cuda},
    kernels={"rmsnorm": "rmsnorm_cuda"},
    devices=("cuda",),
    needs_nvcc=True,
)

KEEPS_UP = 0.98  # at most 2 % slower, which is rarely worth maintaining another kernel
NEARLY = 0.95  # where a launch takes most of the time, so that hundredths of a microsecond are per cents
SMALL_RMSNORM_CASES = (RMSNORM_CASES[0], DECODE)
LARGE_RMSNORM_CASES = tuple(case for case in RMSNORM_CASES if case.shape[0] * case.shape[1] >= 2048 * 4096)

RMSNORM_BEATS_TORCH = Claim(
    name="triton-rmsnorm-beats-torch-fused",
    text="Triton RMSNorm is at least 2 % faster than F.rms_norm.",
    subject=TRITON_RMSNORM, baseline=TORCH_FUSED, cases=RMSNORM_CASES,
)  # fmt: skip
LAYERNORM_BEATS_TORCH = Claim(
    name="triton-layernorm-beats-torch-fused",
    text="Triton LayerNorm is at least 2 % faster than F.layer_norm.",
    subject=TRITON_LAYERNORM, baseline=TORCH_FUSED, cases=LAYERNORM_CASES,
)  # fmt: skip
CLAIMS = (
    RMSNORM_BEATS_TORCH,
    LAYERNORM_BEATS_TORCH,
    in_graph(RMSNORM_BEATS_TORCH),
    in_graph(LAYERNORM_BEATS_TORCH),
    Claim(
        name="large-triton-rmsnorm-beats-torch-fused",
        text="Triton RMSNorm is at least 2 % faster than F.rms_norm on the larger shapes.",
        subject=TRITON_RMSNORM, baseline=TORCH_FUSED, cases=LARGE_RMSNORM_CASES,
    ),
    Claim(
        name="large-triton-rmsnorm-beats-decomposed",
        text="Triton RMSNorm is at least 2 % faster than written-out PyTorch on the larger shapes.",
        subject=TRITON_RMSNORM, baseline=TORCH_BASELINE, cases=LARGE_RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-decomposed",
        text="Triton RMSNorm is at least 2 % faster than written-out PyTorch.",
        subject=TRITON_RMSNORM, baseline=TORCH_BASELINE, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-compile",
        text="Triton RMSNorm is at least 2 % faster than torch.compile.",
        subject=TRITON_RMSNORM, baseline=TORCH_COMPILE, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-beats-liger",
        text="Triton RMSNorm is at least 2 % faster than Liger.",
        subject=TRITON_RMSNORM, baseline=LIGER, cases=RMSNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-decomposed",
        text="Triton LayerNorm is at least 2 % faster than written-out PyTorch.",
        subject=TRITON_LAYERNORM, baseline=TORCH_BASELINE, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-compile",
        text="Triton LayerNorm is at least 2 % faster than torch.compile.",
        subject=TRITON_LAYERNORM, baseline=TORCH_COMPILE, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="triton-layernorm-beats-liger",
        text="Triton LayerNorm is at least 2 % faster than Liger.",
        subject=TRITON_LAYERNORM, baseline=LIGER, cases=LAYERNORM_CASES,
    ),
    Claim(
        name="torch-fused-beats-decomposed",
        text="F.rms_norm and F.layer_norm are at least 2 % faster than written-out PyTorch.",
        subject=TORCH_FUSED, baseline=TORCH_BASELINE, cases=RMSNORM_CASES + LAYERNORM_CASES,
    ),
    Claim(
        name="compile-beats-torch-fused",
        text="torch.compile is at least 2 % faster than F.rms_norm and F.layer_norm.",
        subject=TORCH_COMPILE, baseline=TORCH_FUSED, cases=RMSNORM_CASES + LAYERNORM_CASES,
    ),
    Claim(
        name="triton-rmsnorm-keeps-up-with-quack",
        text="Triton RMSNorm is at most 2 % slower than QuACK on the larger shapes.",
        subject=TRITON_RMSNORM, baseline=QUACK, cases=(*LARGE_RMSNORM_CASES, PROMPT), threshold=KEEPS_UP,
    ),
    Claim(
        name="triton-long-row-rmsnorm-beats-compile",
        text="Triton RMSNorm is at least 35 % faster than torch.compile on rows of 131,072.",
        subject=TRITON_RMSNORM, baseline=TORCH_COMPILE, cases=(LONG_ROWS,), threshold=1.35,
    ),
    Claim(
        name="triton-long-row-rmsnorm-keeps-up-with-quack",
        text="Triton RMSNorm is at most 2 % slower than QuACK on rows of 131,072.",
        subject=TRITON_RMSNORM, baseline=QUACK, cases=(LONG_ROWS,), threshold=KEEPS_UP,
    ),
    Claim(
        name="cuda-rmsnorm-keeps-up-with-quack",
        text="CUDA C++ RMSNorm is at most 2 % slower than QuACK on the larger shapes and on rows of 131,072.",
        subject=CUDA_CPP, baseline=QUACK, cases=(*LARGE_RMSNORM_CASES, PROMPT, LONG_ROWS), threshold=KEEPS_UP,
    ),
    Claim(
        name="triton-add-rmsnorm-beats-torch",
        text="Triton add-RMSNorm is at least 2 % faster than an addition and F.rms_norm.",
        subject=TRITON_ADD_RMSNORM, baseline=TORCH_FUSED, cases=(RESIDUAL,),
    ),
    Claim(
        name="triton-add-rmsnorm-beats-compile",
        text="Triton add-RMSNorm is at least 2 % faster than torch.compile.",
        subject=TRITON_ADD_RMSNORM, baseline=TORCH_COMPILE, cases=(RESIDUAL,),
    ),
    *(
        Claim(
            name=f"triton-add-rmsnorm-keeps-up-with-{rival.name}",
            text=f"Triton add-RMSNorm is at most 2 % slower than {rival.title}.",
            subject=TRITON_ADD_RMSNORM, baseline=rival, cases=(RESIDUAL,), threshold=KEEPS_UP,
        )
        for rival in (LIGER, QUACK)
    ),
    *(
        Claim(
            name=f"small-triton-rmsnorm-keeps-up-with-{rival.name}",
            text=f"Triton RMSNorm of small inputs is at most 5 % slower than {whose}, in a CUDA graph.",
            subject=TRITON_RMSNORM, baseline=rival, cases=SMALL_RMSNORM_CASES, scope="graph", threshold=NEARLY,
        )
        for rival, whose in ((TORCH_FUSED, "F.rms_norm"), (LIGER, "Liger"), (QUACK, "QuACK"))
    ),
)  # fmt: skip

NORMALIZATION_FUSION = Experiment(
    name="normalization-fusion",
    title="Normalization Fusion",
    question="How much faster is a fused Triton RMSNorm or LayerNorm than PyTorch?",
    importance=(
        "Normalisation runs twice in every layer of a language model and does almost no arithmetic, so its "
        "time is the time of its memory traffic. Written out in PyTorch operators it reads and writes the "
        "tensor several times; fused, once. How large the win looks depends on the rival: against the "
        "written-out form it is large, against PyTorch's own fused call and against compiled code it may "
        "be small or nothing. This experiment registers a claim against each of them."
    ),
    focus="Kernel fusion",
    cases=(*RMSNORM_CASES, *LAYERNORM_CASES, PROMPT, DECODE, LONG_ROWS, RESIDUAL),
    profiles=(
        TORCH_BASELINE,
        TORCH_FUSED,
        TORCH_COMPILE,
        TRITON_RMSNORM,
        TRITON_LAYERNORM,
        TRITON_ADD_RMSNORM,
        LIGER,
        QUACK,
        CUDA_CPP,
    ),
    claims=CLAIMS,
    headlines=(RMSNORM_BEATS_TORCH, LAYERNORM_BEATS_TORCH),
    does_not_show=(
        "The backward pass, or any gradient.",
        "The speed of a whole model: a faster norm moves a layer by its share of the layer's time only.",
        "A gain for eager Python callers: every claim is about GPU time, and at these sizes most eager calls wait for "
        "the host.",
        "A claim for inputs that are still in the cache because the previous layer has just written them: "
        "device_warm is measured and shown, and no claim rests on it.",
        "A residual that is added in place, as some frameworks do: every implementation writes the sum to new memory.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
)
