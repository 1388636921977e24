"""Published headlines for attention and matrix products: what remains of them, in what cache, against which backend?

The cases are those of diy-flash-attention, whose figures are in experiments/audits/diy_flash_attention.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.flash_attention import FULL, KERNELS, sdpa
from experiments.matmul_tiling import GEMM
from experiments.matmul_tiling import KERNEL as GEMM_KERNEL
from lab import Case, Claim, Experiment, Profile, in_graph
from lab.kernels.flash_attention import flash_attention
from lab.kernels.matmul import matmul

BATCH, HEADS, HEAD = 4, 8, 64
SIZES = (512, 1024, 2048, 4096, 8192)
SEQUENCES = (512, 1024, 2048, 4096)


def default_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def cudnn_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, False, torch.nn.attention.SDPBackend.CUDNN_ATTENTION)


PRODUCTS = tuple(
    Case(operator=GEMM, shape=(size, size, size), dtype="float16", description=f"a square product of {size}")
    for size in SIZES
)
ATTENTION = tuple(
    Case(
        operator=FULL, shape=(BATCH, HEADS, HEADS, sequence, HEAD), dtype="float16",
        description=f"attention over {sequence} tokens, {BATCH} sequences of {HEADS} heads of {HEAD} features",
    )
    for sequence in SEQUENCES
)  # fmt: skip
DEFAULT = Profile(
    name="torch-baseline",
    title="PyTorch's default",
    technique="The baseline of the publication: torch.matmul, and scaled_dot_product_attention with no backend named.",
    hypothesis="Products: cuBLAS, which is hard to beat. Attention: the backend that this version puts first.",
    signal="One kernel of a library.",
    implementations={GEMM.name: lambda: torch.matmul, FULL.name: lambda: default_attention},
)
CUDNN = Profile(
    name="sdpa-cudnn",
    title="SDPA cuDNN",
    technique="scaled_dot_product_attention pinned to the cuDNN backend, which is written for Hopper.",
    hypothesis="What a user has with one more line: level with the default, or ahead of it.",
    signal="One kernel of cuDNN's.",
    implementations={FULL.name: lambda: cudnn_attention},
    devices=("cuda",),
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique="The lab's matmul and flash_attention, launched by their rules.",
    hypothesis="Products: level with cuBLAS. Attention: level with cuDNN.",
    signal="One kernel of the lab's own a call.",
    implementations={GEMM.name: lambda: matmul, FULL.name: lambda: flash_attention},
    kernels={GEMM.name: GEMM_KERNEL, FULL.name: KERNELS},
    devices=("cuda",),
)


def published(name: str, operator: str, of: tuple[Case, ...], factor: float) -> Claim:
    """The smallest factor of a table as a claim at all of its cases."""
    return Claim(
        name=f"published-{name}-factor",
        text=f"{operator} in Triton is at least {factor} times as fast as PyTorch's default.",
        subject=TRITON, baseline=DEFAULT, cases=of, threshold=factor,
    )  # fmt: skip


ATTENTION_KEEPS_UP = Claim(
    name="triton-attention-keeps-up-with-cudnn",
    text="The Triton flash attention is at most 2 % slower than PyTorch's cuDNN backend.",
    subject=TRITON, baseline=CUDNN, cases=ATTENTION, threshold=0.98,
)  # fmt: skip
PRODUCT_KEEPS_UP = Claim(
    name="triton-matmul-keeps-up-with-cublas",
    text="The Triton product is at most 5 % slower than cuBLAS, from a size of 2048 on.",
    subject=TRITON, baseline=DEFAULT, cases=PRODUCTS[2:], threshold=0.95,
)  # fmt: skip
HEADLINES = (ATTENTION_KEEPS_UP, PRODUCT_KEEPS_UP)

HEADLINE_ATTENTION = Experiment(
    name="headline-attention",
    title="Published Headlines of Attention and Products, Measured Again",
    question="Do published speed-ups of attention and matrix products in Triton survive a fair baseline?",
    importance=(
        "Public Triton kernels were announced ahead of cuBLAS at every size, and further ahead of PyTorch's attention "
        "the longer the sequence. PyTorch has several attention kernels, one of them written for Hopper, another for "
        "the generation before, and small cases are mostly launch. Here the very cases are measured again, in scopes "
        "that tell these apart."
    ),
    focus="Reproducing published results",
    cases=(*PRODUCTS, *ATTENTION),
    profiles=(DEFAULT, CUDNN, TRITON),
    claims=(
        *HEADLINES,
        *map(in_graph, HEADLINES),
        published("matmul", "A product", PRODUCTS, 1.07),
        published("attention", "Attention", ATTENTION, 1.14),
    ),
    headlines=HEADLINES,
    does_not_show=(
        "That a published time was misread: other GPUs, hosts and versions give other times, and only ratios are "
        "compared.",
        "The published kernels themselves: the Triton kernels here are the lab's own, one of them in Gluon for Hopper.",
        "Masks, grouped queries, or heads of other sizes.",
    ),
    metrics={
        "Latency": ("p50 in each scope", "speed-up over PyTorch's default and over cuDNN, with interval"),
        "Causes": ("host time to enqueue a call", "kernels a call", "DRAM bytes over the least traffic (profiler)"),
        "Memory": ("peak memory of one call beyond its inputs",),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph", "eager", "device_dirty"),
)
