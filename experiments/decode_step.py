"""How near does one decoding step of a whole model come to the time that reading its weights takes?

A call takes the embedding of one new token for each of B sequences, (B, 1, 3584), and returns the logits, (B, 152064).
The sequences have C tokens with the new one; keys and values of the others are in a static cache of transformers, which
the process makes once, with random content. A step writes the new token's keys and values to the last place, always
the same, so that each call does the same work. The model itself is in `experiments/qwen.py`.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from experiments.qwen import SEED, SIZES, another, for_each_shape, graphed, key_columns, the_model, weights_of_layer
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.patching import patch
from lab.kernels.traffic import Traffic

KERNELS = ("rmsnorm", "attention", "rmsnorm_linear")


class Cache:
    """A static cache of C places for B sequences, of which all but the last are filled with normal data."""

    def __init__(self, model: Any, batch: int, context: int) -> None:
        from transformers import StaticCache

        weight = model.lm_head.weight
        heads = SIZES["num_key_value_heads"]
        self.static: Any = StaticCache(config=model.config, max_cache_len=context)
        # This also tells torch.compile that the addresses stay: else it would not put the step into a CUDA graph.
        self.static.early_initialization(batch, heads, key_columns() // heads, weight.dtype, weight.device)
        generator = torch.Generator(weight.device).manual_seed(SEED)
        for layer in self.static.layers:
            for tensor in (layer.keys, layer.values):
                tensor[:, :, :-1].normal_(generator=generator)
        self._counters = [layer.cumulative_length for layer in self.static.layers]
        self._before = [torch.full_like(counter, context - 1) for counter in self._counters]

    def rewind(self) -> None:
        """Forget the last token, in one launch for all layers."""
        torch._foreach_copy_(self._counters, self._before)


@cache
def the_cache(device: str, dtype: torch.dtype, batch: int, context: int) -> Cache:
    return Cache(the_model(device, dtype), batch, context)


def decode_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, int]:
    """(embeddings, C) for (B, C)."""
    batch, context = shape
    generator = torch.Generator(device).manual_seed(seed)
    size = (batch, 1, SIZES["hidden_size"])
    return torch.randn(size, dtype=dtype, device=device, generator=generator), context


Step = Callable[[Tensor], Tensor]


def stepped(model: Any, cached: Cache) -> Step:
    """Embeddings (B, 1, hidden) → logits (B, vocabulary), as transformers computes them from a static cache."""

    def step(embeddings: Tensor) -> Tensor:
        output = model(inputs_embeds=embeddings, past_key_values=cached.static, use_cache=True)
        logits: Tensor = output.logits
        return logits[:, 0]

    return step


def rewound(step: Step, cached: Cache) -> Step:
    def call(embeddings: Tensor) -> Tensor:
        cached.rewind()
        return step(embeddings)

    return call


class _Truth:
    """The cache of one layer in float64, with the new token's keys and values after the others'."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def update(self, keys: Tensor, values: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        pairs = ((self._kept.keys, keys), (self._kept.values, values))
        first, second = (torch.cat((old[:, :, :-1].double(), new), 2) for old, new in pairs)
        return first, second


@torch.no_grad()
def decode_reference(embeddings: Tensor, context: int) -> Tensor:
    """The same step in float64, one layer at a time, so that it fits into memory beside the model."""
    whole = the_model(embeddings.device.type, embeddings.dtype)
    cached = the_cache(embeddings.device.type, embeddings.dtype, len(embeddings), context)
    hidden = embeddings.double()
    positions = torch.full((1, 1), context - 1, device=embeddings.device)
    angles = whole.model.rotary_emb(hidden, positions)
    for layer, kept in zip(whole.model.layers, cached.static.layers, strict=True):
        exact = copy.deepcopy(layer).double()
        hidden = exact(hidden, attention_mask=None, position_embeddings=angles, past_key_values=_Truth(kept))
    last = copy.deepcopy(whole.model.norm).double()(hidden[:, 0])
    truth: Tensor = last.double() @ whole.lm_head.weight.double().T
    return truth


def decode_standard(embeddings: Tensor, context: int) -> Tensor:
    device, dtype = embeddings.device.type, embeddings.dtype
    cached = the_cache(device, dtype, len(embeddings), context)
    return rewound(stepped(the_model(device, dtype), cached), cached)(embeddings)


