"""How near does one decoding step of a whole model come to the time that reading its weights takes?

A call takes the embedding of one new token for each of B sequences, (B, 1, 3584), and returns the logits, (B, 152064).
The sequences have C tokens with the new one; keys and values of the others are in a static cache of transformers, which
the process makes once, with random content. A step writes the new token's keys and values to the last place, always
the same, so that each call does the same work. The model itself is in `experiments/qwen.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from experiments.qwen import (
    SEED,
    SIZES,
    another,
    for_each_shape,
    graphed,
    key_columns,
    put_in,
    the_layer,
    the_model,
    weights_of_layer,
)
from experiments.qwen_compiled import compile_layers_with_cache
from experiments.qwen_truth import exact_layer, exact_logits
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.hugging_face import cache_name
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
    name = cache_name(model.forward)

    def step(embeddings: Tensor) -> Tensor:
        output = model(inputs_embeds=embeddings, **{name: cached.static}, use_cache=True)
        logits: Tensor = output.logits
        return logits[:, 0]

    return step


def rewound(step: Step, cached: Cache) -> Step:
    def call(embeddings: Tensor) -> Tensor:
        cached.rewind()
        return step(embeddings)

    return call


def _after(kept: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The cache of one layer in float64, with the new token's keys and values after the others'."""
    first, second = (
        torch.cat((old[:, :, :-1].double(), new), 2) for old, new in ((kept.keys, keys), (kept.values, values))
    )
    return first, second


def _angles(model: Any, hidden: Tensor, context: int) -> Any:
    return model.model.rotary_emb(hidden, torch.full((1, 1), context - 1, device=hidden.device))


def _exact_layers(model: Any, cached: Cache, hidden: Tensor, context: int) -> Tensor:
    """In float64, one layer at a time, so that it fits into memory beside the model."""
    hidden = hidden.double()
    angles = _angles(model, hidden, context)
    for layer, kept in zip(model.model.layers, cached.static.layers, strict=True):
        hidden = exact_layer(layer, hidden, angles, partial(_after, kept))
    return hidden


@torch.no_grad()
def decode_reference(embeddings: Tensor, context: int) -> Tensor:
    """The same step in float64."""
    whole = the_model(embeddings.device.type, embeddings.dtype)
    cached = the_cache(embeddings.device.type, embeddings.dtype, len(embeddings), context)
    return exact_logits(whole, _exact_layers(whole, cached, embeddings, context)[:, 0])


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

# Launched kernel by kernel too.
EVERY_WAY = replace(DECODE, name="qwen-decode-ways")
# With torch.compile too.
COMPILING = replace(DECODE, name="qwen-decode-compiled")
# With torch.compile of the whole model at once, which takes longer to compile than everything else to measure.
COMPILING_AT_ONCE = replace(DECODE, name="qwen-decode-compiled-at-once")


@cache
def the_part_cache(device: str, dtype: torch.dtype, batch: int, context: int) -> Cache:
    """For a model of one layer."""
    return Cache(the_layer(device, dtype), batch, context)


def _of_one_layer(embeddings: Tensor, context: int) -> tuple[Any, Cache]:
    device, dtype = embeddings.device.type, embeddings.dtype
    return the_layer(device, dtype), the_part_cache(device, dtype, len(embeddings), context)


def layer_step(model: Any, cached: Cache, embeddings: Tensor, context: int) -> Step:
    """One layer of a step. Mask and angles, which a step makes once for all layers, are made before."""
    from transformers.masking_utils import create_causal_mask

    cached.rewind()
    from_cache = {cache_name(create_causal_mask): cached.static}
    mask = create_causal_mask(config=model.config, inputs_embeds=embeddings, attention_mask=None, **from_cache)
    angles = _angles(model, embeddings, context)
    layer = model.model.layers[0]
    given = {cache_name(layer.forward): cached.static, "use_cache": True}

    def step(hidden: Tensor) -> Tensor:
        y: Tensor = layer(hidden, attention_mask=mask, position_embeddings=angles, **given)
        return y

    return step


def rest_of_step(model: Any, cached: Cache, embeddings: Tensor, context: int) -> Step:
    """All of a step but its layers: mask, angles, last norm and logits."""
    model.config.num_hidden_layers = 0  # by which the model tells how many layers to run
    return stepped(model, cached)


@torch.no_grad()
def _layer_reference(embeddings: Tensor, context: int) -> Tensor:
    return _exact_layers(*_of_one_layer(embeddings, context), embeddings, context)


@torch.no_grad()
def _rest_reference(embeddings: Tensor, context: int) -> Tensor:
    return exact_logits(the_layer(embeddings.device.type, embeddings.dtype), embeddings[:, 0])


