"""How much faster do the lab's kernels make a whole model: a prompt through Qwen2.5-7B as implemented in transformers?

A call takes the prompt's embeddings, (B, T, 3584), and returns the logits of the last position, (B, 152064), as in
serving. The model itself is in `experiments/qwen.py`. Each profile replays a CUDA graph of its own: without one, the
model makes more launches than a GPU's queue takes, and the host looks at a mask in between, so that the GPU's time
could not be told from the host's.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments.qwen import (
    SIZES,
    another,
    for_each_shape,
    graphed,
    keeping_truths,
    put_in,
    the_model,
    weights_of_layer,
)
from experiments.qwen_compiled import compile_layers
from experiments.qwen_parts import Part, parts
from experiments.qwen_truth import exact_layer, exact_logits
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.hugging_face import cache_name
from lab.kernels.patching import KERNELS
from lab.kernels.traffic import Traffic

Prefill = Callable[[Tensor], Tensor]


def prefilled(model: Any, masks: Any = None) -> Prefill:
    """Embeddings (B, T, hidden) → logits of the last position (B, vocabulary). masks: as `masks_of` makes them; else
    transformers makes them in each call."""

    def call(embeddings: Tensor) -> Tensor:
        output = model(inputs_embeds=embeddings, attention_mask=masks, use_cache=False, logits_to_keep=1)
        logits: Tensor = output.logits
        return logits[:, 0]

    return call


def masks_of(model: Any, embeddings: Tensor) -> dict[str, Any]:
    """The masks that the model's attention uses for a prompt of this shape, by kind of layer.

    In a capture, transformers would make a mask of every position, which the faster kernels of attention do not take.
    """
    from transformers.masking_utils import create_causal_mask

    no_cache = {cache_name(create_causal_mask): None}
    mask = create_causal_mask(config=model.config, inputs_embeds=embeddings, attention_mask=None, **no_cache)
    return {"full_attention": mask}


def prefill_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(embeddings,) of normal data for (B, T), of the size of the model's embeddings."""
    generator = torch.Generator(device).manual_seed(seed)
    size = (*shape, SIZES["hidden_size"])
    return (torch.randn(size, dtype=dtype, device=device, generator=generator),)


@keeping_truths
@torch.no_grad()
def prefill_reference(embeddings: Tensor) -> Tensor:
    """The same model in float64, one layer at a time, so that it fits into memory beside the other."""
    whole = the_model(embeddings.device.type, embeddings.dtype)
    hidden = embeddings.double()
    angles = whole.model.rotary_emb(hidden, torch.arange(embeddings.shape[1], device=embeddings.device)[None])
    for layer in whole.model.layers:
        hidden = exact_layer(layer, hidden, angles)
    return exact_logits(whole, hidden[:, -1])


def prefill_standard(embeddings: Tensor) -> Tensor:
    return prefilled(the_model(str(embeddings.device.type), embeddings.dtype))(embeddings)


