"""How near to the time of reading the cache once is attention of one new token for each sequence?"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lab import Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.decode_attention import (
    decode_attention,
    decode_attention_inputs,
    decode_attention_paged,
    decode_attention_paged_inputs,
    decode_attention_paged_reference,
    decode_attention_reference,
    decode_attention_traffic,
)


def sdpa(q: Tensor, k: Tensor, v: Tensor, backend: SDPBackend) -> Tensor:
    """PyTorch's attention with one backend only; on a CPU, which has none of these, with the CPU's own."""
    backends = [backend] if q.is_cuda else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(backends):
        o = F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=q.shape[1] != k.shape[1])
    return o[:, :, 0]


def standard(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, SDPBackend.FLASH_ATTENTION)


def standard_paged(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """Copies the pages into one cache first; all sequences have the same length here."""
    longest = int(lengths.max())
    rows = (x[table.long()].flatten(1, 2).transpose(1, 2)[:, :, :longest] for x in (k, v))
    return standard(q, *rows)


def load_sdpa(backend: SDPBackend) -> Callable[..., Any]:
    return lambda q, k, v: sdpa(q, k, v, backend)


# As in flash_attention.py: a result is a mean of thousands of values, and the tolerance is relative to its size.
DECODE = Operator(
    name="decode-attention",
    inputs=decode_attention_inputs,
    reference=decode_attention_reference,
    traffic=decode_attention_traffic,
    tolerance=2,
    scale=0.02,
    outlier_scale=1.0,
    standard=standard,
    edges=("zeros", "tiny-scale"),
)
PAGED = replace(
    DECODE,
    name="decode-attention-paged",
    inputs=partial(decode_attention_paged_inputs, page=16),
    reference=decode_attention_paged_reference,
    standard=standard_paged,
)

MANY_HEADS = Case(
    operator=DECODE, shape=(16, 32, 8, 8192, 128), dtype="bfloat16",
    description="16 sequences of 8192 tokens, 32 query heads over 8 of keys, as in Llama 3 8B",
)  # fmt: skip
LONG = Case(
    operator=DECODE, shape=(1, 28, 4, 131_072, 128), dtype="bfloat16",
    description="one sequence of 131,072 tokens, seven query heads to each of keys, as in Qwen2.5-7B",
)  # fmt: skip
BATCH = Case(
    operator=DECODE, shape=(64, 28, 4, 4096, 128), dtype="bfloat16",
    description="64 sequences of 4096 tokens in Qwen2.5-7B",
)  # fmt: skip
PAGES = Case(
    operator=PAGED, shape=(16, 32, 8, 8192, 128), dtype="bfloat16",
    description="16 sequences of 8192 tokens, their cache in pages of 16 tokens anywhere in memory",
)  # fmt: skip
CASES = (MANY_HEADS, LONG, BATCH)

FLASH = Profile(
    name="sdpa-flash",
    title="SDPA flash",
    technique="scaled_dot_product_attention pinned to the flash backend, which splits the keys for a single query.",
    hypothesis="Near DRAM bandwidth at many heads; behind in GQA, where seven query heads share a key-value head.",
    signal="One or two kernels; DRAM bytes at one read of the cache, or above it.",
    implementations={"decode-attention": lambda: load_sdpa(SDPBackend.FLASH_ATTENTION)},
    devices=("cuda",),
)
CUDNN = Profile(
    name="sdpa-cudnn",
    title="SDPA cuDNN",
    technique="scaled_dot_product_attention pinned to the cuDNN backend.",
    hypothesis="The strongest rival in PyTorch: near one read of the cache at full bandwidth.",
    signal="DRAM bytes at one read of the cache.",
    implementations={"decode-attention": lambda: load_sdpa(SDPBackend.CUDNN_ATTENTION)},
    devices=("cuda",),
)
TRITON = Profile(
    name="triton-decode-attention",
    title="Triton decode attention",
    technique=(
        "The query heads that share a key-value head (GQA) are the rows of one tile; the keys of a sequence are split "
        "over as many programs as fill the GPU once, and a second kernel adds the parts in order."
    ),
    hypothesis="Bound by one read of the cache: level with the best rival or ahead.",
    signal="The lab's own kernels; DRAM throughput near peak, DRAM bytes at one read of the cache.",
    implementations={
        "decode-attention": lambda: decode_attention,
        "decode-attention-paged": lambda: decode_attention_paged,
    },
    kernels=dict.fromkeys(("decode-attention", "decode-attention-paged"), "_decode_attention_kernel"),
    devices=("cuda",),
)

MATCHES_CUDNN = Claim(
    name="triton-decode-attention-matches-cudnn",
    text="The Triton decode attention is at least as fast as PyTorch's cuDNN backend.",
    subject=TRITON, baseline=CUDNN, cases=CASES, threshold=1.0,
)  # fmt: skip
MATCHES_FLASH = Claim(
    name="triton-decode-attention-matches-sdpa-flash",
    text="The Triton decode attention is at least as fast as PyTorch's flash backend.",
    subject=TRITON, baseline=FLASH, cases=CASES, threshold=1.0,
)  # fmt: skip
CLAIMS = (
    MATCHES_CUDNN,
    MATCHES_FLASH,
    in_graph(MATCHES_CUDNN),
    in_graph(MATCHES_FLASH),
    Claim(
        name="grouped-triton-decode-attention-beats-sdpa-flash",
        text=(
            "In GQA of seven query heads for each key-value head, the Triton decode attention is at least 1.2 times "
            "as fast as PyTorch's flash backend."
        ),
        subject=TRITON, baseline=FLASH, cases=(LONG, BATCH), threshold=1.2,
    ),
    Claim(
        name="triton-decode-attention-reads-the-cache-once",
        text="The Triton decode attention moves at most 1.05 times the bytes that any implementation must.",
        subject=TRITON, baseline=None, cases=CASES, measure="traffic", threshold=1 / 1.05,
    ),
)  # fmt: skip

DECODE_ATTENTION = Experiment(
    name="decode-attention",
    title="Decode Attention",
    question="How fast is attention for one new token beside cuDNN and FlashAttention-2, at any batch size?",
    importance=(
        "For each new token a language model reads the keys and values of all tokens before it, once, and does "
        "hardly any arithmetic with them. One sequence has too few heads to occupy a GPU, so its keys have to be "
        "split; many sequences have enough, and a split only costs. The experiment takes both ends and the grouped "
        "heads of current models, whose number, seven to one, fits no tile."
    ),
    focus="Splitting a reduction",
    cases=(*CASES, PAGES),
    profiles=(FLASH, CUDNN, TRITON),
    claims=CLAIMS,
    headlines=(MATCHES_CUDNN, MATCHES_FLASH),
    does_not_show=(
        "Several new tokens at once, as speculative decoding has them.",
        "Writing the new token's key and value into the cache.",
        "A rival for paged caches: PyTorch has none, so the paged case is held against the memory's limit alone.",
        "A cache in fewer bits than the queries have.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
)