def _layer_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    batch, context = shape
    hidden, of_token = SIZES["hidden_size"], 2 * key_columns()
    return Traffic(
        read_bytes=(weights_of_layer() + batch * ((context - 1) * of_token + hidden)) * itemsize,
        written_bytes=batch * (of_token + hidden) * itemsize,
        flops=batch * (2 * weights_of_layer() + 4 * hidden * context),
    )


def _rest_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    hidden, vocabulary = SIZES["hidden_size"], SIZES["vocab_size"]
    return Traffic(
        read_bytes=(vocabulary + shape[0]) * hidden * itemsize, written_bytes=shape[0] * vocabulary * itemsize,
        flops=2 * shape[0] * hidden * vocabulary,
    )  # fmt: skip


def _part_step(make: Callable[..., Step], patched: bool, embeddings: Tensor, context: int) -> Step:
    model, cached = _of_one_layer(embeddings, context)
    model = another(model, "sdpa")
    if patched:
        put_in(model, KERNELS)
    return rewound(make(model, cached, embeddings, context), cached)


def _part(name: str, make: Callable[..., Step], reference: Callable[..., Tensor], traffic: Any) -> Operator:
    def standard(embeddings: Tensor, context: int) -> Tensor:
        return _part_step(make, False, embeddings, context)(embeddings)

    return Operator(
        name=name, inputs=decode_inputs, reference=reference, traffic=traffic, tolerance=8, standard=standard
    )  # fmt: skip


LAYER = _part("qwen-decode-layer", layer_step, _layer_reference, _layer_traffic)
REST = _part("qwen-decode-rest", rest_of_step, _rest_reference, _rest_traffic)
PARTS = {LAYER: layer_step, REST: rest_of_step}

ALL_SHAPES = "all-shapes"


def _case(operator: Operator, batch: int, context: int, only_with: str = ALL_SHAPES) -> Case:
    sequences = f"{batch} sequence{'s' if batch > 1 else ''}"
    return Case(
        operator=operator, shape=(batch, context), dtype="bfloat16", only_with=only_with,
        description=f"one token for {sequences} of {context} tokens, by Qwen2.5-7B",
    )  # fmt: skip


STEP = _case(DECODE, 1, 1024, only_with="")
SHAPES = (STEP, *(_case(DECODE, *shape) for shape in ((1, 32_768), (16, 1024), (4, 4096), (64, 1024))))
WAYS = (_case(EVERY_WAY, 1, 1024),)
COMPILED_SHAPES = tuple(_case(COMPILING, batch, 1024) for batch in (1, 16))
PART_CASES = tuple(
    replace(_case(operator, 1, 1024), description=f"{what}, of one token for a sequence of 1024, by Qwen2.5-7B")
    for operator, what in ((LAYER, "one of 28 layers"), (REST, "all but the layers"))
)
AT_ONCE = (_case(COMPILING_AT_ONCE, 1, 1024),)
CASES = (*SHAPES, *WAYS, *COMPILED_SHAPES, *AT_ONCE, *PART_CASES)


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


def _launched(model: Any, cached: Cache, _: Tensor) -> Step:
    return rewound(stepped(model, cached), cached)


def _patched(model: Any, cached: Cache, _: Tensor) -> Step:
    put_in(model, KERNELS)
    return rewound(stepped(model, cached), cached)


def _graph(model: Any, cached: Cache, example: Tensor) -> Step:
    return graphed(rewound(stepped(model, cached), cached), example)


def _compiled(model: Any, cached: Cache, example: Tensor) -> Step:
    compile_layers_with_cache(model, cached.static)
    return _graph(model, cached, example)


def _compiled_at_once(model: Any, cached: Cache, _: Tensor) -> Step:
    compiled = torch.compile(stepped(model, cached), mode="reduce-overhead", dynamic=False)

    def step(embeddings: Tensor) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(embeddings).clone()  # the next replay overwrites it

    return rewound(step, cached)


def _patched_graph(model: Any, cached: Cache, example: Tensor) -> Step:
    put_in(model, KERNELS)
    return graphed(rewound(stepped(model, cached), cached), example)


def _in_part(make: Callable[..., Step], patched: bool) -> Callable[..., Any]:
    """A part of a step in a CUDA graph."""
    import transformers  # noqa: F401

    def of_shape(embeddings: Tensor, context: int) -> Callable[..., Tensor]:
        step = graphed(_part_step(make, patched, embeddings, context), embeddings)
        return lambda embeddings, _: step(embeddings)

    return for_each_shape(of_shape)


def _profile(
    name: str, title: str, technique: str, hypothesis: str, change: Callable[[Any, Cache, Tensor], Step],
    operators: tuple[Operator, ...] = (DECODE, EVERY_WAY, COMPILING, COMPILING_AT_ONCE), patched: bool | None = None,
    **more: Any,
) -> Profile:  # fmt: skip
    """patched: how it is measured at the parts too, if it is."""
    of_parts = {
        operator.name: partial(_in_part, make, patched) for operator, make in PARTS.items() if patched is not None
    }  # fmt: skip
    return Profile(
        name=name, title=title, technique=technique, hypothesis=hypothesis,
        signal="Time beyond that of reading the weights: small kernels, and kernels that read other things.",
        implementations={operator.name: lambda: _variant(change) for operator in operators} | of_parts,
        devices=("cuda",), package="transformers", **more,
    )  # fmt: skip


