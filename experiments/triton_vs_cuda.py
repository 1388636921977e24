"""Triton against CUDA C++, both optimised by the lab: which is faster, and at which shapes?

The shapes and the baseline formulas are those of a published comparison, whose figures are in
experiments/audits/cuda_kernels.py. Larger shapes are added, at which neither launch nor cache dominates the time.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.headline_tables import (
    RMSNORM_CASES,
    ROPE_CASES,
    SWIGLU_CASES,
    rmsnorm_decomposed,
    rope_decomposed,
)
from experiments.normalization_fusion import RMSNORM, rmsnorm_fused
from experiments.softmax_fusion import SOFTMAX, softmax_decomposed, softmax_fused
from lab import Case, Claim, Experiment, Profile, in_graph
from lab.kernels.cuda_glu import swiglu_cuda
from lab.kernels.cuda_rope import rope_cuda
from lab.kernels.cuda_rows import rmsnorm_cuda, softmax_cuda
from lab.kernels.glu import swiglu
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rope import rope
from lab.kernels.softmax import softmax


def swiglu_decomposed(gate: Tensor, up: Tensor) -> Tensor:
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


ALL_SHAPES = "all-shapes"
WIDE_RMSNORM = Case(
    operator=RMSNORM, shape=(1024, 131_072), dtype="bfloat16",
    description="rows too wide for the registers of one multiprocessor",
)  # fmt: skip
LARGE_RMSNORM = Case(
    operator=RMSNORM, shape=(8192, 8192), dtype="bfloat16", only_with=ALL_SHAPES,
    description="RMSNorm of Llama 3 70B over a prompt of 8192 tokens",
)  # fmt: skip
LARGE_SOFTMAX = Case(
    operator=SOFTMAX, shape=(4096, 8192), dtype="float16",
    description="the scores of 4096 queries against 8192 keys",
)  # fmt: skip
WIDE_SOFTMAX = Case(
    operator=SOFTMAX, shape=(1024, 131_072), dtype="bfloat16",
    description="a vocabulary of 128 K: rows too wide for the registers of one multiprocessor",
)  # fmt: skip
LEAST_LARGE_BYTES = 32_000_000  # of a call's least traffic: from here on the launch is a small part of the time


def _is_large(case: Case) -> bool:
    return case.operator.traffic(case.shape, 2).total_bytes >= LEAST_LARGE_BYTES


FORMULA = Profile(
    name="torch-baseline",
    title="PyTorch, written out",
    technique="The formula in float32 with casts before and after, as the publication has it, one kernel an operator.",
    hypothesis="Moves several times the bytes that it must, and launches up to ten kernels.",
    signal="Several kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={
        "rmsnorm": lambda: rmsnorm_decomposed,
        "rope": lambda: rope_decomposed,
        "swiglu": lambda: swiglu_decomposed,
        "softmax": lambda: softmax_decomposed,
    },
)
COMPILED = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile in max-autotune mode without CUDA graphs, of PyTorch's fused call where there is one.",
    hypothesis="The rival that every user has: generated Triton, level with both where a row fits on chip.",
    signal="One generated kernel; DRAM bytes near the least traffic, but for the widest rows.",
    implementations={
        "rmsnorm": lambda: compiled(rmsnorm_fused),
        "rope": lambda: compiled(rope_decomposed),
        "swiglu": lambda: compiled(swiglu_decomposed),
        "softmax": lambda: compiled(softmax_fused),
    },
    recompiles=True,
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique="One Triton kernel of the lab a call: every input read once, the result written once.",
    hypothesis="Bound by the memory, and so as fast as any kernel that moves the same bytes.",
    signal="The lab's own kernel; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": lambda: rmsnorm,
        "rope": lambda: rope,
        "swiglu": lambda: swiglu,
        "softmax": lambda: softmax,
    },
    kernels={
        "rmsnorm": "_rmsnorm_kernel or _rmsnorm_cluster_kernel or _rmsnorm_wide_kernel",
        "rope": "_rope_kernel",
        "swiglu": "_glu_kernel",
        "softmax": "_softmax_kernel or _softmax_cluster_kernel or _softmax_wide_kernel or _softmax_shifted_kernel",
    },
    devices=("cuda",),
)
CUDA_CPP = Profile(
    name="cuda-cpp",
    title="CUDA C++",
    technique=(
        "One CUDA C++ kernel of the lab a call, compiled by nvcc for the chip that is there: loads of 16 bytes, rows "
        "in registers, warp shuffles, and clusters of blocks where rows are wide."
    ),
    hypothesis="The same bytes and so the same time, but for wide rows, which Triton has no cluster for.",
    signal="The lab's own kernel; the same DRAM bytes as Triton's, and fewer L2 reads for the widest rows.",
    implementations={
        "rmsnorm": lambda: rmsnorm_cuda,
        "rope": lambda: rope_cuda,
        "swiglu": lambda: swiglu_cuda,
        "softmax": lambda: softmax_cuda,
    },
    kernels={"rmsnorm": "rmsnorm_cuda", "rope": "rope_cuda", "swiglu": "swiglu_cuda", "softmax": "softmax_cuda"},
    devices=("cuda",),
    needs_nvcc=True,
)

ALIKE = 0.97  # at most 3 % slower
KEEPS_UP = 0.98
WIDE = (WIDE_RMSNORM, WIDE_SOFTMAX)
# The smallest and the largest shape of each published table, and for RMSNorm the row with the largest factor.
ALWAYS = {("rmsnorm", 1536), ("rmsnorm", 4096), ("rope", 512), ("rope", 8192), ("swiglu", 4096), ("swiglu", 18_944)}


def _of_tables() -> Iterator[Case]:
    for case, axis in (
        *((case, 1) for case in RMSNORM_CASES),
        *((case, 2) for case in ROPE_CASES),
        *((case, 1) for case in SWIGLU_CASES),
    ):
        named = (case.operator.name, case.shape[axis])
        yield replace(case, only_with="" if named in ALWAYS else ALL_SHAPES)


TABLES = tuple(_of_tables())
CASES = (*TABLES, LARGE_RMSNORM, LARGE_SOFTMAX, *WIDE)
LARGE = tuple(case for case in CASES if _is_large(case) and case not in WIDE)
SMALL = tuple(case for case in CASES if not _is_large(case))

CUDA_KEEPS_UP = Claim(
    name="cuda-keeps-up-with-triton",
    text="CUDA C++ is at most 3 % slower than Triton on large shapes.",
    subject=CUDA_CPP, baseline=TRITON, cases=LARGE, threshold=ALIKE,
)  # fmt: skip
TRITON_KEEPS_UP = Claim(
    name="triton-keeps-up-with-cuda",
    text="Triton is at most 3 % slower than CUDA C++ on large shapes.",
    subject=TRITON, baseline=CUDA_CPP, cases=LARGE, threshold=ALIKE,
)  # fmt: skip


def _published(name: str, what: str, subject: Profile, case: Case, factor: float) -> tuple[Claim, Claim]:
    """The factor of a published row as two claims: in GPU time, and in the time that a caller waits."""
    text = f"{what} is at least {factor} times as fast as the formula written out"
    device = Claim(
        name=name, text=f"{text}, in GPU time.",
        subject=subject, baseline=FORMULA, cases=(case,), threshold=factor,
    )  # fmt: skip
    caller = Claim(
        name=f"{name}-for-callers", text=f"{text}, as a Python caller waits for it.",
        subject=subject, baseline=FORMULA, cases=(case,), scope="eager", threshold=factor,
    )  # fmt: skip
    return device, caller


def _case(operator: str, axis: int, size: int) -> Case:
    return next(case for case in TABLES if case.operator.name == operator and case.shape[axis] == size)


RMSNORM_1536, ROPE_512, SWIGLU_4096 = _case("rmsnorm", 1, 1536), _case("rope", 2, 512), _case("swiglu", 1, 4096)
PUBLISHED = (
    *_published("published-cuda-rmsnorm-factor", "CUDA C++ RMSNorm", CUDA_CPP, RMSNORM_1536, 9.64),
    *_published("published-triton-rmsnorm-factor", "Triton RMSNorm", TRITON, RMSNORM_1536, 8.59),
    *_published("published-cuda-rope-factor", "CUDA C++ RoPE", CUDA_CPP, ROPE_512, 9.55),
    *_published("published-triton-rope-factor", "Triton RoPE", TRITON, ROPE_512, 77.87),
    *_published("published-cuda-swiglu-factor", "CUDA C++ SwiGLU", CUDA_CPP, SWIGLU_4096, 4.90),
    *_published("published-triton-swiglu-factor", "Triton SwiGLU", TRITON, SWIGLU_4096, 11.55),
)
CLAIMS = (
    CUDA_KEEPS_UP,
    TRITON_KEEPS_UP,
    in_graph(CUDA_KEEPS_UP),
    in_graph(TRITON_KEEPS_UP),
    Claim(
        name="small-cuda-keeps-up-with-triton-in-graphs",
        text="CUDA C++ is at most 3 % slower than Triton on small shapes, in a CUDA graph.",
        subject=CUDA_CPP, baseline=TRITON, cases=SMALL, scope="graph", threshold=ALIKE,
    ),
    Claim(
        name="small-triton-keeps-up-with-cuda-in-graphs",
        text="Triton is at most 3 % slower than CUDA C++ on small shapes, in a CUDA graph.",
        subject=TRITON, baseline=CUDA_CPP, cases=SMALL, scope="graph", threshold=ALIKE,
    ),
    Claim(
        name="wide-cuda-beats-triton",
        text="CUDA C++, which spreads rows of 131,072 over clusters, is at least 2 % faster than Triton there.",
        subject=CUDA_CPP, baseline=TRITON, cases=WIDE,
    ),
    Claim(
        name="wide-triton-keeps-up-with-cuda",
        text="Triton is at most 3 % slower than CUDA C++ on rows of 131,072.",
        subject=TRITON, baseline=CUDA_CPP, cases=WIDE, threshold=ALIKE,
    ),
    Claim(
        name="cuda-keeps-up-with-compile",
        text="CUDA C++ is at most 2 % slower than torch.compile on large shapes.",
        subject=CUDA_CPP, baseline=COMPILED, cases=(*LARGE, *WIDE), threshold=KEEPS_UP,
    ),
    Claim(
        name="triton-keeps-up-with-compile",
        text="Triton is at most 2 % slower than torch.compile on large shapes.",
        subject=TRITON, baseline=COMPILED, cases=(*LARGE, *WIDE), threshold=KEEPS_UP,
    ),
    Claim(
        name="cuda-callers-wait-no-longer",
        text="A Python caller waits at most 3 % longer for CUDA C++ than for Triton, on the smallest shapes.",
        subject=CUDA_CPP, baseline=TRITON, cases=(RMSNORM_1536, ROPE_512, SWIGLU_4096), scope="eager",
        threshold=ALIKE,
    ),
    *PUBLISHED,
)  # fmt: skip

TRITON_VS_CUDA = Experiment(
    name="triton-vs-cuda",
    title="Triton Against CUDA C++",
    question="Is CUDA C++ worth it where a Triton kernel does the same work?",
    importance=(
        "Whoever writes a fused kernel has to choose a language first. A published head to head found factors of nine "
        "to seventy-eight over PyTorch and the two languages far apart at small sizes, each ahead in turn. Its times "
        "were taken by a clock on the host around a loop of calls. They cannot be those of kernels: "
        "the slowest formula takes one and the same time at sizes of which one has nearly twice the bytes of the "
        "other, several kernels of both languages share another such time, and the two tables of that publication "
        "disagree about the same call by a factor of sixty. Such plateaus are what a host that stalls leaves behind. "
        "Here both languages do the same cases under one protocol, in GPU time, in CUDA graphs and as a caller waits, "
        "with wide loads in both."
    ),
    focus="Choice of language",
    cases=CASES,
    profiles=(FORMULA, COMPILED, TRITON, CUDA_CPP),
    claims=CLAIMS,
    headlines=(CUDA_KEEPS_UP, TRITON_KEEPS_UP),
    does_not_show=(
        "What either language costs its authors: how long a kernel takes to write, and who can maintain it.",
        "Matrix products and attention, where the two languages reach the hardware by different ways.",
        "The published kernels themselves, whose CUDA C++ loads one or two elements a thread: these are the lab's own.",
        "The published times on their own GPU and host, of which nothing was measured again.",
    ),
    metrics={
        "Latency": ("p50 in each scope", "speed-up of either language over the other, with interval"),
        "Causes": ("registers a thread", "DRAM and L2 bytes (profiler)", "host time to enqueue a call"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph", "eager"),
)
