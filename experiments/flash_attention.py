"""How fast is attention in Triton that never stores its scores, compared with that of libraries?"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lab import Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.flash_attention import (
    flash_attention,
    flash_attention_inputs,
    flash_attention_reference,
    flash_attention_traffic,
)


def sdpa(q: Tensor, k: Tensor, v: Tensor, causal: bool, backend: SDPBackend) -> Tensor:
    """PyTorch's attention with one backend only; on a CPU, which has none of these, with the CPU's own."""
    backends = [backend] if q.is_cuda else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    if backend == SDPBackend.EFFICIENT_ATTENTION:  # does not support several query heads a key head
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) if len(x[0]) < len(q[0]) else x for x in (k, v))
    with sdpa_kernel(backends):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def full_standard(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, False, SDPBackend.FLASH_ATTENTION)


def causal_standard(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, True, SDPBackend.FLASH_ATTENTION)


# A result is a mean of thousands of values and so far below one: the scale makes the tolerance relative to its size.
# Two epsilons: the softmax weights are rounded before the product with the values, and the result is rounded again.
# Where a large query lets few keys decide, results are of the values' own size, and so is the rounding of the weights.
EDGES = ("zeros", "tiny-scale", "strided")
FULL = Operator(
    name="attention",
    inputs=flash_attention_inputs,
    reference=flash_attention_reference,
    traffic=flash_attention_traffic,
    tolerance=2,
    scale=0.02,
    outlier_scale=1.0,
    standard=full_standard,
    edges=EDGES,
)
CAUSAL = Operator(
    name="attention-causal",
    inputs=flash_attention_inputs,
    reference=partial(flash_attention_reference, causal=True),
    traffic=partial(flash_attention_traffic, causal=True),
    tolerance=2,
    scale=0.02,
    outlier_scale=1.0,
    standard=causal_standard,
    edges=EDGES,
)
# An operator of its own, because not every backend supports several query heads a key head, and the copies of the math
# backend would not fit in memory.
GROUPED = Operator(
    name="attention-causal-grouped",
    inputs=flash_attention_inputs,
    reference=partial(flash_attention_reference, causal=True),
    traffic=partial(flash_attention_traffic, causal=True),
    tolerance=2,
    scale=0.02,
    outlier_scale=1.0,
    standard=causal_standard,
    edges=EDGES,
)
# Few queries over many keys: a chunk of a prompt whose beginning is in the cache and is not masked.
CHUNK = replace(FULL, name="attention-chunk")
# The cases at which every backend is measured, including those that are far slower.
NARROW, NARROW_MASKED = replace(FULL, name="attention-narrow"), replace(CAUSAL, name="attention-narrow-causal")
MASKS = {
    "attention": False, "attention-causal": True, "attention-causal-grouped": True, "attention-chunk": False,
    "attention-narrow": False, "attention-narrow-causal": True,
}  # fmt: skip
ALL_SHAPES = "all-shapes"
EVERY = ("attention-narrow", "attention-narrow-causal")


def loaded(load: Callable[[bool], Callable[..., Any]], names: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    return {name: partial(load, MASKS[name]) for name in names}


def load_sdpa(backend: SDPBackend, causal: bool) -> Callable[..., Any]:
    return lambda q, k, v: sdpa(q, k, v, causal, backend)


def load_triton(causal: bool) -> Callable[..., Any]:
    return lambda q, k, v: flash_attention(q, k, v, causal=causal)


def load_fa4(causal: bool) -> Callable[..., Any]:
    from flash_attn.cute.interface import flash_attn_func

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Its axes are (B, S, H, D): views of the same memory."""
        output = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=causal)
        o: Tensor = output[0] if isinstance(output, tuple) else output
        return o.transpose(1, 2)

    return attend


LONG_FULL = Case(
    operator=FULL, shape=(2, 16, 16, 8192, 128), dtype="bfloat16",
    description="two sequences of 8192 tokens, 16 heads of 128 features; every token sees every other",
)  # fmt: skip
LONG_CAUSAL = Case(
    operator=CAUSAL, shape=(2, 16, 16, 8192, 128), dtype="bfloat16",
    description="the same, each token seeing those before it, as a language model reads a prompt",
)  # fmt: skip
NARROW_FULL = Case(
    operator=NARROW, shape=(4, 8, 8, 4096, 64), dtype="bfloat16",
    description="heads of 64 features, where exponentials take as long as the products",
)  # fmt: skip
NARROW_CAUSAL = Case(
    operator=NARROW_MASKED, shape=(4, 16, 16, 4096, 64), dtype="bfloat16",
    description="causal attention over heads of 64 features",
)  # fmt: skip
WIDE_FULL = Case(
    operator=FULL, shape=(2, 8, 8, 4096, 256), dtype="bfloat16",
    description="heads of 256 features", only_with=ALL_SHAPES,
)  # fmt: skip
PROMPT = Case(
    operator=GROUPED, shape=(1, 28, 4, 4096, 128), dtype="bfloat16",
    description="a prompt of 4096 tokens in Qwen2.5-7B: seven query heads share one head of keys",
    only_with=ALL_SHAPES,
)  # fmt: skip
FEW_QUERIES = Case(
    operator=CHUNK, shape=(1, 32, 8, 128, 8192, 128), dtype="bfloat16",
    description="128 queries over 8192 keys, 32 query heads over 8 of keys",
)  # fmt: skip
CASES = (LONG_FULL, LONG_CAUSAL, NARROW_FULL, NARROW_CAUSAL, WIDE_FULL, PROMPT, FEW_QUERIES)
WIDE_HEADS = (LONG_FULL, LONG_CAUSAL)
NARROW_HEADS = (NARROW_FULL, NARROW_CAUSAL)

