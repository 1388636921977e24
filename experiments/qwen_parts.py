"""Parts of a layer of Qwen2.5-7B, each as transformers has it and with the lab's kernels.

What a kernel gains in the whole model is predicted from these: calls in a forward pass, times the time it saves in one.
Each part runs in a CUDA graph that copies its inputs and its result, as the model's does. So times hold the copies, and
differences do not; and inputs were written just before, as in the model.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.qwen import (
    EPS,
    SIZES,
    another,
    for_each_shape,
    graphed,
    key_columns,
    put_in,
    the_layer,
    weights_of_layer,
)
from experiments.qwen_truth import exact_attention, exact_layer, exact_rotation
from lab import Case, Operator, Output
from lab.kernels.glu import swiglu
from lab.kernels.hugging_face import ROTATE
from lab.kernels.rmsnorm import rmsnorm_reference
from lab.kernels.traffic import Traffic

Run = Callable[..., Any]  # (model of one layer, *inputs) → what the part computes
TOLERANCE = 8  # machine epsilons; otherwise twice the error of the part as transformers has it


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Something that a forward pass of the model does `calls` times."""

    name: str  # its operator's
    what: str
    calls: int
    kernels: tuple[str, ...]  # of `patch`, which replace it
    inputs: Callable[..., tuple[Tensor, ...]]  # of (model, generator-made normal data, positions)
    run: Run
    reference: Callable[..., Any]
    least_bytes: Callable[[int], tuple[int, int]]  # read and written, in elements, of so many positions
    flops: Callable[[int], int]
    results: int = 1

    @property
    def operator(self) -> Operator:
        return Operator(
            name=self.name,
            inputs=partial(_inputs, self),
            reference=partial(_reference, self),
            traffic=partial(_traffic, self),
            standard=partial(_standard, self),
            outputs=(Output(tolerance=TOLERANCE),) * self.results,
        )

    def case(self, length: int, only_with: str) -> Case:
        return Case(
            operator=self.operator, shape=(1, length), dtype="bfloat16", only_with=only_with,
            description=f"{self.what} of {length} tokens, one of {self.calls} calls in a prompt through Qwen2.5-7B",
        )  # fmt: skip

    def loader(self, kernels: Collection[str]) -> Callable[..., Any]:
        """The part of a layer that is patched for these kernels, or of transformers' own if there are none."""
        import transformers  # noqa: F401

        def make(*inputs: Tensor) -> Callable[..., Any]:
            model = another(the_layer(inputs[0].device.type, inputs[0].dtype), "sdpa")
            if kernels:
                put_in(model, kernels)
            return graphed(partial(self.run, model), *inputs)

        return for_each_shape(make)


def _inputs(part: Part, shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, dtype=dtype, device=device, generator=generator)

    return part.inputs(the_layer(device, dtype), normal, shape[1])


@torch.no_grad()
def _reference(part: Part, *inputs: Tensor) -> Any:
    return part.reference(the_layer(inputs[0].device.type, inputs[0].dtype), *inputs)


def _standard(part: Part, *inputs: Tensor) -> Any:
    return part.run(the_layer(inputs[0].device.type, inputs[0].dtype), *inputs)


def _traffic(part: Part, shape: tuple[int, ...], itemsize: int) -> Traffic:
    read, written = part.least_bytes(shape[1])
    return Traffic(read_bytes=read * itemsize, written_bytes=written * itemsize, flops=part.flops(shape[1]))


def _hidden(model: Any, normal: Callable[..., Tensor], length: int) -> tuple[Tensor, ...]:
    return (normal(1, length, SIZES["hidden_size"]),)


def _gates(model: Any, normal: Callable[..., Tensor], length: int) -> tuple[Tensor, ...]:
    return tuple(normal(1, length, SIZES["intermediate_size"]) for _ in range(2))


def _heads(model: Any, normal: Callable[..., Tensor], length: int) -> tuple[Tensor, ...]:
    """(queries, keys, values), each (1, positions, heads, features) as a projection leaves it."""
    features = SIZES["hidden_size"] // SIZES["num_attention_heads"]
    queries, keys = (normal(1, length, SIZES[f"num_{name}_heads"], features) for name in ("attention", "key_value"))
    return queries, keys, torch.empty_like(keys).copy_(normal(*keys.shape))


