"""How near is a gated linear unit in one kernel to the limit of memory bandwidth, and how near are its rivals?"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.cuda_glu import swiglu_cuda
from lab.kernels.glu import (
    geglu_erf_reference,
    geglu_tanh,
    geglu_tanh_reference,
    glu_inputs,
    glu_traffic,
    swiglu,
    swiglu_reference,
)


def swiglu_written_out(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def geglu_tanh_written_out(gate: Tensor, up: Tensor) -> Tensor:
    return F.gelu(gate, approximate="tanh") * up


# The written-out form rounds twice to the storage dtype, by half an epsilon each and a little more together. The scale
# allows for cancellation in 1 + tanh where the gate is far below zero.
SWIGLU = Operator(
    name="swiglu", inputs=glu_inputs, reference=swiglu_reference, traffic=glu_traffic,
    tolerance=1.02, scale=2**-7, edges=EDGES,
)  # fmt: skip
GEGLU_ERF = Operator(  # no case here uses it; `lab tune` does
    name="geglu-erf", inputs=glu_inputs, reference=geglu_erf_reference, traffic=glu_traffic,
    tolerance=1.02, scale=2**-7, edges=EDGES,
)  # fmt: skip
GEGLU_TANH = Operator(
    name="geglu-tanh", inputs=glu_inputs, reference=geglu_tanh_reference, traffic=glu_traffic,
    tolerance=1.02, scale=2**-7, edges=EDGES,
)  # fmt: skip


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def load_liger_swiglu() -> Callable[..., Any]:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return lambda gate, up: LigerSiLUMulFunction.apply(gate, up)


def load_liger_geglu() -> Callable[..., Any]:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return lambda gate, up: LigerGELUMulFunction.apply(gate, up)


ALL_SHAPES = "all-shapes"
QWEN_7B = Case(
    operator=SWIGLU, shape=(2048, 18_944), dtype="bfloat16",
    description="2048 tokens through the MLP of Qwen2.5-7B",
)  # fmt: skip
LLAMA_8B = Case(
    operator=SWIGLU, shape=(4096, 14_336), dtype="bfloat16", only_with=ALL_SHAPES,
    description="4096 tokens through the MLP of Llama 3 8B",
)  # fmt: skip
QWEN_HALF_B = Case(
    operator=SWIGLU, shape=(2048, 4864), dtype="bfloat16", only_with=ALL_SHAPES,
    description="2048 tokens through the MLP of Qwen2.5-0.5B",
)  # fmt: skip
DECODE = Case(
    operator=SWIGLU, shape=(16, 18_944), dtype="bfloat16",
    description="one decoding step of sixteen sequences in Qwen2.5-7B",
)  # fmt: skip
GEMMA = Case(
    operator=GEGLU_TANH, shape=(2048, 16_384), dtype="bfloat16", only_with=ALL_SHAPES,
    description="2048 tokens through the MLP of Gemma 2B",
)  # fmt: skip
PREFILL = (QWEN_7B, LLAMA_8B, QWEN_HALF_B)

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="eager PyTorch",
    technique="F.silu(gate) * up, or F.gelu(gate) * up: two kernel launches.",
    hypothesis="Slowest: the activation is written to memory and read back, five passes for three.",
    signal="Two kernels, whose DRAM bytes add up to five thirds of the least traffic.",
    implementations={"swiglu": lambda: swiglu_written_out, "geglu-tanh": lambda: geglu_tanh_written_out},
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the eager form, dynamic=False, max-autotune without CUDA graphs.",
    hypothesis="The strongest rival: a generated elementwise kernel is as good as its loads are wide.",
    signal="One generated kernel; DRAM bytes near the least traffic.",
    implementations={
        "swiglu": lambda: compiled(swiglu_written_out),
        "geglu-tanh": lambda: compiled(geglu_tanh_written_out),
    },
    recompiles=True,
)
LIGER = Profile(
    name="liger",
    title="Liger",
    technique="The Triton kernels of the Liger library, as published: one program a row, masked.",
    hypothesis="Behind where a row is no power of two: the mask leaves lanes idle.",
    signal="One kernel of Liger's; DRAM bytes near the least traffic.",
    implementations={"swiglu": load_liger_swiglu, "geglu-tanh": load_liger_geglu},
    devices=("cuda",),
    package="liger_kernel",
)
TRITON = Profile(
    name="triton-fused-glu",
    title="Triton GLU",
    technique="One Triton kernel over one run of memory: 16 bytes a thread from gate and up, no mask but at the end.",
    hypothesis="Bound by two reads and one write: at the rate of a copy, whatever the width of a row.",
    signal="The lab's own kernel; DRAM throughput near that of a copy.",
    implementations={"swiglu": lambda: swiglu, "geglu-tanh": lambda: geglu_tanh},
    kernels={"swiglu": "_glu_kernel", "geglu-tanh": "_glu_kernel"},
    devices=("cuda",),
)

CUDA_CPP = Profile(
    name="cuda-cpp",
    title="CUDA C++",
    technique="A CUDA C++ kernel of the lab, by nvcc, over one run of memory: 16 bytes a thread from gate and up.",
    hypothesis="The same loads as the Triton kernel, and so the same time.",
    signal="The lab's own kernel; DRAM throughput near that of a copy.",
    implementations={"swiglu": lambda: swiglu_cuda},
    kernels={"swiglu": "swiglu_cuda"},
    devices=("cuda",),
    needs_nvcc=True,
)

BEATS_EAGER = Claim(
    name="triton-swiglu-beats-eager",
    text="Triton SwiGLU is at least 1.5 times as fast as F.silu(gate) * up, on prompts.",
    subject=TRITON, baseline=TORCH_BASELINE, cases=PREFILL, threshold=1.5,
)  # fmt: skip
KEEPS_UP_WITH_COMPILE = Claim(
    name="triton-swiglu-keeps-up-with-compile",
    text="Triton SwiGLU is at most 2 % slower than torch.compile, on prompts.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=PREFILL, threshold=0.98,
)  # fmt: skip
BEATS_LIGER = Claim(
    name="triton-swiglu-beats-liger",
    text="Triton SwiGLU is at least 2 % faster than Liger, on prompts.",
    subject=TRITON, baseline=LIGER, cases=PREFILL,
)  # fmt: skip
CLAIMS = (
    BEATS_EAGER,
    KEEPS_UP_WITH_COMPILE,
    BEATS_LIGER,
    in_graph(BEATS_EAGER),
    in_graph(KEEPS_UP_WITH_COMPILE),
    in_graph(BEATS_LIGER),
    Claim(
        name="cuda-swiglu-keeps-up-with-compile",
        text="CUDA C++ SwiGLU is at most 2 % slower than torch.compile on prompts.",
        subject=CUDA_CPP, baseline=TORCH_COMPILE, cases=PREFILL, threshold=0.98,
    ),
    Claim(
        name="triton-swiglu-beats-compile",
        text="Triton SwiGLU is at least 2 % faster than torch.compile, on prompts.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=PREFILL,
    ),
    Claim(
        name="triton-decode-swiglu-beats-eager",
        text="Triton SwiGLU of a decoding step is at least 2 % faster than F.silu(gate) * up, in a CUDA graph.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=(DECODE,), scope="graph",
    ),
    Claim(
        name="triton-decode-swiglu-keeps-up-with-compile",
        text="Triton SwiGLU of a decoding step is at most 2 % slower than torch.compile, in a CUDA graph.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(DECODE,), scope="graph", threshold=0.98,
    ),
    Claim(
        name="triton-decode-swiglu-keeps-up-with-liger",
        text="Triton SwiGLU of a decoding step is at most 2 % slower than Liger, in a CUDA graph.",
        subject=TRITON, baseline=LIGER, cases=(DECODE,), scope="graph", threshold=0.98,
    ),
    Claim(
        name="triton-geglu-beats-eager",
        text="Triton GeGLU is at least 1.5 times as fast as F.gelu(gate) * up.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=(GEMMA,), threshold=1.5,
    ),
    Claim(
        name="triton-geglu-keeps-up-with-compile",
        text="Triton GeGLU is at most 2 % slower than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(GEMMA,), threshold=0.98,
    ),
    Claim(
        name="triton-geglu-keeps-up-with-liger",
        text="Triton GeGLU is at most 2 % slower than Liger.",
        subject=TRITON, baseline=LIGER, cases=(GEMMA,), threshold=0.98,
    ),
)  # fmt: skip

SWIGLU_FUSION = Experiment(
    name="swiglu-fusion",
    title="SwiGLU Fusion",
    question="How much faster are SwiGLU and GeGLU in one fused kernel, and than what?",
    importance=(
        "The gated unit in the middle of every MLP of Llama, Qwen, Mistral and Gemma touches the widest tensors of the "
        "layer and does a handful of operations on each number, so its time is the time of its memory traffic. Eager "
        "PyTorch moves five tensors where three would do. Compilers and libraries fuse it too: the question is less "
        "whether to fuse than what is left to gain over those who do."
    ),
    focus="Kernel fusion",
    cases=(*PREFILL, DECODE, GEMMA),
    profiles=(TORCH_BASELINE, TORCH_COMPILE, LIGER, TRITON, CUDA_CPP),
    claims=CLAIMS,
    headlines=(BEATS_EAGER, KEEPS_UP_WITH_COMPILE, BEATS_LIGER),
    does_not_show=(
        "The backward pass, or any gradient.",
        "The matrix products on either side, which take most of an MLP's time: a faster unit moves the layer by its "
        "share only, and one fused into a product would move no bytes of its own at all.",
        "Gate and up packed in one tensor: the kernel takes them as views, and the tests cover it, but no time here.",
        "A gain for eager Python callers at the size of a decoding step, who wait for the host.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
    scopes=("device_cold", "graph", "device_dirty"),
)