MATH = Profile(
    name="sdpa-math",
    title="SDPA math",
    technique=(
        "scaled_dot_product_attention pinned to its math backend: the scores and their softmax are stored in float32, "
        "4·B·H·S·S bytes each."
    ),
    hypothesis="Slowest by far, and with memory that grows with the square of the length.",
    signal="Matrix products and softmax as kernels of their own; peak memory above 8·B·H·S·S bytes.",
    implementations=loaded(partial(load_sdpa, SDPBackend.MATH), EVERY),
    devices=("cuda",),
)
EFFICIENT = Profile(
    name="sdpa-efficient",
    title="SDPA memory-efficient",
    technique="scaled_dot_product_attention pinned to the memory-efficient backend, from xFormers.",
    hypothesis="Slower than the flash backend; it takes masks that others refuse.",
    signal="One kernel on the Tensor cores of the generation before.",
    implementations=loaded(partial(load_sdpa, SDPBackend.EFFICIENT_ATTENTION), EVERY),
    devices=("cuda",),
)
FLASH = Profile(
    name="sdpa-flash",
    title="SDPA flash",
    technique="scaled_dot_product_attention pinned to the flash backend: FlashAttention-2.",
    hypothesis="Written for the GPUs before Hopper, and at about half of what one can do.",
    signal="One kernel; Tensor pipe near half busy.",
    implementations=loaded(partial(load_sdpa, SDPBackend.FLASH_ATTENTION), tuple(MASKS)),
    devices=("cuda",),
)
CUDNN = Profile(
    name="sdpa-cudnn",
    title="SDPA cuDNN",
    technique="scaled_dot_product_attention pinned to the cuDNN backend, which is written for Hopper.",
    hypothesis="The fastest that PyTorch has on this GPU.",
    signal="One kernel of cuDNN's, with warps that only load.",
    implementations=loaded(partial(load_sdpa, SDPBackend.CUDNN_ATTENTION), tuple(MASKS)),
    devices=("cuda",),
)
FA4 = Profile(
    name="fa4",
    title="FlashAttention-4",
    technique="flash_attn_func of the flash-attn-4 package, in CuTe: its kernel for Hopper, as published.",
    hypothesis="The strongest rival of this list.",
    signal="One kernel of its own; Tensor pipe busiest of all rivals.",
    implementations=loaded(load_fa4, tuple(name for name in MASKS if name != "attention-chunk")),
    devices=("cuda",),
    package="flash_attn",
)
KERNELS = "_flash_attention_hopper_kernel or _flash_attention_kernel"
TRITON = Profile(
    name="triton-flash-attention",
    title="Triton flash attention",
    technique=(
        "One Gluon kernel on a Hopper GPU: one warp loads by TMA, two to four warpgroups compute, each taking the "
        "softmax of one tile while its products of the next run; elsewhere one Triton kernel. Of few queries the keys "
        "are split over programs, and a second kernel adds the parts."
    ),
    hypothesis="Level with the best rival at 128 features; ahead at 64, where more warpgroups hide the exponentials.",
    signal=(
        "The lab's own kernel; Tensor pipe as busy as a rival's; memory for the result, 2·B·H·S·D bytes, and 4 bytes a "
        "row, more only where keys are split."
    ),
    implementations=loaded(load_triton, tuple(MASKS)),
    kernels=dict.fromkeys(MASKS, KERNELS),
    devices=("cuda",),
)