def _turned(model: Any, normal: Callable[..., Tensor], length: int) -> tuple[Tensor, ...]:
    """(queries, keys, cosines, sines)."""
    queries, keys, _ = _heads(model, normal, length)
    return queries, keys, *_angles(model, queries, length)


def _angles(model: Any, like: Tensor, length: int) -> tuple[Tensor, Tensor]:
    cos, sin = model.model.rotary_emb(like, torch.arange(length, device=like.device)[None])
    return cos, sin


def _rotate(model: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    forward = inspect.unwrap(model.model.layers[0].self_attn.forward)
    rotated: tuple[Tensor, Tensor] = forward.__globals__[ROTATE](q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    return rotated


def _rotated(model: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    return exact_rotation(q.transpose(1, 2), cos, sin), exact_rotation(k.transpose(1, 2), cos, sin)


def _gate(model: Any, gate: Tensor, up: Tensor) -> Tensor:
    mlp = model.model.layers[0].mlp
    if "forward" in vars(mlp):  # the patch's forward, which has the products beside it
        return swiglu(gate, up)
    gated: Tensor = mlp.act_fn(gate) * up
    return gated


def _attend(model: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    module = model.model.layers[0].self_attn
    attention = ALL_ATTENTION_FUNCTIONS[model.config._attn_implementation]
    heads = (each.transpose(1, 2) for each in (q, k, v))
    attended: Tensor = attention(module, *heads, None, dropout=0.0, scaling=module.scaling)[0]
    return attended


def _attended(model: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return exact_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)


def _layer(model: Any, x: Tensor) -> Tensor:
    angles = _angles(model, x, x.shape[1])
    y: Tensor = model.model.layers[0](x, attention_mask=None, position_embeddings=angles)
    return y


def _exact_layer(model: Any, x: Tensor) -> Tensor:
    return exact_layer(model.model.layers[0], x, _angles(model, x.double(), x.shape[1]))


def parts(kernels: Collection[str]) -> tuple[Part, ...]:
    """Those of a prompt. kernels: all that the fully patched model is patched for."""
    hidden, inner, layers = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["num_hidden_layers"]
    keys = key_columns()
    return (
        Part(
            name="qwen-norm", what="a norm", calls=2 * layers + 1, kernels=("rmsnorm",), inputs=_hidden,
            run=lambda model, x: model.model.norm(x),
            reference=lambda model, x: rmsnorm_reference(x, model.model.norm.weight, EPS),
            least_bytes=lambda T: (T * hidden, T * hidden), flops=lambda T: 4 * T * hidden,
        ),
        Part(
            name="qwen-rope", what="the rotation of queries and keys", calls=layers, kernels=("rope",), inputs=_turned,
            run=_rotate, reference=_rotated, results=2, flops=lambda T: 3 * T * (hidden + keys),
            least_bytes=lambda T: (T * (hidden + keys), T * (hidden + keys)),
        ),
        Part(
            name="qwen-gate", what="the gated unit without its products", calls=layers, kernels=("glu",), inputs=_gates,
            run=_gate, reference=lambda model, gate, up: F.silu(gate.double()) * up.double(),
            least_bytes=lambda T: (2 * T * inner, T * inner), flops=lambda T: 5 * T * inner,
        ),
        Part(
            name="qwen-attention", what="causal attention", calls=layers, kernels=("attention",), inputs=_heads,
            run=_attend, reference=_attended, least_bytes=lambda T: (T * (hidden + 2 * keys), T * hidden),
            flops=lambda T: 2 * hidden * T * (T + 1),
        ),
        *(
            Part(
                name=name, what=what, calls=layers, kernels=names, inputs=_hidden, run=_layer, reference=_exact_layer,
                least_bytes=lambda T: (T * hidden + weights_of_layer(), T * hidden),
                flops=lambda T: 2 * T * weights_of_layer() + 2 * hidden * T * (T + 1),
            )
            for name, what, names in (
                ("qwen-joined-layer", "a whole layer with the norms joined to products", ("rmsnorm_linear",)),
                ("qwen-layer", "a whole layer with every kernel", tuple(kernels)),
            )
        ),
    )  # fmt: skip