def decode_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read every weight except the embeddings, and every cached key and value, once; write the new ones and
    the logits; two operations for each weight and sequence, four for each feature of a query and key."""
    batch, context = shape
    hidden, layers, vocabulary = SIZES["hidden_size"], SIZES["num_hidden_layers"], SIZES["vocab_size"]
    weights = layers * weights_of_layer() + hidden * vocabulary
    of_token = 2 * layers * key_columns()
    return Traffic(
        read_bytes=(weights + batch * ((context - 1) * of_token + hidden)) * itemsize,
        written_bytes=batch * (of_token + vocabulary) * itemsize,
        flops=batch * (2 * weights + 4 * layers * hidden * context),
    )


DECODE = Operator(
    name="qwen-decode",
    inputs=decode_inputs,
    reference=decode_reference,
    traffic=decode_traffic,
    # 28 layers each round a dozen times to bfloat16. Otherwise twice the error of the model without the lab's kernels.
    tolerance=8,
    standard=decode_standard,
)

# With torch.compile too, which takes longer to compile the model than everything else to measure.
EVERY_WAY = replace(DECODE, name="qwen-decode-ways")

ALL_SHAPES = "all-shapes"


def _case(operator: Operator, batch: int, context: int, only_with: str = ALL_SHAPES) -> Case:
    sequences = f"{batch} sequence{'s' if batch > 1 else ''}"
    return Case(
        operator=operator, shape=(batch, context), dtype="bfloat16", only_with=only_with,
        description=f"one token for {sequences} of {context} tokens, by Qwen2.5-7B",
    )  # fmt: skip


STEP = _case(DECODE, 1, 1024, only_with="")
WAYS = tuple(_case(EVERY_WAY, *shape) for shape in ((1, 1024), (1, 32_768), (16, 1024), (4, 4096), (64, 1024)))
CASES = (STEP, *WAYS)


def _variant(change: Callable[[Any, Cache, Tensor], Step]) -> Callable[..., Any]:
    """For each shape what `change` makes of a model, its cache and an input. transformers is imported now, the model
    made later."""
    import transformers  # noqa: F401

    def make(embeddings: Tensor, context: int) -> Callable[..., Tensor]:
        device, dtype = embeddings.device.type, embeddings.dtype
        cached = the_cache(device, dtype, len(embeddings), context)
        step = change(another(the_model(device, dtype), "sdpa"), cached, embeddings)
        return lambda embeddings, _: step(embeddings)

    return for_each_shape(make)


def _graph(model: Any, cached: Cache, example: Tensor) -> Step:
    return graphed(rewound(stepped(model, cached), cached), example)


def _compiled(model: Any, cached: Cache, _: Tensor) -> Step:
    compiled = torch.compile(stepped(model, cached), mode="reduce-overhead", dynamic=False)

    def step(embeddings: Tensor) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(embeddings).clone()  # the next replay overwrites it

    return rewound(step, cached)


def _patched_graph(model: Any, cached: Cache, example: Tensor) -> Step:
    patch(model, KERNELS)
    return graphed(rewound(stepped(model, cached), cached), example)


def _profile(
    name: str, title: str, technique: str, hypothesis: str, change: Callable[[Any, Cache, Tensor], Step],
    operators: tuple[Operator, ...] = (DECODE, EVERY_WAY), **more: Any,
) -> Profile:  # fmt: skip
    return Profile(
        name=name, title=title, technique=technique, hypothesis=hypothesis,
        signal="Time beyond that of reading the weights: small kernels, and kernels that read other things.",
        implementations={operator.name: lambda: _variant(change) for operator in operators},
        devices=("cuda",), package="transformers", **more,
    )  # fmt: skip


GRAPH = _profile(
    "cuda-graph", "CUDA graph",
    "The model as transformers has it, with a static cache: a step captured once in a CUDA graph and replayed.",
    "No gaps between launches; what is left above the limit are small kernels, and a mask over the whole cache.",
    _graph,
)  # fmt: skip
COMPILED = _profile(
    "torch-compile", "torch.compile (reduce-overhead)",
    "torch.compile of the same step with mode='reduce-overhead', which fuses and puts the step into a CUDA graph.",
    "The strongest rival: no gaps and few small kernels; products stay those of cuBLAS.", _compiled, (EVERY_WAY,),
    recompiles=True,
)  # fmt: skip
PATCHED_GRAPH = _profile(
    "patched-graph", "patched, in a CUDA graph",
    "The model with the lab's kernels, in a CUDA graph: seven launches a layer, each reading its weights once.",
    "Nearest to the limit.", _patched_graph,
)  # fmt: skip

PATCHED_BEATS_GRAPH = Claim(
    name="patched-graph-beats-graph",
    text="In a CUDA graph, a step of the patched Qwen2.5-7B is at least 1.3 times as fast as without the patch.",
    subject=PATCHED_GRAPH, baseline=GRAPH, cases=(STEP,), threshold=1.3,
)  # fmt: skip
CLAIMS = (
    PATCHED_BEATS_GRAPH,
    Claim(
        name="patched-graph-beats-graph-at-every-shape",
        text="In a CUDA graph a patched step is at least 2 % faster at longer contexts and larger batches too.",
        subject=PATCHED_GRAPH, baseline=GRAPH, cases=WAYS,
    ),
    Claim(
        name="patched-graph-beats-compile",
        text="A patched step in a CUDA graph is at least 2 % faster than one of torch.compile, at every shape.",
        subject=PATCHED_GRAPH, baseline=COMPILED, cases=WAYS,
    ),
)  # fmt: skip

DECODE_STEP = Experiment(
    name="decode-step",
    title="One Token Through Qwen2.5-7B",
    question="How near does a decoding step come to the time that reading the weights takes?",
    importance=(
        "To generate a token, a model reads all of its weights and the keys and values of the context, and computes "
        "little. So the memory's rate is a limit, and everything above it is launches, small kernels and detours. The "
        "throughput of a step, as a share of what the GPU's memory reaches, says how much is left."
    ),
    focus="End to end",
    cases=CASES,
    profiles=(GRAPH, COMPILED, PATCHED_GRAPH),
    claims=CLAIMS,
    headlines=(PATCHED_BEATS_GRAPH,),
    does_not_show=(
        "The trained model: its weights and its cache are random, whose effect on times was not measured.",
        "Sequences of different lengths, paged caches, sampling, and what a server adds.",
        "Weights of fewer bits, which would be read sooner.",
        "A step launched kernel by kernel, which waits for Python: a GPU's queue does not take so many launches, so "
        "that the GPU's time could not be told from the host's. A replayed graph is what a caller waits for here.",
        "torch.compile, unless all shapes are measured: every fresh compilation of the model takes long.",
    ),
    metrics={
        "Latency": (
            "p50 of a step: B tokens take so long",
            "speed-up over a CUDA graph without the patch and over torch.compile, with interval",
        ),
        "Throughput": ("bytes of weights and cache a second, as a share of what a copy reaches",),
        "Validation": ("error of the logits against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold",),
)
