"""Qwen2.5-7B as implemented in transformers, with its real configuration and random weights, for whole models.

Nothing is downloaded. All profiles of a process share one copy of the weights, which
is made at the first call and not when profiles are loaded: several processes load at once, and would not fit.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from lab.kernels.patching import patch

SIZES: dict[str, Any] = {
    "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "vocab_size": 152_064, "max_position_embeddings": 32_768,
}  # fmt: skip
ROPE_BASE = 1_000_000.0
EPS = 1e-6
SEED = 7
KEPT_TRUTHS = 5  # of three seeds, and of two inputs between them that one profile alone is asked
WARM_UPS = 3  # before a capture: what is compiled or allocated at first must not be part of it


@cache
def the_model(device: str, dtype: torch.dtype) -> Any:
    """The model, made once in each process. Its weights need no gradient, so that no result of a call keeps a graph."""
    return _made(SIZES, device, dtype)


@cache
def the_layer(device: str, dtype: torch.dtype) -> Any:
    """A model of one such layer, for its parts: several processes compile ahead, which would not fit the whole one."""
    return _made({**SIZES, "num_hidden_layers": 1}, device, dtype)


def _made(sizes: Mapping[str, Any], device: str, dtype: torch.dtype) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**sizes, rms_norm_eps=EPS, rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE})
    config.dtype = dtype
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return Qwen2ForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)


def another(model: Any, attention: str) -> Any:
    """A model that shares the weights of `model` and uses another attention implementation."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    other = copy.deepcopy(model, shared)
    other.set_attn_implementation(attention)
    return other


def put_in(model: Any, kernels: Collection[str]) -> None:
    """Patch `model` for these kernels. RuntimeError if a part is left as it was, as with a version of transformers that
    `patch` does not know: else its time would be measured under the name of the kernels."""
    patched = patch(model, kernels)
    if patched.left:
        raise RuntimeError(f"the patch is not whole:\n{patched}")


def for_each_shape(make: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    """A function that calls `make` with the first arguments of a shape for what it then calls, as long as the shape
    stays: cases follow one another, and what a CUDA graph keeps would take memory from the next."""
    made: dict[Any, Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        shape = tuple(each.shape if isinstance(each, Tensor) else each for each in arguments)
        if shape not in made:
            made.clear()
            made[shape] = make(*arguments)
        return made[shape](*arguments)

    return call


@dataclass(frozen=True, slots=True)
class Graphed:
    """What was captured in a CUDA graph, with copies of the inputs before and of the results after each replay."""

    run: Callable[..., Any]  # kept, because the graph reads its masks and weights
    inputs: Sequence[Tensor]
    graph: torch.cuda.CUDAGraph
    result: Any

    def __call__(self, *given: Tensor) -> Any:
        for own, other in zip(self.inputs, given, strict=True):
            own.copy_(other)
        self.graph.replay()
        return self.result.clone() if isinstance(self.result, Tensor) else tuple(each.clone() for each in self.result)


def graphed(run: Callable[..., Any], *examples: Tensor) -> Callable[..., Any]:
    inputs = [example.clone() for example in examples]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            run(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run(*inputs)
    return Graphed(run, inputs, graph, result)


def keeping_truths(reference: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`reference`, which does not compute again what it computed for one of the inputs that were asked for last: every
    profile of a case gets the same, and float64 takes ten times as long as a call."""
    kept: list[tuple[Tensor, Tensor]] = []  # that asked for last comes last

    def known(embeddings: Tensor) -> tuple[Tensor, Tensor] | None:
        for at, (other, _) in enumerate(kept):
            if other.dtype == embeddings.dtype and other.shape == embeddings.shape and other.equal(embeddings):
                return kept.pop(at)
        return None

    def call(embeddings: Tensor) -> Tensor:
        kept.append(known(embeddings) or (embeddings.clone(), reference(embeddings)))
        del kept[:-KEPT_TRUTHS]
        return kept[-1][1]

    return call


def weights_of_layer() -> int:
    """The elements of the matrices of a layer."""
    hidden, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    return int(2 * hidden * hidden + 2 * hidden * key_columns() + 3 * hidden * inner)


def key_columns() -> int:
    """The columns of the keys, or of the values, of a layer."""
    return int(SIZES["hidden_size"] // SIZES["num_attention_heads"] * SIZES["num_key_value_heads"])
