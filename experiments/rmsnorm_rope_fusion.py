"""Is RMSNorm with RoPE faster in one kernel than in two?"""

import torch.nn.functional as F
from torch import Tensor

from experiments.rope_fusion import load_compiled, rope_decomposed, rope_qk_decomposed
from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_rope import (
    qk_norm_rope,
    qk_norm_rope_inputs,
    qk_norm_rope_reference,
    qk_norm_rope_traffic,
    rmsnorm_rope,
    rmsnorm_rope_inputs,
    rmsnorm_rope_reference,
    rmsnorm_rope_traffic,
)
from lab.kernels.rope import rope_, rope_qk_

EPS = 1e-6


def rmsnorm_rope_unfused(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = rope_decomposed(_heads(F.rms_norm(x, x.shape[-1:], weight, EPS), cos), cos, sin)
    return turned.transpose(1, 2).reshape(x.shape)


def qk_norm_rope_unfused(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    # In memory, heads are inside positions, as a projection writes them: then the norm needs no copy.
    q = F.rms_norm(q.transpose(1, 2), q.shape[-1:], q_weight, EPS).transpose(1, 2)
    k = F.rms_norm(k.transpose(1, 2), k.shape[-1:], k_weight, EPS).transpose(1, 2)
    return rope_qk_decomposed(q, k, cos, sin)


def rmsnorm_rope_by_two(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    y = rmsnorm(x, weight, EPS)
    rope_(_heads(y, cos), cos, sin)
    return y


def qk_norm_rope_by_three(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    yq = rmsnorm(q.transpose(1, 2), q_weight, EPS).transpose(1, 2)
    yk = rmsnorm(k.transpose(1, 2), k_weight, EPS).transpose(1, 2)
    return rope_qk_(yq, yk, cos, sin)


def _heads(x: Tensor, cos: Tensor) -> Tensor:
    """(B, S, H) as (B, heads, S, D): a view."""
    return x.view(*x.shape[:2], -1, 2 * cos.shape[-1]).transpose(1, 2)


RMSNORM_ROPE = Operator(
    name="rmsnorm-rope",
    inputs=rmsnorm_rope_inputs,
    reference=rmsnorm_rope_reference,
    traffic=rmsnorm_rope_traffic,
    # The unfused form rounds the norm, then both products and their sum.
    tolerance=4,
    standard=rmsnorm_rope_unfused,
    # No odd sizes: a head of an odd size has no halves to turn.
    edges=tuple(edge for edge in EDGES if edge != "odd-sizes"),
)
QK_NORM_ROPE = Operator(
    name="qk-norm-rope",
    inputs=qk_norm_rope_inputs,
    reference=qk_norm_rope_reference,
    traffic=qk_norm_rope_traffic,
    tolerance=4,
    standard=qk_norm_rope_unfused,
    # Not NaN and infinity: these edges write into rows, which must be adjacent, and those of projected queries are not.
    edges=tuple(edge for edge in EDGES if edge not in ("odd-sizes", "nan", "inf")),
)

ALL_SHAPES = "all-shapes"
LARGE_CASE = Case(
    operator=RMSNORM_ROPE, shape=(8, 2048, 64, 64), dtype="float16",
    description="hidden states of 4096 columns as 64 heads of 64, 8 sequences of 2048",
)  # fmt: skip
MEDIUM_CASE = Case(
    operator=RMSNORM_ROPE, shape=(1, 4096, 28, 128), dtype="bfloat16", only_with=ALL_SHAPES,
    description="queries of Qwen2.5 7B's width, 3584 columns as 28 heads of 128, at 4096 positions",
)  # fmt: skip
HEADS_CASE = Case(
    operator=QK_NORM_ROPE, shape=(1, 32, 8, 4096, 128), dtype="bfloat16",
    description="queries and keys of a Qwen3 8B layer at 4096 positions, each head with a norm of its own",
)  # fmt: skip
CASES = (LARGE_CASE, MEDIUM_CASE, HEADS_CASE)

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="PyTorch, unfused",
    technique="F.rms_norm, then Hugging Face's rotary formula in PyTorch operators, one launch each.",
    hypothesis="Slowest: the norm is one kernel, the rotation half a dozen, each over the whole tensor.",
    signal="Many kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={"rmsnorm-rope": lambda: rmsnorm_rope_unfused, "qk-norm-rope": lambda: qk_norm_rope_unfused},
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the same pair in max-autotune mode without CUDA graphs.",
    hypothesis="The strongest rival where the compiler fuses the rotation into the norm's kernel.",
    signal="One generated kernel, or one of each tensor; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm-rope": load_compiled(rmsnorm_rope_unfused),
        "qk-norm-rope": load_compiled(qk_norm_rope_unfused),
    },
    recompiles=True,
)
TRITON_UNFUSED = Profile(
    name="triton-unfused",
    title="Triton, unfused",
    technique="The lab's own RMSNorm, then its RoPE in place on what the norm has written.",
    hypothesis="The best that kernels of their own can do: four crossings of memory in place of two.",
    signal="Two kernels, three for queries and keys; twice the least traffic where the tensor outgrows the cache.",
    implementations={"rmsnorm-rope": lambda: rmsnorm_rope_by_two, "qk-norm-rope": lambda: qk_norm_rope_by_three},
    kernels={"rmsnorm-rope": "_rope_kernel", "qk-norm-rope": "_rope_kernel"},
    devices=("cuda",),
)
TRITON = Profile(
    name="triton",
    title="Triton, fused",
    technique=(
        "One Triton kernel. A row is held in registers as the pairs of its heads, so that what was normalised is "
        "turned without another look at memory; of queries and keys, a few neighbouring threads hold a head."
    ),
    hypothesis="At one read and one write of the tensor: twice as fast as unfused, level with compiled code.",
    signal="The lab's own kernel, once; DRAM throughput near a copy's.",
    implementations={"rmsnorm-rope": lambda: rmsnorm_rope, "qk-norm-rope": lambda: qk_norm_rope},
    kernels={"rmsnorm-rope": "_rmsnorm_rope_kernel", "qk-norm-rope": "_qk_norm_rope_kernel"},
    devices=("cuda",),
)

KEEPS_UP = Claim(
    name="fused-triton-keeps-up-with-compile",
    text="Triton RMSNorm and RoPE in one kernel is at most 2 % slower than torch.compile.",
    subject=TRITON, baseline=TORCH_COMPILE, threshold=0.98, cases=CASES,
)  # fmt: skip
BEATS_UNFUSED = Claim(
    name="fused-triton-beats-unfused",
    text="Triton RMSNorm and RoPE in one kernel is at least 30 % faster than in two.",
    subject=TRITON, baseline=TRITON_UNFUSED, threshold=1.3, cases=CASES,
)  # fmt: skip
CLAIMS = (
    BEATS_UNFUSED,
    KEEPS_UP,
    in_graph(BEATS_UNFUSED),
    Claim(
        name="fused-triton-beats-compile",
        text="Triton RMSNorm and RoPE in one kernel is at least 2 % faster than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=CASES,
    ),
    Claim(
        name="large-fused-triton-beats-unfused",
        text="Triton RMSNorm and RoPE in one kernel is at least 1.7 times as fast as in two, beyond the cache.",
        subject=TRITON, baseline=TRITON_UNFUSED, threshold=1.7, cases=(LARGE_CASE,),
    ),
    Claim(
        name="fused-triton-beats-torch",
        text="Triton RMSNorm and RoPE in one kernel is at least 3 times as fast as unfused PyTorch.",
        subject=TRITON, baseline=TORCH_BASELINE, threshold=3.0, cases=CASES,
    ),
    Claim(
        name="fusion-saves-traffic",
        text="Beyond the cache, RMSNorm and RoPE in two kernels move at least 1.6 times the bytes of one.",
        subject=TRITON, baseline=TRITON_UNFUSED, threshold=1.6, measure="traffic", cases=(LARGE_CASE,),
    ),
    Claim(
        name="replayed-fused-triton-keeps-up-with-compile",
        text="Triton RMSNorm and RoPE in one kernel is at most 2 % slower than torch.compile, in a CUDA graph.",
        subject=TRITON, baseline=TORCH_COMPILE, threshold=0.98, cases=CASES, scope="graph",
    ),
)  # fmt: skip

RMSNORM_ROPE_FUSION = Experiment(
    name="rmsnorm-rope-fusion",
    title="RMSNorm + RoPE Fusion",
    question="Does it pay to fuse RoPE into RMSNorm?",
    importance=(
        "Norm and rotation both move every byte in and out again and compute next to nothing. In one kernel the tensor "
        "crosses memory twice rather than four times. Models have it in two forms: some tools fuse the norm of a whole "
        "hidden state with the rotation of its heads; Qwen3 and others normalise every head of queries and keys "
        "before they turn it. The gain over careless code is large; how large it is over two good kernels, and over a "
        "compiler that fuses them by itself, is what the experiment asks."
    ),
    focus="Kernel fusion",
    cases=CASES,
    profiles=(TORCH_BASELINE, TORCH_COMPILE, TRITON_UNFUSED, TRITON),
    claims=CLAIMS,
    headlines=(BEATS_UNFUSED, KEEPS_UP),
    does_not_show=(
        "The backward pass, or any gradient.",
        "A model that norms hidden states and turns them at once: between the two, models project. Only the form with "
        "a norm of every head stands in a model as it is.",
        "The same rounding as the unfused pair: what is turned here is the norm in float32, not as it would be stored.",
        "Decoding steps, where launches and not bytes take the time.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
    scopes=("device_cold", "graph", "device_dirty"),
)
