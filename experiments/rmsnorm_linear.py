"""How much faster is a linear layer whose kernel includes the norm before it, and up to how many rows?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.rmsnorm_linear import (
    fold_norm_weight,
    rmsnorm_linear,
    rmsnorm_linear_inputs,
    rmsnorm_linear_reference,
    rmsnorm_linear_traffic,
)

K = 3584  # the width of Qwen2.5-7B


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, norm_weight, weight, folded weight): the last is prepared once for a model, not at each call."""
    x, norm_weight, weight = rmsnorm_linear_inputs(shape, dtype, device, seed)
    return x, norm_weight, weight, fold_norm_weight(norm_weight, weight)


def reference(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return rmsnorm_linear_reference(x, norm_weight, weight)


def norm_then_linear(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return F.linear(F.rms_norm(x, (x.shape[-1],), norm_weight, 1e-6), weight)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def few_rows(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return rmsnorm_linear(x, norm_weight, weight, constant_weight=True)


def folded_rows(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return rmsnorm_linear(x, None, folded, constant_weight=True)


# Half an epsilon for rounding the result. K roundings of x · w, or of the folded weight, of half an epsilon each add up
# like a random walk: for a result of size 1 a standard deviation of a third of an epsilon, and at most five of them.
RMSNORM_LINEAR = Operator(
    name="rmsnorm-linear", inputs=inputs, reference=reference, traffic=rmsnorm_linear_traffic,
    tolerance=2.5, standard=norm_then_linear, edges=EDGES,
)  # fmt: skip

# The same for decoding, where a folded weight uses the same kernel.
DECODE_LINEAR = replace(RMSNORM_LINEAR, name="rmsnorm-linear-decode")

# The same between decoding and a prompt. Two calls are the only rival here: a compiler would tune for every row count.
BETWEEN_LINEAR = replace(RMSNORM_LINEAR, name="rmsnorm-linear-between")

ALL_SHAPES = "all-shapes"


def case(rows: int, columns: int, only_with: str = "") -> Case:
    layer = "query projection" if columns == K else "gate projection"
    what = f"{rows} sequences that are decoded together" if rows <= 64 else f"a prompt of {rows} tokens"
    operator = BETWEEN_LINEAR if only_with else DECODE_LINEAR if rows <= 16 else RMSNORM_LINEAR
    return Case(
        operator=operator, shape=(rows, columns, K), dtype="bfloat16",
        only_with=only_with,
        description=f"norm and {layer} of Qwen2.5-7B, {what if rows > 1 else 'one sequence that is decoded'}",
    )  # fmt: skip


ONE_QUERY, ONE_GATE = case(1, K), case(1, 18_944)
SIXTEEN_QUERY, SIXTEEN_GATE = case(16, K), case(16, 18_944)
SIXTY_FOUR = case(64, 18_944)
PROMPT = case(2048, 18_944)
BETWEEN = tuple(case(rows, 18_944, ALL_SHAPES) for rows in (4, 32, 128, 256, 512))
DECODING = (ONE_QUERY, ONE_GATE, SIXTEEN_QUERY, SIXTEEN_GATE)

KERNEL = "_gemv_kernel or _skinny_kernel or _gemm_kernel or _hopper_gemm_kernel"
EAGER = Profile(
    name="torch-eager",
    title="F.rms_norm and F.linear",
    technique="Two calls: a fused norm and a product of cuBLAS.",
    hypothesis="The norm costs a launch and its traffic; cuBLAS reads a weight for few rows below the memory's rate.",
    signal="Two kernels.",
    implementations={
        "rmsnorm-linear": lambda: norm_then_linear,
        "rmsnorm-linear-decode": lambda: norm_then_linear,
        "rmsnorm-linear-between": lambda: norm_then_linear,
    },
)
COMPILED = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the two calls, dynamic=False, max-autotune without CUDA graphs.",
    hypothesis="The rival: for few rows a generated product that takes the norm's last step on its way.",
    signal="Two kernels, one or both generated.",
    implementations={
        "rmsnorm-linear": lambda: compiled(norm_then_linear),
        "rmsnorm-linear-decode": lambda: compiled(norm_then_linear),
    },
    recompiles=True,
)
TRITON = Profile(
    name="triton-rmsnorm-linear",
    title="Triton RMSNorm + Linear",
    technique=(
        "Up to 4 rows, and up to 32 with few outputs, the product's kernel also sums the squares of x; for more rows "
        "the norm's kernel comes first. The product begins to read the weight before the kernel before it has ended."
    ),
    hypothesis="Few rows: at the rate of a copy. Many: level with the two calls.",
    signal="Few rows: one kernel, DRAM throughput near that of a copy.",
    implementations={"rmsnorm-linear": lambda: few_rows, "rmsnorm-linear-decode": lambda: few_rows},
    kernels={"rmsnorm-linear": KERNEL, "rmsnorm-linear-decode": KERNEL},
    devices=("cuda",),
)
FOLDED = Profile(
    name="triton-folded",
    title="Triton, weight folded",
    technique=(
        "The same with the norm's weight multiplied into the layer's beforehand: for many rows a small kernel reads x "
        "for the rows' factors, and the product's epilogue multiplies with them."
    ),
    hypothesis="Many rows: ahead of the two calls by half of the norm's traffic and all of its writing.",
    signal="Two kernels, the first of which writes next to nothing.",
    implementations={"rmsnorm-linear": lambda: folded_rows, "rmsnorm-linear-between": lambda: folded_rows},
    kernels={"rmsnorm-linear": KERNEL, "rmsnorm-linear-between": KERNEL},
    devices=("cuda",),
)

DECODE_BEATS_COMPILE = Claim(
    name="triton-decode-rmsnorm-linear-beats-compile",
    text="In a CUDA graph norm and layer are at least 2 % faster than torch.compile, for 1 and 16 rows.",
    subject=TRITON, baseline=COMPILED, cases=DECODING, scope="graph",
)  # fmt: skip
PROMPT_BEATS_COMPILE = Claim(
    name="triton-prompt-rmsnorm-linear-reaches-compile",
    text="On a prompt, with the norm's weight folded in, norm and layer are at least as fast as torch.compile.",
    subject=FOLDED, baseline=COMPILED, cases=(PROMPT,), threshold=1.0,
)  # fmt: skip
CLAIMS = (
    DECODE_BEATS_COMPILE,
    PROMPT_BEATS_COMPILE,
    in_graph(PROMPT_BEATS_COMPILE),
    Claim(
        name="triton-decode-rmsnorm-linear-beats-eager",
        text="In a CUDA graph norm and layer are at least 1.1 times as fast as two calls, up to 16 rows.",
        subject=TRITON, baseline=EAGER, cases=DECODING, scope="graph", threshold=1.1,
    ),
    *(
        Claim(
            name=f"triton-rmsnorm-linear-{each.shape[0]}x{each.shape[1]}-beats-{rival.name}",
            text=(
                f"In a CUDA graph, of {rows} and {each.shape[1]} columns, norm and layer are at least {threshold} "
                f"times as fast as {rival.title}."
            ),
            subject=TRITON, baseline=rival, cases=(each,), scope="graph", threshold=threshold,
        )
        for each, rows, rival, threshold in (
            (ONE_QUERY, "one row", COMPILED, 1.12),
            (ONE_GATE, "one row", COMPILED, 1.03),
            (SIXTEEN_QUERY, "16 rows", COMPILED, 1.14),
            (SIXTEEN_GATE, "16 rows", COMPILED, 1.07),
            (SIXTY_FOUR, "64 rows", EAGER, 1.14),
        )
    ),
    Claim(
        name="triton-prompt-rmsnorm-linear-beats-eager",
        text="On a prompt, with the norm's weight folded in, norm and layer are at least 2 % faster than two calls.",
        subject=FOLDED, baseline=EAGER, cases=(PROMPT,),
    ),
    Claim(
        name="folding-beats-normalising-on-a-prompt",
        text="On a prompt a folded weight is at least as fast as normalising x before the product.",
        subject=FOLDED, baseline=TRITON, cases=(PROMPT,), threshold=1.0,
    ),
    *(
        Claim(
            name=f"triton-rmsnorm-linear-beats-eager-at-{each.shape[0]}-rows",
            text=f"In a CUDA graph, of {each.shape[0]} rows, norm and layer are at least 2 % faster than two calls.",
            subject=FOLDED, baseline=EAGER, cases=(each,), scope="graph",
        )
        for each in BETWEEN
    ),
)  # fmt: skip

RMSNORM_LINEAR_FUSION = Experiment(
    name="rmsnorm-linear",
    title="RMSNorm and Linear",
    question="Does it pay to fuse RMSNorm into the linear layer after it, for a token and for a prompt?",
    importance=(
        "Every projection of a decoder follows a norm. The norm's factor of a row commutes with the product, so the "
        "layer can start on numbers that are not normalised and be put right at its end. While decoding, the layer's "
        "time is that of reading its weight, and a norm of its own adds a launch. On a prompt it adds traffic of a few "
        "per cent, and a fused kernel gains only if its product is as fast as the library's: a public one that "
        "normalised inside the product's loop took more than twice the library's time. The cases between show where "
        "the gain ends."
    ),
    focus="Kernel fusion",
    cases=(*DECODING, SIXTY_FOUR, PROMPT, *BETWEEN),
    profiles=(EAGER, COMPILED, TRITON, FOLDED),
    claims=CLAIMS,
    headlines=(DECODE_BEATS_COMPILE, PROMPT_BEATS_COMPILE),
    does_not_show=(
        "The backward pass, or any gradient.",
        "A residual that is added before the norm.",
        "The time of folding a weight, which is done once a model.",
        "A gain for eager Python callers at the size of a decoding step, who wait for the host.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "TFLOP/s", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
)
