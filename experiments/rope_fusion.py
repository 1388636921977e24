"""How much faster is RoPE of queries and keys in one Triton kernel, and faster than which implementations?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.cuda_rope import rope_cuda, rope_qk_cuda
from lab.kernels.rope import (
    rope,
    rope_inputs,
    rope_qk,
    rope_qk_,
    rope_qk_inputs,
    rope_qk_reference,
    rope_qk_traffic,
    rope_reference,
    rope_traffic,
)


def rope_decomposed(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return _turned(x, torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1))


def rope_qk_decomposed(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    return _turned(q, cos, sin), _turned(k, cos, sin)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Hugging Face's formula, with tables that contain each angle twice."""
    rotary = cos.shape[-1]
    turned, passed = x[..., :rotary], x[..., rotary:]
    a, b = turned.chunk(2, dim=-1)
    y = turned * cos + torch.cat((-b, a), dim=-1) * sin
    return torch.cat((y, passed), dim=-1) if passed.shape[-1] else y


ROPE = Operator(
    name="rope",
    inputs=rope_inputs,
    reference=rope_reference,
    traffic=rope_traffic,
    # The written-out form rounds both products and their sum.
    tolerance=3,
    standard=rope_decomposed,
    edges=EDGES,
)
ROPE_QK = Operator(
    name="rope-qk",
    inputs=rope_qk_inputs,
    reference=rope_qk_reference,
    traffic=rope_qk_traffic,
    tolerance=3,
    standard=rope_qk_decomposed,
    # Not NaN and infinity: these edges write into rows, which must be adjacent, and those of projected queries are not.
    edges=tuple(edge for edge in EDGES if edge not in ("nan", "inf")),
)


def load_compiled(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def load_liger() -> Callable[..., Any]:
    from liger_kernel.ops.rope import LigerRopeFunction

    # The last argument says that the tables contain each angle once.
    return lambda q, k, cos, sin: LigerRopeFunction.apply(q, k, cos, sin, None, 1, 2 * cos.shape[-1])


ALL_SHAPES = "all-shapes"
ROPE_CASE = Case(
    operator=ROPE, shape=(1, 32, 8192, 128), dtype="bfloat16",
    description="one tensor of 32 heads at 8192 positions, heads before positions in memory",
)  # fmt: skip
PREFILL_CASES = (
    Case(
        operator=ROPE_QK, shape=(1, 32, 8, 8192, 128), dtype="bfloat16",
        description="queries and keys of a Llama 3 8B layer at 8192 positions, as its projections leave them",
    ),
    Case(
        operator=ROPE_QK, shape=(1, 28, 4, 4096, 128), dtype="bfloat16", only_with=ALL_SHAPES,
        description="queries and keys of a Qwen2.5 7B layer at 4096 positions",
    ),
)  # fmt: skip
DECODE_CASE = Case(
    operator=ROPE_QK, shape=(64, 28, 4, 1, 128), dtype="bfloat16", only_with=ALL_SHAPES,
    description="one position of 64 sequences in a Qwen2.5 7B layer: a step of decoding",
)  # fmt: skip

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="decomposed PyTorch",
    technique=(
        "Hugging Face's formula, x · cos + rotate_half(x) · sin, in PyTorch operators, one launch each. Its tables, "
        "which hold each angle twice, are made in the call: two small kernels."
    ),
    hypothesis="Slowest: each operator moves the whole tensor again, and a decoding step is a dozen launches.",
    signal="A dozen kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={"rope": lambda: rope_decomposed, "rope-qk": lambda: rope_qk_decomposed},
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the same formula in max-autotune mode without CUDA graphs: kernels for this shape.",
    hypothesis="The strongest rival: element-wise, so generated code comes near the memory's limit.",
    signal="One or two generated kernels; DRAM bytes near the least traffic.",
    implementations={"rope": load_compiled(rope_decomposed), "rope-qk": load_compiled(rope_qk_decomposed)},
    recompiles=True,
)
LIGER = Profile(
    name="liger",
    title="Liger, in place",
    technique=(
        "The Triton kernel of the Liger library, as published: a program turns all heads of one position, in place. "
        "The heads lie as a projection leaves them, which is the layout that it works on without a copy."
    ),
    hypothesis="Behind: many small programs with masked halves, and lanes without work for 28 heads.",
    signal="One kernel of Liger's; DRAM bytes near the least traffic.",
    implementations={"rope-qk": load_liger},
    devices=("cuda",),
    package="liger_kernel",
    in_place=True,
)
TRITON = Profile(
    name="triton",
    title="Triton RoPE",
    technique=(
        "One Triton kernel for queries and keys. A program takes a few heads at neighbouring positions and loads their "
        "angles once; a thread loads 16 bytes of each half of a head, and a warp whole lines of both."
    ),
    hypothesis="At one read and one write of the heads: a little ahead of compiled code, well ahead of Liger.",
    signal="The lab's own kernel, once; DRAM throughput near a copy's.",
    implementations={"rope": lambda: rope, "rope-qk": lambda: rope_qk},
    kernels={"rope": "_rope_kernel", "rope-qk": "_rope_kernel"},
    devices=("cuda",),
)
TRITON_IN_PLACE = Profile(
    name="triton-in-place",
    title="Triton RoPE, in place",
    technique="The same kernel, whose results take the place of what it read.",
    hypothesis="The same bytes and the same time; no memory for a result, and what Liger is fairly held against.",
    signal="The lab's own kernel, once; as many DRAM bytes as out of place.",
    implementations={"rope-qk": lambda: rope_qk_},
    kernels={"rope-qk": "_rope_kernel"},
    devices=("cuda",),
    in_place=True,
)

