"""The forward of a decoder layer of Hugging Face's models in which norms and residual sums are joined to products.

One new token a sequence with a static cache: seven launches, each of which reads its weights or its part of the cache
once (norm with queries, keys and values; rotation into the cache; attention in two; output with residual sum; norm with
the gated unit; down with residual sum). Everything else: the norm after the attention is joined to the residual sum
before it, the two products of the gated unit are one kernel, and the last product adds the residual.
"""

from typing import Any

from torch import Tensor, nn

from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.attention import HALVES
from lab.kernels.checks import runs_here
from lab.kernels.decode_attention import decode_attention
from lab.kernels.few_rows import MOST_ROWS, joined_linear, normed_gated_mlp
from lab.kernels.gated_mlp import gated_mlp
from lab.kernels.hugging_face import Forward, by_either_name, cache_name
from lab.kernels.hugging_face_attention import is_lengths
from lab.kernels.rope_cache import rope_into_cache

PART = 64  # outputs: what products of several layers are made of


def layer_forward(own: Forward, eps_name: str) -> Forward:
    """The forward of a layer that consists of norm, attention, norm and gated SiLU unit, with two residual sums."""
    name = cache_name(own)

    def forward(
        self: Any, hidden_states: Tensor, attention_mask: Any = None, position_ids: Any = None, cache: Any = None,
        use_cache: bool | None = False, position_embeddings: Any = None, **more: Any,
    ) -> Tensor:  # fmt: skip
        x = hidden_states
        rest = {
            "attention_mask": attention_mask, "position_ids": position_ids, name: cache, "use_cache": use_cache,
            "position_embeddings": position_embeddings, **more,
        }  # fmt: skip
        norm = self.post_attention_layernorm
        if x.dtype not in HALVES or norm.weight.dtype != x.dtype or not runs_here(x):
            return own(self, x, **rest)  # type: ignore[no-any-return]
        if is_lengths(attention_mask) and (kept := _static_layer(self, x, cache)):
            return _one_token(self, x, attention_mask, position_embeddings, kept, eps_name)
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(x), **rest)
        normed, s = add_rmsnorm(attended, x, norm.weight, getattr(norm, eps_name))
        mlp = self.mlp
        gated = gated_mlp(normed, mlp.gate_proj.weight, mlp.up_proj.weight)
        sums = s.view(-1, s.shape[-1])
        return sums.addmm_(gated.view(-1, gated.shape[-1]), mlp.down_proj.weight.t()).view_as(s)

    return by_either_name(forward)


def few_rows_forward(own: Forward) -> Forward:
    """The forward of a linear layer, in which few rows take the kernel for them."""

    def forward(self: Any, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        weight = self.weight
        if x.dtype not in HALVES or weight.dtype != x.dtype or not 1 <= rows <= MOST_ROWS or not runs_here(x):
            return own(self, x)  # type: ignore[no-any-return]
        return joined_linear(x.reshape(rows, -1), (weight,), (self.bias,)).view(*x.shape[:-1], len(weight))

    return forward


def _static_layer(layer: Any, x: Tensor, cache: Any) -> Any:
    """The layer's part of a static cache, if it has one and the token can take the short way; else None."""
    attention = layer.self_attn
    if x.shape[1] != 1 or x.shape[0] > MOST_ROWS or hasattr(attention, "q_norm") or not hasattr(cache, "layers"):
        return None
    kept = cache.layers[attention.layer_idx]
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    if type(kept).__name__ != "StaticLayer" or not kept.is_initialized or kept.keys.dtype != x.dtype:
        return None
    return None if any(len(part.weight) % PART for part in parts) else kept


def _one_token(
    layer: Any, x: Tensor, lengths: Tensor, angles: tuple[Tensor, Tensor], kept: Any, eps_name: str
) -> Tensor:
    attention, mlp = layer.self_attn, layer.mlp
    first, second = layer.input_layernorm, layer.post_attention_layernorm
    rows = x.reshape(x.shape[0], -1)
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    # The weight of any other class may be computed when it is asked for, by kernels that still run.
    layers = (*parts, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    constant = all(type(each) is nn.Linear for each in layers)
    qkv = joined_linear(
        rows, [part.weight for part in parts], [part.bias for part in parts], norm_weight=first.weight,
        eps=getattr(first, eps_name), constant_weights=constant,
    )  # fmt: skip
    cos, sin = (table[:, 0] for table in angles)
    q = rope_into_cache(qkv, cos, sin, lengths, kept.keys, kept.values, kept.cumulative_length)
    o = decode_attention(q, kept.keys, kept.values, lengths, scale=attention.scaling)
    output = attention.o_proj
    s = joined_linear(
        o.view(len(o), -1), (output.weight,), (output.bias,), residual=rows, constant_weights=constant
    )  # fmt: skip
    gated = normed_gated_mlp(
        s, second.weight, mlp.gate_proj.weight, mlp.up_proj.weight, getattr(second, eps_name), constant_weights=constant
    )  # fmt: skip
    y: Tensor = joined_linear(gated, (mlp.down_proj.weight,), residual=s, constant_weights=constant)
    return y.view_as(x)