def prefill_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read every weight except the embeddings once and every prompt once, write one row of logits a prompt;
    two operations for each weight of the layers at each position, two for each weight of the head for each prompt, and
    causal attention."""
    B, T = shape
    hidden, layers, of_layer = SIZES["hidden_size"], SIZES["num_hidden_layers"], weights_of_layer()
    head = hidden * SIZES["vocab_size"]
    attention = 2 * hidden * T * (T + 1)  # two products over the keys up to each position
    return Traffic(
        read_bytes=(layers * of_layer + head + B * T * hidden) * itemsize,
        written_bytes=B * SIZES["vocab_size"] * itemsize,
        flops=B * (layers * (2 * T * of_layer + attention) + 2 * head),
    )


PREFILL = Operator(
    name="qwen-prefill",
    inputs=prefill_inputs,
    reference=prefill_reference,
    traffic=prefill_traffic,
    # 28 layers each round a dozen times to bfloat16. Otherwise twice the error of the model without the lab's kernels.
    tolerance=8,
    standard=prefill_standard,
    costly_reference=True,
)

# By every profile: too many for each run.
EVERY_WAY = replace(PREFILL, name="qwen-prefill-ways")

ALL_SHAPES = "all-shapes"
NO_PARTS: Mapping[Part, Collection[str]] = {}


def _case(operator: Operator, length: int, only_with: str = ALL_SHAPES) -> Case:
    return Case(
        operator=operator, shape=(1, length), dtype="bfloat16", only_with=only_with,
        description=f"a prompt of {length} tokens through Qwen2.5-7B",
    )  # fmt: skip


PROMPT = _case(PREFILL, 2048, only_with="")
LENGTHS = (PROMPT, *(_case(PREFILL, length) for length in (128, 512, 8192)))
USUAL_LENGTH = (_case(EVERY_WAY, 2048),)
PARTS = parts(KERNELS)
CASES = (*LENGTHS, *USUAL_LENGTH, *(part.case(2048, ALL_SHAPES) for part in PARTS))


def _variant(change: Callable[[Any, Tensor], Prefill], attention: str = "sdpa") -> Callable[..., Any]:
    """What `change` makes of a model with this attention and an input, in a CUDA graph. transformers is imported now,
    the model made later."""
    import transformers  # noqa: F401

    def make(embeddings: Tensor) -> Prefill:
        model = another(the_model(embeddings.device.type, embeddings.dtype), attention)
        return graphed(change(model, embeddings), embeddings)

    return for_each_shape(make)


def _as_it_is(model: Any, embeddings: Tensor) -> Prefill:
    return prefilled(model, masks_of(model, embeddings))


def _with_backend(backend: SDPBackend) -> Callable[..., Any]:
    def change(model: Any, embeddings: Tensor) -> Prefill:
        call = _as_it_is(model, embeddings)

        def pinned(embeddings: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                return call(embeddings)

        return pinned

    return _variant(change)


def _patched(kernels: Collection[str]) -> Callable[..., Any]:
    def change(model: Any, embeddings: Tensor) -> Prefill:
        put_in(model, kernels)
        return _as_it_is(model, embeddings)

    return _variant(change)


def _compiled() -> Callable[..., Any]:
    def change(model: Any, embeddings: Tensor) -> Prefill:
        compile_layers(model)
        return _as_it_is(model, embeddings)

    return _variant(change)


def _profile(
    name: str, title: str, technique: str, hypothesis: str, loader: Callable[[], Any],
    operators: Collection[Operator] = (EVERY_WAY,), in_parts: Mapping[Part, Collection[str]] = NO_PARTS, **more: Any,
) -> Profile:  # fmt: skip
    """in_parts: the parts that it is measured at too, each with the kernels that it is patched for there."""
    of_parts = {part.name: partial(part.loader, kernels) for part, kernels in in_parts.items()}
    return Profile(
        name=name, title=title, technique=technique, hypothesis=hypothesis,
        signal="Matrix products of cuBLAS take most of the time; the rest is what differs.",
        implementations={operator.name: loader for operator in operators} | of_parts,
        devices=("cuda",), package="transformers", **more,
    )  # fmt: skip


EAGER = _profile(
    "eager-attention", "eager attention",
    "The model as transformers has it, with attention written out in PyTorch operators, in a CUDA graph.",
    "Slowest: the scores of every head are written to memory and read again.",
    lambda: _variant(_as_it_is, "eager"),
)  # fmt: skip
SDPA = _profile(
    "sdpa", "SDPA",
    "The model as transformers has it by default, in a CUDA graph: scaled_dot_product_attention, and eager operators "
    "for the rest.",
    "What a user has without effort; norms, rotation and gates are several kernels each.",
    lambda: _variant(_as_it_is), (PREFILL, EVERY_WAY), dict.fromkeys(PARTS, ()),
)  # fmt: skip
BACKENDS = {
    name: _profile(
        f"sdpa-{name}", f"SDPA by {what}", f"The same, with PyTorch's attention told to take {what}.", hypothesis,
        partial(_with_backend, backend),
    )
    # Not the memory-efficient kernel: it takes no heads in groups, as transformers passes them.
    for backend, name, what, hypothesis in (
        (SDPBackend.FLASH_ATTENTION, "flash", "FlashAttention 2", "Behind cuDNN's, which is written for this GPU."),
        (SDPBackend.CUDNN_ATTENTION, "cudnn", "cuDNN's kernel", "Ahead: it is written for this GPU."),
        (SDPBackend.MATH, "math", "plain operators", "Behind, like eager attention."),
    )
}  # fmt: skip
COMPILED = _profile(
    "torch-compile", "torch.compile",
    "torch.compile of each layer, dynamic=False, in its default mode; the model in a CUDA graph.",
    "The strongest rival: it fuses norms, rotation, gates and residual sums.", _compiled, recompiles=True,
)  # fmt: skip
SINGLE = {
    kernel: _profile(
        f"patched-{kernel.replace('_', '-')}", f"patched: {what}", f"The model of SDPA, patched for {what} alone.",
        "Ahead by what this operator loses in eager operators, and no more.", partial(_patched, (kernel,)),
        in_parts={part: (kernel,) for part in PARTS if part.kernels == (kernel,)},
    )
    for kernel, what in (
        ("rmsnorm", "RMSNorm"), ("rope", "RoPE"), ("glu", "SwiGLU"), ("attention", "attention"),
        ("rmsnorm_linear", "RMSNorm + Linear"),
    )
}  # fmt: skip
PATCHED = _profile(
    "patched", "patched",
    "The model of SDPA, patched with the lab's RMSNorm, RoPE, attention, and norms joined to products and sums.",
    "Ahead by about the sum of the single gains; RMSNorm + Linear contains others.", lambda: _patched(KERNELS),
    (PREFILL, EVERY_WAY), {part: KERNELS for part in PARTS if part.kernels == KERNELS},
)  # fmt: skip

PATCHED_BEATS_SDPA = Claim(
    name="patched-model-beats-sdpa",
    text="The patched Qwen2.5-7B is at least 2 % faster than the model as it is, on a prompt of 2048 tokens.",
    subject=PATCHED, baseline=SDPA, cases=(PROMPT,),
)  # fmt: skip
CLAIMS = (
    PATCHED_BEATS_SDPA,
    Claim(
        name="patched-model-keeps-up-with-compile",
        text="The patched Qwen2.5-7B is at most 2 % slower than torch.compile of the model, at 2048 tokens.",
        subject=PATCHED, baseline=COMPILED, cases=USUAL_LENGTH, threshold=0.98,
    ),
    Claim(
        name="patched-model-beats-sdpa-at-every-length",
        text="The patched Qwen2.5-7B is at least 2 % faster than the model as it is, on prompts of 128 to 8192 tokens.",
        subject=PATCHED, baseline=SDPA, cases=LENGTHS,
    ),
    Claim(
        name="sdpa-beats-eager-attention",
        text="By scaled_dot_product_attention Qwen2.5-7B is at least 2 % faster than by eager attention.",
        subject=SDPA, baseline=EAGER, cases=USUAL_LENGTH,
    ),
    Claim(
        name="cudnn-attention-beats-flash-attention-2",
        text="With cuDNN's attention Qwen2.5-7B is at least 2 % faster than with FlashAttention 2, at 2048 tokens.",
        subject=BACKENDS["cudnn"], baseline=BACKENDS["flash"], cases=USUAL_LENGTH,
    ),
    *(
        Claim(
            name=f"{profile.name}-beats-sdpa",
            text=f"With {profile.title.removeprefix('patched: ')} alone it is at least as fast as without.",
            subject=profile, baseline=SDPA, cases=USUAL_LENGTH, threshold=1.0,
        )
        for profile in SINGLE.values()
    ),
)  # fmt: skip

QWEN_PREFILL = Experiment(
    name="qwen-prefill",
    title="A Prompt Through Qwen2.5-7B",
    question="How much of the kernels' gains is left in a whole model that reads a prompt?",
    importance=(
        "A kernel that is twice as fast moves a model by its share of the model's time. In a prompt most of that is "
        "matrix products, which nobody here replaces. The model is that of transformers with the real configuration, "
        "and each kernel is put into it alone and with the others, so that the sum can be compared with its parts."
    ),
    focus="End to end",
    cases=CASES,
    profiles=(EAGER, SDPA, *BACKENDS.values(), COMPILED, *SINGLE.values(), PATCHED),
    claims=CLAIMS,
    headlines=(PATCHED_BEATS_SDPA,),
    does_not_show=(
        "The trained model: its weights are random, whose effect on times and rounding errors was not measured.",
        "A gain in generating tokens, where weights are read for one position at a time.",
        "Matrix products by kernels of the lab, except those of the gated unit.",
        "Serving: batches, caches of keys and values, and what a server adds.",
        "A prompt launched kernel by kernel, where a caller also waits for Python and for a look at the mask.",
        "torch.compile of the whole model at once, which could also join the sum at the end of a layer to the next "
        "layer's norm, and takes much longer to compile.",
        "The kernels one at a time, other attentions and torch.compile, unless all shapes are measured.",
    ),
    metrics={
        "Latency": ("p50 of a prompt", "speed-up over SDPA and over torch.compile, with interval"),
        "Validation": ("error of the logits against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold",),
)
