"""Published headlines for RMSNorm, RoPE and SwiGLU: how much of them remains if the cases are measured in every scope?

The cases and the baseline formulas are those of cuda-kernels. Its figures are in experiments/audits/cuda_kernels.py,
which also says which case here corresponds to which case there.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.normalization_fusion import RMSNORM, rmsnorm_fused
from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.glu import glu_inputs, glu_traffic, swiglu, swiglu_reference
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rope import angle_tables, rope, rope_inputs, rope_reference, rope_traffic
from lab.kernels.traffic import Traffic


def rmsnorm_decomposed(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def rope_decomposed(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = (half.float() for half in x.chunk(2, dim=-1))
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)


def swiglu_decomposed(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def wide_angle_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, cos, sin) for shape (B, H, S, D), with float32 tables whatever the dtype of x, as published."""
    S, D = shape[2:]
    x, *_ = rope_inputs(shape, dtype, device, seed)
    return x, *angle_tables(S, D, dtype=torch.float32, device=device)


def wide_angle_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """As `rope_traffic`, with tables of four bytes an element."""
    S, D = shape[2:]
    least = rope_traffic(shape, itemsize)
    return Traffic(
        read_bytes=least.read_bytes + S * D * (4 - itemsize), written_bytes=least.written_bytes, flops=least.flops
    )


ROPE = Operator(
    name="rope",
    inputs=wide_angle_inputs,
    reference=rope_reference,
    traffic=wide_angle_traffic,
    tolerance=2,
    standard=rope_decomposed,
    # No odd sizes: heads of an odd size cannot be turned.
    edges=tuple(edge for edge in EDGES if edge != "odd-sizes"),
)
SWIGLU = Operator(
    name="swiglu",
    inputs=glu_inputs,
    reference=swiglu_reference,
    traffic=glu_traffic,
    # The written-out form rounds silu(gate) before the product.
    tolerance=3,
    standard=swiglu_decomposed,
    edges=EDGES,
)

ROWS = 2048  # batch 4, sequence 512
HIDDEN = (896, 1536, 2048, 3072, 3584, 4096)
SEQUENCES = (512, 1024, 2048, 4096, 8192)
WIDTHS = (4096, 8192, 11008, 14336, 18944)

RMSNORM_CASES = tuple(
    Case(
        operator=RMSNORM, shape=(ROWS, hidden), dtype="float16",
        description=f"RMSNorm of a batch of 4 at sequence 512, hidden size {hidden}",
    )
    for hidden in HIDDEN
)  # fmt: skip
ROPE_CASES = tuple(
    Case(
        operator=ROPE, shape=(1, 32, sequence, 128), dtype="float16",
        description=f"RoPE of 32 heads of 128 features at sequence {sequence}, angles from a float32 table",
    )
    for sequence in SEQUENCES
)  # fmt: skip
SWIGLU_CASES = tuple(
    Case(
        operator=SWIGLU, shape=(ROWS, width), dtype="float16",
        description=f"SwiGLU of a batch of 4 at sequence 512, width {width}",
    )
    for width in WIDTHS
)  # fmt: skip

FORMULA = Profile(
    name="torch-baseline",
    title="PyTorch, written out",
    technique=(
        "The formula that the publication compared with, one kernel an operator: RMSNorm and RoPE in float32 with "
        "casts before and after, SwiGLU as F.silu(gate) * up."
    ),
    hypothesis="Moves several times the bytes that it must, and launches up to ten kernels.",
    signal="Several kernels, whose DRAM bytes add up to a multiple of the least traffic.",
    implementations={
        "rmsnorm": lambda: rmsnorm_decomposed,
        "rope": lambda: rope_decomposed,
        "swiglu": lambda: swiglu_decomposed,
    },
)
COMPILED = Profile(
    name="torch-compile",
    title="torch.compile",
    technique=(
        "torch.compile(dynamic=False, mode='max-autotune-no-cudagraphs') of F.rms_norm and of the other two formulas."
    ),
    hypothesis="The rival that every user has: fused as well, so that little of a headline is left.",
    signal="One generated kernel; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm": lambda: torch.compile(rmsnorm_fused, dynamic=False, mode="max-autotune-no-cudagraphs"),
        "rope": lambda: torch.compile(rope_decomposed, dynamic=False, mode="max-autotune-no-cudagraphs"),
        "swiglu": lambda: torch.compile(swiglu_decomposed, dynamic=False, mode="max-autotune-no-cudagraphs"),
    },
    recompiles=True,
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique="One Triton kernel of the lab a call: every input read once, the result written once.",
    hypothesis="Bound by the least traffic: far ahead of the formula written out, about level with torch.compile.",
    signal="The lab's own kernel; DRAM bytes near the least traffic.",
    implementations={"rmsnorm": lambda: rmsnorm, "rope": lambda: rope, "swiglu": lambda: swiglu},
    kernels={"rmsnorm": "_rmsnorm_kernel", "rope": "_rope_kernel", "swiglu": "_glu_kernel"},
    devices=("cuda",),
)


