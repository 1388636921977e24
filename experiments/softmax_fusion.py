"""How near is a fused softmax to the time of one read and one write, also for rows too wide for registers?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.cuda_rows import softmax_cuda
from lab.kernels.softmax import softmax, softmax_inputs, softmax_reference, softmax_traffic


def softmax_decomposed(x: Tensor) -> Tensor:
    wide = x.float()
    powers = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


def softmax_fused(x: Tensor) -> Tensor:
    return F.softmax(x, dim=-1)


SOFTMAX = Operator(
    name="softmax",
    inputs=softmax_inputs,
    reference=softmax_reference,
    traffic=softmax_traffic,
    # Half an epsilon for the one rounding. Results in a row of thousands are far below one, and the tolerance is
    # relative to their size: the scale only allows for the smallest steps of float16.
    tolerance=1,
    scale=1e-4,
    standard=softmax_fused,
    edges=EDGES,
)
# Operators with names of their own, because they have other rivals.
UNEVEN = replace(SOFTMAX, name="softmax-uneven")
WIDE = replace(SOFTMAX, name="softmax-wide")
CLUSTERED = replace(SOFTMAX, name="softmax-cluster")
EVERYWHERE = (SOFTMAX.name, UNEVEN.name, WIDE.name, CLUSTERED.name)


def load_liger_softmax() -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # Liger uses it without importing it
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return lambda x: LigerSoftmaxFunction.apply(x)


def load_quack_softmax() -> Callable[..., Any]:
    from quack.softmax import softmax as quack_softmax

    return lambda x: quack_softmax(x)


def load_compiled_softmax() -> Callable[..., Any]:
    return torch.compile(softmax_fused, dynamic=False, mode="max-autotune-no-cudagraphs")


ALL_SHAPES = "all-shapes"
CASES = (
    Case(
        operator=SOFTMAX, shape=(4096, 4096), dtype="float16",
        description="the scores of 4096 queries against as many keys, in half precision",
    ),
    Case(operator=SOFTMAX, shape=(4096, 8192), dtype="float16", description="twice as many keys"),
)  # fmt: skip
UNEVEN_CASE = Case(
    operator=UNEVEN, shape=(8192, 1000), dtype="bfloat16", only_with=ALL_SHAPES,
    description="the thousand classes of an image classifier: short rows of no power of two",
)  # fmt: skip
WIDE_CASE = Case(
    operator=WIDE, shape=(1024, 131_072), dtype="bfloat16",
    description="a vocabulary of 128 K, or one query over as long a context: a row of 256 KiB",
)  # fmt: skip
FULL_CASE = Case(
    operator=CLUSTERED, shape=(1024, 131_072), dtype="float32", only_with=ALL_SHAPES,
    description="a vocabulary of 128 K in full precision: a row of 512 KiB",
)  # fmt: skip
WIDEST_CASE = Case(
    operator=CLUSTERED, shape=(1024, 262_144), dtype="float16", only_with=ALL_SHAPES,
    description="a vocabulary of 256 K in half precision: a row of 512 KiB",
)  # fmt: skip

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="decomposed PyTorch",
    technique="Maximum, difference, exponential, sum and quotient as PyTorch operators in float32, one launch each.",
    hypothesis="Slowest: every operator moves the whole tensor again, at twice its size.",
    signal="Several kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={"softmax": lambda: softmax_decomposed},
)
TORCH_FUSED = Profile(
    name="torch-fused",
    title="F.softmax",
    technique="F.softmax: one hand-written CUDA kernel of the library.",
    hypothesis="What a user has today without effort; a wide row is read more than once.",
    signal="One kernel; DRAM bytes above the least where rows outgrow what a block keeps on chip.",
    implementations=dict.fromkeys(EVERYWHERE, lambda: softmax_fused),
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of F.softmax in max-autotune mode without CUDA graphs: kernels generated for this shape.",
    hypothesis="A close rival where the generated kernel keeps a row on chip; far behind where it does not.",
    signal="One or two generated kernels; in the wide case two reads of the tensor.",
    implementations=dict.fromkeys(EVERYWHERE, load_compiled_softmax),
    recompiles=True,
)
LIGER = Profile(
    name="liger",
    title="Liger",
    technique="The Triton kernel of the Liger library, as published: one row a program.",
    hypothesis="Level with ours where a row fits; the library refuses rows of more than 65,536 columns.",
    signal="One kernel of Liger's; DRAM bytes near the least traffic.",
    implementations={"softmax": load_liger_softmax},
    devices=("cuda",),
    package="liger_kernel",
)
QUACK = Profile(
    name="quack",
    title="QuACK",
    technique="The CuTe kernel of the QuACK library: a row is spread over up to 16 blocks that share their memories.",
    hypothesis="The strongest rival that is published: at the memory's limit for rows of any width.",
    signal="One kernel of QuACK's; DRAM bytes at the least traffic, in the wide case too.",
    implementations=dict.fromkeys(EVERYWHERE, load_quack_softmax),
    devices=("cuda",),
    package="quack",
)
TRITON = Profile(
    name="triton",
    title="Triton softmax",
    technique=(
        "One Triton kernel; a row stays in registers between maximum, sum and quotient. A wide row is held by a "
        "cluster of thread blocks, in Gluon; where a GPU has none, its first tile by one program, which reads the rest "
        "again from L2."
    ),
    hypothesis="Level with QuACK at any width, for it reads every element once where a GPU has clusters.",
    signal="The lab's own kernel; DRAM bytes at the least traffic, and L2 bytes too where a GPU has clusters.",
    implementations=dict.fromkeys(EVERYWHERE, lambda: softmax),
    kernels={
        "softmax": "_softmax_kernel",
        "softmax-uneven": "_softmax_kernel",
        "softmax-wide": "_softmax_cluster_kernel or _softmax_wide_kernel",
        "softmax-cluster": "_softmax_cluster_kernel or _softmax_wide_kernel",
    },
    devices=("cuda",),
)

CUDA_CPP = Profile(
    name="cuda-cpp",
    title="CUDA C++",
    technique=(
        "A CUDA C++ kernel of the lab, compiled by nvcc: a row stays in registers, one exchange settles its maximum "
        "and sum, and the blocks of a cluster share a wide row through their shared memories."
    ),
    hypothesis="Level with QuACK at any width, for it reads every element once.",
    signal="The lab's own kernel; DRAM and L2 bytes at the least traffic, in the wide case too.",
    implementations=dict.fromkeys(EVERYWHERE, lambda: softmax_cuda),
    kernels=dict.fromkeys(EVERYWHERE, "softmax_cuda"),
    devices=("cuda",),
    needs_nvcc=True,
)

KEEPS_UP = Claim(
    name="triton-softmax-keeps-up-with-quack",
    text="Triton softmax is at most 2 % slower than QuACK at 4096×4096 and 4096×8192.",
    subject=TRITON, baseline=QUACK, threshold=0.98, cases=CASES,
)  # fmt: skip
BEATS_TORCH = Claim(
    name="triton-softmax-beats-torch-fused",
    text="Triton softmax is at least 2 % faster than F.softmax on rows of 4096 and more.",
    subject=TRITON, baseline=TORCH_FUSED, cases=(*CASES, WIDE_CASE),
)  # fmt: skip
CLAIMS = (
    KEEPS_UP,
    BEATS_TORCH,
    in_graph(KEEPS_UP),
    in_graph(BEATS_TORCH),
    Claim(
        name="wide-triton-softmax-near-quack",
        text="Triton softmax is at most 3 % slower than QuACK on rows of 131,072.",
        subject=TRITON, baseline=QUACK, threshold=0.97, cases=(WIDE_CASE,),
    ),
    Claim(
        name="clustered-softmax-keeps-up-with-quack",
        text="Triton softmax is at most 2 % slower than QuACK on float32 rows of 131,072.",
        subject=TRITON, baseline=QUACK, threshold=0.98, cases=(FULL_CASE,),
    ),
    Claim(
        name="widest-clustered-softmax-keeps-up-with-quack",
        text="Triton softmax is at most 2 % slower than QuACK on float16 rows of 262,144.",
        subject=TRITON, baseline=QUACK, threshold=0.98, cases=(WIDEST_CASE,),
    ),
    Claim(
        name="clustered-softmax-beats-compile",
        text="Triton softmax is at least 1.3 times as fast as torch.compile on rows of 512 KiB.",
        subject=TRITON, baseline=TORCH_COMPILE, threshold=1.3, cases=(FULL_CASE, WIDEST_CASE),
    ),
    Claim(
        name="cuda-softmax-keeps-up-with-quack",
        text="CUDA C++ softmax is at most 2 % slower than QuACK on rows of 4096 to 131,072.",
        subject=CUDA_CPP, baseline=QUACK, threshold=0.98, cases=(*CASES, WIDE_CASE),
    ),
    Claim(
        name="uneven-triton-softmax-keeps-up-with-quack",
        text="Triton softmax is at most 2 % slower than QuACK on rows of 1000.",
        subject=TRITON, baseline=QUACK, threshold=0.98, cases=(UNEVEN_CASE,),
    ),
    Claim(
        name="uneven-triton-softmax-keeps-up-with-torch-fused",
        text="Triton softmax is at most 2 % slower than F.softmax on rows of 1000.",
        subject=TRITON, baseline=TORCH_FUSED, threshold=0.98, cases=(UNEVEN_CASE,),
    ),
    Claim(
        name="triton-softmax-beats-compile",
        text="Triton softmax is at least 2 % faster than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(*CASES, UNEVEN_CASE, WIDE_CASE),
    ),
    Claim(
        name="wide-triton-softmax-beats-compile",
        text="Triton softmax is at least 1.5 times as fast as torch.compile on rows of 131,072.",
        subject=TRITON, baseline=TORCH_COMPILE, threshold=1.5, cases=(WIDE_CASE,),
    ),
    Claim(
        name="triton-softmax-keeps-up-with-liger",
        text="Triton softmax is at most 2 % slower than Liger at 4096×4096 and 4096×8192.",
        subject=TRITON, baseline=LIGER, threshold=0.98, cases=CASES,
    ),
    Claim(
        name="triton-softmax-beats-decomposed",
        text="Triton softmax is at least 2 % faster than written-out PyTorch.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=CASES,
    ),
    Claim(
        name="torch-fused-beats-decomposed",
        text="F.softmax is at least 2 % faster than written-out PyTorch.",
        subject=TORCH_FUSED, baseline=TORCH_BASELINE, cases=CASES,
    ),
)  # fmt: skip

SOFTMAX_FUSION = Experiment(
    name="softmax-fusion",
    title="Softmax Fusion",
    question="Is one Triton kernel enough for softmax, from rows of a thousand to rows of 262,144?",
    importance=(
        "Softmax needs a row's maximum before its sum and its sum before any result: written out it moves the tensor "
        "several times. One kernel moves it twice, as long as a row fits on chip. Beyond that the published Triton "
        "kernels spill or refuse, compiled code reads the tensor again, and only kernels whose blocks share their "
        "memories keep up. Vocabularies and contexts have grown to that size, so the experiment asks both questions: "
        "how much fusion gains over PyTorch, and what is left to gain where a row is wide."
    ),
    focus="Kernel fusion",
    cases=(*CASES, UNEVEN_CASE, WIDE_CASE, FULL_CASE, WIDEST_CASE),
    profiles=(TORCH_BASELINE, TORCH_FUSED, TORCH_COMPILE, LIGER, QUACK, TRITON, CUDA_CPP),
    claims=CLAIMS,
    headlines=(KEEPS_UP, BEATS_TORCH),
    does_not_show=(
        "The backward pass, or any gradient.",
        "Attention: a fused attention kernel never writes the scores, and needs no softmax of its own.",
        "Masked, scaled or cross-entropy forms, which read or write less than a softmax and a second kernel.",
        "Few wide rows: every case has a thousand rows or more.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
    scopes=("device_cold", "graph", "device_dirty"),
)
