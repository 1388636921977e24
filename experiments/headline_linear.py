"""Published headlines for RMSNorm fused with a projection: how much of them remains against the library's own calls?

The cases and the baseline are those of cuda-kernels, whose figures are in experiments/audits/cuda_kernels.py.
"""

import torch.nn.functional as F
from torch import Tensor

from experiments.headline_tables import rmsnorm_decomposed
from experiments.rmsnorm_linear import EAGER, KERNEL, RMSNORM_LINEAR, folded_rows
from lab import Case, Claim, Experiment, Profile, in_graph
from lab.kernels.rmsnorm_linear import rmsnorm_linear

K = 3584
QUERY, FFN = 3584, 18_944
TOKENS = {QUERY: (1, 4, 16, 64, 256, 512, 1024, 2048), FFN: (1, 4, 16, 64, 256, 512)}
DECODING = 64  # tokens: up to here the publication says that fusion wins


def formula(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return F.linear(rmsnorm_decomposed(x, norm_weight), weight)


def norm_and_linear(x: Tensor, norm_weight: Tensor, weight: Tensor, folded: Tensor) -> Tensor:
    return rmsnorm_linear(x, norm_weight, weight, constant_weight=True)


def cases(columns: int) -> tuple[Case, ...]:
    layer = "query projection" if columns == QUERY else "gate projection"
    return tuple(
        Case(
            operator=RMSNORM_LINEAR, shape=(tokens, columns, K), dtype="float16",
            description=f"norm and {layer} of Qwen2.5-7B, {tokens} tokens",
        )
        for tokens in TOKENS[columns]
    )  # fmt: skip


def up_to(tokens: int, *of: Case) -> tuple[Case, ...]:
    return tuple(case for case in of if case.shape[0] <= tokens)


QUERIES, GATES = cases(QUERY), cases(FFN)
FORMULA = Profile(
    name="torch-baseline",
    title="PyTorch, written out",
    technique="The baseline of the publication: RMSNorm as operators in float32 with casts before and after, F.linear.",
    hypothesis="For few tokens a row of small launches before one product; for many the norm's extra traffic.",
    signal="Seven kernels and a product.",
    implementations={RMSNORM_LINEAR.name: lambda: formula},
)
TRITON = Profile(
    name="triton",
    title="Triton RMSNorm + Linear",
    technique="For few rows the product's kernel also sums the squares of x; for more the norm's kernel comes first.",
    hypothesis="Few rows: at the rate of a copy. Many: level with the two calls, for it is two calls too.",
    signal="Few rows: DRAM throughput near that of a copy.",
    implementations={RMSNORM_LINEAR.name: lambda: norm_and_linear},
    kernels={RMSNORM_LINEAR.name: KERNEL},
    devices=("cuda",),
)
FOLDED = Profile(
    name="triton-folded",
    title="Triton, norm weight folded",
    technique="The same with the norm's weight multiplied into the layer's beforehand.",
    hypothesis="Ahead of the two calls at any count of rows, by the norm's traffic.",
    signal="Many rows: two kernels, the first of which writes next to nothing.",
    implementations={RMSNORM_LINEAR.name: lambda: folded_rows},
    kernels={RMSNORM_LINEAR.name: KERNEL},
    devices=("cuda",),
)


def published(name: str, what: str, of: tuple[Case, ...], factor: float, scope: str) -> Claim:
    """The smallest factor of a table's decoding rows as a claim at all of them."""
    clock = ", as an eager caller waits" if scope == "eager" else ""
    return Claim(
        name=f"published-{name}-factor{'-for-callers' if clock else ''}",
        text=f"{what}, norm and layer are at least {factor} times as fast as the formula written out{clock}.",
        subject=TRITON, baseline=FORMULA, cases=of, scope=scope, threshold=factor,
    )  # fmt: skip


FEW_BEAT_CALLS = Claim(
    name="triton-beats-two-calls",
    text="For up to 16 tokens norm and layer in one kernel are at least 2 % faster than F.rms_norm and F.linear.",
    subject=TRITON, baseline=EAGER, cases=up_to(16, *QUERIES, *GATES),
)  # fmt: skip
FOLDED_KEEPS_UP = Claim(
    name="folded-keeps-up-with-two-calls",
    text="With a folded weight norm and layer are at most 2 % slower than F.rms_norm and F.linear, at every case.",
    subject=FOLDED, baseline=EAGER, cases=(*QUERIES, *GATES), threshold=0.98,
)  # fmt: skip
HEADLINES = (FEW_BEAT_CALLS, FOLDED_KEEPS_UP)

HEADLINE_LINEAR = Experiment(
    name="headline-linear",
    title="Published Headlines of a Fused Projection, Measured Again",
    question="Do published speed-ups of RMSNorm fused with a projection survive a fair baseline?",
    importance=(
        "One public kernel was announced as dozens of times as fast as PyTorch for a few tokens, and half as fast for "
        "many. The weight alone takes nearly all of the time of a few tokens, so that no kernel can win much against a "
        "call that reads it once. Here the very cases are measured again, beside the two calls that a user has anyway."
    ),
    focus="Reproducing published results",
    cases=(*QUERIES, *GATES),
    profiles=(FORMULA, EAGER, TRITON, FOLDED),
    claims=(
        *HEADLINES,
        *map(in_graph, HEADLINES),
        *(
            published(name, what, of, factor, scope)
            for name, what, of, factor in (
                ("query", "For 1 to 64 tokens and the query projection", up_to(DECODING, *QUERIES), 12.2),
                ("gate", "For 4 to 64 tokens and the gate projection", up_to(DECODING, *GATES)[1:], 1.38),
            )
            for scope in ("device_cold", "eager")
        ),
    ),
    headlines=HEADLINES,
    does_not_show=(
        "That a published time was misread: other GPUs, hosts and versions give other times, and only ratios are "
        "compared.",
        "The published kernel itself, which normalises in the main loop of its product: the Triton kernels here are "
        "the lab's own.",
        "The gain in a whole model.",
    ),
    metrics={
        "Latency": ("p50 in each scope", "speed-up over the formula and over two calls, with interval"),
        "Causes": ("host time to enqueue a call", "kernels a call", "DRAM bytes over the least traffic (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph", "eager", "device_dirty"),
)