CUDA_CPP = Profile(
    name="cuda-cpp",
    title="CUDA C++",
    technique=(
        "One CUDA C++ kernel of the lab for queries and keys, compiled by nvcc: a thread loads 16 bytes of each half "
        "of two heads and turns both with the angles that it holds."
    ),
    hypothesis="The same loads as the Triton kernel, and so the same time.",
    signal="The lab's own kernel, once; DRAM throughput near a copy's.",
    implementations={"rope": lambda: rope_cuda, "rope-qk": lambda: rope_qk_cuda},
    kernels={"rope": "rope_cuda", "rope-qk": "rope_cuda"},
    devices=("cuda",),
    needs_nvcc=True,
)

LARGE_CASES = (ROPE_CASE, *PREFILL_CASES)
BEATS_COMPILE = Claim(
    name="triton-rope-beats-compile",
    text="Triton RoPE is at least 2 % faster than torch.compile at thousands of positions.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=LARGE_CASES,
)  # fmt: skip
BEATS_LIGER = Claim(
    name="triton-rope-beats-liger",
    text="Triton RoPE in place is at least 2 % faster than Liger at thousands of positions.",
    subject=TRITON_IN_PLACE, baseline=LIGER, cases=PREFILL_CASES,
)  # fmt: skip
CLAIMS = (
    BEATS_COMPILE,
    BEATS_LIGER,
    in_graph(BEATS_COMPILE),
    in_graph(BEATS_LIGER),
    Claim(
        name="triton-rope-keeps-up-with-compile",
        text="Triton RoPE is at most 2 % slower than torch.compile at thousands of positions.",
        subject=TRITON, baseline=TORCH_COMPILE, threshold=0.98, cases=LARGE_CASES,
    ),
    Claim(
        name="cuda-rope-keeps-up-with-compile",
        text="CUDA C++ RoPE is at most 2 % slower than torch.compile at thousands of positions.",
        subject=CUDA_CPP, baseline=TORCH_COMPILE, threshold=0.98, cases=LARGE_CASES,
    ),
    Claim(
        name="triton-rope-beats-decomposed",
        text="Triton RoPE is at least 3 times as fast as written-out PyTorch.",
        subject=TRITON, baseline=TORCH_BASELINE, threshold=3.0, cases=LARGE_CASES,
    ),
    Claim(
        name="out-of-place-triton-rope-beats-liger",
        text="Triton RoPE out of place is at least 2 % faster than Liger in place.",
        subject=TRITON, baseline=LIGER, cases=PREFILL_CASES,
    ),
    Claim(
        name="decoding-triton-rope-keeps-up-with-compile",
        text="Triton RoPE of a decoding step is at most 2 % slower than torch.compile, in a CUDA graph.",
        subject=TRITON, baseline=TORCH_COMPILE, threshold=0.98, cases=(DECODE_CASE,), scope="graph",
    ),
    Claim(
        name="decoding-triton-rope-beats-decomposed",
        text="Triton RoPE of a decoding step is at least 3 times as fast as written-out PyTorch, in a CUDA graph.",
        subject=TRITON, baseline=TORCH_BASELINE, threshold=3.0, cases=(DECODE_CASE,), scope="graph",
    ),
    Claim(
        name="eager-decoding-triton-rope-beats-decomposed",
        text="Triton RoPE of a decoding step is at least 2 % faster than eager PyTorch for a Python caller.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=(DECODE_CASE,), scope="eager",
    ),
)  # fmt: skip

ROPE_FUSION = Experiment(
    name="rope-fusion",
    title="RoPE Fusion",
    question="How much faster is RoPE of queries and keys in one Triton kernel, and than what?",
    importance=(
        "Every attention layer turns its queries and keys by their positions: two products and a sum an element, so "
        "the time is that of the memory traffic. Written out as Hugging Face has it, the tensors cross memory five "
        "times as often as they must. The two halves of a head that are turned together are short runs of memory, "
        "which is where a kernel may lose what fusion gained."
    ),
    focus="Kernel fusion",
    cases=(ROPE_CASE, *PREFILL_CASES, DECODE_CASE),
    profiles=(TORCH_BASELINE, TORCH_COMPILE, LIGER, TRITON, TRITON_IN_PLACE, CUDA_CPP),
    claims=CLAIMS,
    headlines=(BEATS_COMPILE, BEATS_LIGER),
    does_not_show=(
        "The backward pass, or any gradient.",
        "A gain over an attention kernel or a projection that turns its operands itself, and so needs no RoPE.",
        "Liger on heads that lie before positions in memory, where it copies both tensors first: it would be slower.",
        "Interleaved pairs, partial rotation and float32 tables, which the kernel has and no claim is about.",
        "Decoding steps of sequences at different positions: here all 64 share one angle table of one row.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
    scopes=("device_cold", "graph", "eager", "device_dirty"),
)