def _published(name: str, operator: str, cases: tuple[Case, ...], factor: float, scope: str = "device_cold") -> Claim:
    """A published headline as a claim: every case of its table reaches the smallest factor in the table."""
    clock = "" if scope == "device_cold" else ", as an eager caller waits"
    return Claim(
        name=name,
        text=f"Triton {operator} is at least {factor} times as fast as the formula written out{clock}.",
        subject=TRITON, baseline=FORMULA, cases=cases, scope=scope, threshold=factor,
    )  # fmt: skip


SWEPT_RMSNORM = tuple(case for case in RMSNORM_CASES if case.shape[1] != 3584)  # 3584 is in another table
TABLES = (
    ("rmsnorm", "RMSNorm", RMSNORM_CASES, SWEPT_RMSNORM, 5.3),
    ("rope", "RoPE", ROPE_CASES, ROPE_CASES, 3.8),
    ("swiglu", "SwiGLU", SWIGLU_CASES, SWIGLU_CASES, 1.5),
)
# The same headlines against code that a user gets without writing a kernel.
HEADLINES = tuple(
    Claim(
        name=f"triton-{slug}-beats-compile",
        text=f"Triton {operator} is at least 2 % faster than torch.compile.",
        subject=TRITON, baseline=COMPILED, cases=cases,
    )
    for slug, operator, cases, _, _ in TABLES
)  # fmt: skip
PUBLISHED = tuple(
    _published(f"published-{slug}-factor", operator, swept, factor) for slug, operator, _, swept, factor in TABLES
)
CLAIMS = (
    *HEADLINES,
    *map(in_graph, HEADLINES),
    *PUBLISHED,
    *(
        _published(f"published-{slug}-factor-for-callers", operator, swept, factor, "eager")
        for slug, operator, _, swept, factor in TABLES
    ),
    *(
        Claim(
            name=f"triton-{slug}-beats-formula",
            text=f"Triton {operator} is at least 2 % faster than the formula written out.",
            subject=TRITON, baseline=FORMULA, cases=cases,
        )
        for slug, operator, cases, _, _ in TABLES
    ),
)  # fmt: skip

HEADLINE_TABLES = Experiment(
    name="headline-tables",
    title="Published Headlines, Measured Again",
    question="Do published speed-ups of RMSNorm, RoPE and SwiGLU survive fair baselines?",
    importance=(
        "Fused kernels are announced with factors of five to nine over PyTorch, and one of seventy-eight. Such a "
        "factor is a product: of what the kernel gains over the best that a user has already, of how badly the formula "
        "that it is compared with uses the memory, of what the cache still held, and of the launches that a clock on "
        "the host counts as kernels. Here the very cases are measured again, with the same formula as the "
        "baseline, in scopes that take the product apart."
    ),
    focus="Reproducing published results",
    cases=RMSNORM_CASES + ROPE_CASES + SWIGLU_CASES,
    profiles=(FORMULA, COMPILED, TRITON),
    claims=CLAIMS,
    headlines=HEADLINES,
    does_not_show=(
        "That a published time was misread: other GPUs, hosts and versions give other times, and only ratios are "
        "compared.",
        "The published kernels themselves: the Triton kernels here are the lab's own, and its CUDA C++ kernels are not "
        "measured.",
        "The published SwiGLU baseline of the second table, which converts to float32 and back: here it is that of the "
        "first, F.silu(gate) * up.",
        "The gain in a whole model, of which these operators are a small part.",
    ),
    metrics={
        "Latency": ("p50 in each scope", "speed-up over the formula and over torch.compile, with interval"),
        "Causes": ("host time to enqueue a call", "kernels a call", "DRAM bytes over the least traffic (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph", "eager", "device_dirty"),
)