EAGER = _profile(
    "eager", "eager",
    "The model as transformers has it, with a static cache: a step launched kernel by kernel.",
    "Slowest by far: a caller waits for Python, and the GPU for launches.", _launched, (EVERY_WAY,),
)  # fmt: skip
PATCHED = _profile(
    "patched", "patched", "The model with the lab's kernels, launched kernel by kernel: seven launches a layer.",
    "Ahead of eager by the launches that are left out, and still behind a CUDA graph.", _patched, (EVERY_WAY,),
)  # fmt: skip
GRAPH = _profile(
    "cuda-graph", "CUDA graph",
    "The model as transformers has it, with a static cache: a step captured once in a CUDA graph and replayed.",
    "No gaps between launches; what is left above the limit are small kernels, and a mask over the whole cache.",
    _graph, patched=False,
)  # fmt: skip
COMPILED = _profile(
    "torch-compile-layers", "torch.compile of each layer",
    "torch.compile of each layer, dynamic=False, in its default mode, with the layer's part of the static cache; the "
    "step in a CUDA graph. Layers share one compilation, as PyTorch recommends where they repeat.",
    "A strong rival: it fuses norms, rotation, gates and residual sums; products stay those of cuBLAS, and mask, last "
    "norm and logits those of transformers.", _compiled, (COMPILING, COMPILING_AT_ONCE), recompiles=True,
)  # fmt: skip
COMPILED_AT_ONCE = _profile(
    "torch-compile", "torch.compile (reduce-overhead)",
    "torch.compile of the same step at once with mode='reduce-overhead', which fuses and puts the step into a CUDA "
    "graph, as generate() of transformers does with a static cache.",
    "The strongest rival: no gaps and few small kernels; products stay those of cuBLAS.", _compiled_at_once,
    (COMPILING_AT_ONCE,), recompiles=True,
)  # fmt: skip
PATCHED_GRAPH = _profile(
    "patched-graph", "patched, in a CUDA graph",
    "The model with the lab's kernels, in a CUDA graph: seven launches a layer, each reading its weights once.",
    "Nearest to the limit.", _patched_graph, patched=True,
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
        subject=PATCHED_GRAPH, baseline=GRAPH, cases=SHAPES,
    ),
    Claim(
        name="patched-graph-beats-compiled-layers",
        text="A patched step in a CUDA graph is at least 2 % faster than one whose layers torch.compile compiled.",
        subject=PATCHED_GRAPH, baseline=COMPILED, cases=COMPILED_SHAPES,
    ),
    Claim(
        name="patched-graph-beats-compile",
        text="A patched step in a CUDA graph is at least 2 % faster than one that torch.compile compiled at once.",
        subject=PATCHED_GRAPH, baseline=COMPILED_AT_ONCE, cases=AT_ONCE,
    ),
    Claim(
        name="patched-beats-eager-when-launched",
        text="Launched kernel by kernel, a patched step is at least twice as fast as one without the patch.",
        subject=PATCHED, baseline=EAGER, cases=WAYS, scope="eager", threshold=2.0,
    ),
    Claim(
        name="graph-beats-eager",
        text="A step replayed from a CUDA graph is at least twice as fast as the same step launched kernel by kernel.",
        subject=GRAPH, baseline=EAGER, cases=WAYS, scope="eager", threshold=2.0,
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
    profiles=(EAGER, PATCHED, GRAPH, COMPILED, COMPILED_AT_ONCE, PATCHED_GRAPH),
    claims=CLAIMS,
    headlines=(PATCHED_BEATS_GRAPH,),
    does_not_show=(
        "The trained model: its weights and its cache are random, whose effect on times was not measured.",
        "Sequences of different lengths, paged caches, sampling, and what a server adds.",
        "Weights of fewer bits, which would be read sooner.",
        "The GPU's own time of a step launched kernel by kernel: a GPU's queue does not take so many launches, so that "
        "it cannot be told from the host's. What a caller waits for is measured.",
        "torch.compile, unless all shapes are measured; of the whole model at once for one shape only, since every "
        "fresh compilation takes most of a minute.",
    ),
    metrics={
        "Latency": (
            "p50 of a step: B tokens take so long",
            "speed-up over a CUDA graph without the patch and over torch.compile, with interval",
        ),
        "Throughput": ("tokens a second", "bytes of weights and cache a second, as a share of what a copy reaches"),
        "Validation": ("error of the logits against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "eager"),
)