KEEPS_UP = tuple(
    Claim(
        name=f"triton-attention-keeps-up-with-{rival.name}",
        text=(
            "The Triton flash attention is at least 0.95 times as fast as "
            f"{rival.title} over 8192 tokens of 128 features, full and causal."
        ),
        subject=TRITON, baseline=rival, cases=WIDE_HEADS, threshold=0.95,
    )
    for rival in (CUDNN, FA4)
)  # fmt: skip
BEATS_FLASH = Claim(
    name="triton-attention-beats-sdpa-flash",
    text=(
        "The Triton flash attention is at least 1.6 times as fast as PyTorch's flash backend over 8192 tokens of 128 "
        "features, full and causal."
    ),
    subject=TRITON, baseline=FLASH, cases=WIDE_HEADS, threshold=1.6,
)  # fmt: skip
FEW_MATCH = Claim(
    name="split-triton-attention-matches-sdpa-flash",
    text=(
        "With the keys split over programs, of 128 queries over 8192 keys the Triton flash attention is at least as "
        "fast as PyTorch's flash backend."
    ),
    subject=TRITON, baseline=FLASH, cases=(FEW_QUERIES,), threshold=1.0,
)  # fmt: skip
NARROW_MATCHES = tuple(
    Claim(
        name=f"narrow-triton-attention-matches-{rival.name}",
        text=f"On heads of 64 features the Triton flash attention is at least as fast as {rival.title}.",
        subject=TRITON, baseline=rival, cases=NARROW_HEADS, threshold=1.0,
    )
    for rival in (CUDNN, FA4)
)  # fmt: skip
CLAIMS = (
    *KEEPS_UP,
    BEATS_FLASH,
    *NARROW_MATCHES,
    *map(in_graph, (*KEEPS_UP, BEATS_FLASH, *NARROW_MATCHES)),
    *(
        Claim(
            name=f"wide-triton-attention-matches-{rival.name}",
            text=f"On heads of 256 features the Triton flash attention is at least as fast as {rival.title}.",
            subject=TRITON, baseline=rival, cases=(WIDE_FULL,), threshold=1.0,
        )
        for rival in (CUDNN, FA4)
    ),
    *(
        Claim(
            name=f"grouped-triton-attention-matches-{rival.name}",
            text=(
                "Over a prompt of 4096 tokens in Qwen2.5-7B the Triton flash attention is at least as fast as "
                f"{rival.title}."
            ),
            subject=TRITON, baseline=rival, cases=(PROMPT,), threshold=1.0,
        )
        for rival in (CUDNN, FA4)
    ),
    FEW_MATCH,
    in_graph(FEW_MATCH),
    Claim(
        name="triton-attention-beats-sdpa-efficient",
        text=(
            "The Triton flash attention is at least 2 times as fast as PyTorch's memory-efficient one, "
            "on heads of 64."
        ),
        subject=TRITON, baseline=EFFICIENT, cases=NARROW_HEADS, threshold=2.0,
    ),
    Claim(
        name="triton-attention-beats-sdpa-math",
        text="Over 4096 tokens the Triton flash attention is at least 5 times as fast as PyTorch's math backend.",
        subject=TRITON, baseline=MATH, cases=NARROW_HEADS, threshold=5.0,
    ),
    Claim(
        name="triton-attention-needs-little-but-its-result",
        text="The Triton flash attention allocates at most 1.05 times the bytes of its results.",
        subject=TRITON, baseline=None, cases=(*WIDE_HEADS, *NARROW_HEADS), measure="memory", threshold=1 / 1.05,
    ),
    Claim(
        name="math-attention-stores-the-scores",
        # The scores once are S / D times the result: 4096 / 64.
        text="Over 4096 tokens PyTorch's math backend allocates at least 64 times the bytes of the Triton one.",
        subject=TRITON, baseline=MATH, cases=NARROW_HEADS, measure="memory", threshold=64.0,
    ),
    Claim(
        name="cudnn-attention-beats-sdpa-flash",
        text="PyTorch's cuDNN backend is at least 1.5 times as fast as its flash backend.",
        subject=CUDNN, baseline=FLASH, cases=WIDE_HEADS, threshold=1.5,
    ),
)  # fmt: skip

FLASH_ATTENTION = Experiment(
    name="flash-attention",
    title="Flash Attention",
    question="Can attention in Triton keep up with the fastest kernels for Hopper?",
    importance=(
        "Attention compares every token with every other. Stored, the scores take B·H·S·S elements, for 8192 tokens "
        "and 32 heads `4 GiB` a copy; flash attention keeps a tile of them on chip, and needs only the result. On a "
        "Hopper GPU its products reach the Tensor cores' limit only while other warps load and the exponentials are "
        "taken at the same time, which is why PyTorch's flash backend, written before, is at half of it. The "
        "experiment asks whether that takes CUDA, or whether Triton, with its layouts in the open (Gluon), is enough."
    ),
    focus="Overlap of products and softmax",
    cases=CASES,
    profiles=(MATH, EFFICIENT, FLASH, CUDNN, FA4, TRITON),
    claims=CLAIMS,
    headlines=(*KEEPS_UP, BEATS_FLASH),
    does_not_show=(
        "The backward pass, or any gradient.",
        "Sliding windows, prefixes and packed sequences: they are tested, but no rival of the list takes all of them.",
        "Float8, which the libraries' kernels take too.",
        "FlashAttention-3: what was timed is FlashAttention 4's kernel for Hopper, a beta version.",
        "Automatic warp specialisation by Triton itself: in Triton 3.6 such a kernel compiles, and hangs.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("TFLOP/s over the scores that the mask leaves", "Tensor pipe use (profiler)"),
        "Memory": ("peak memory of one call beyond its inputs",),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
    sustained=True,
)
