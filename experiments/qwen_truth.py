"""Layers of Qwen2.5-7B in float64, with which results are compared: written out here, weight by weight.

Of a layer's weights one matrix at a time is held in float64. Scores of attention are held for some queries at a time,
and are not computed for keys that those queries do not see: of 8192 positions all scores together are 15 GB a layer.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

QUERIES = 512  # whose scores are held at a time

Update = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # keys and values of new positions → those of all positions


def exact_layer(layer: Any, hidden: Tensor, angles: tuple[Tensor, Tensor], update: Update | None = None) -> Tensor:
    """Hidden states (B, T, hidden) after a layer. angles: cosines and sines, (1, T, features), as the model has them.
    update: adds the positions in a cache, which come before; without one there are none."""
    hidden = hidden.double()
    attention = layer.self_attn
    x = exact_norm(hidden, layer.input_layernorm)
    queries, keys, values = (
        _product(x, linear).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    queries, keys = exact_rotation(queries, *angles), exact_rotation(keys, *angles)
    if update is not None:
        keys, values = update(keys, values)
    hidden = hidden + _product(exact_attention(queries, keys, values).transpose(1, 2).flatten(2), attention.o_proj)
    return hidden + _gated(exact_norm(hidden, layer.post_attention_layernorm), layer.mlp)


def exact_norm(x: Tensor, norm: Any) -> Tensor:
    x = x.double()
    weight: Tensor = norm.weight.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.variance_epsilon) * weight


def exact_rotation(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Heads (B, H, T, features), each turned by its position's angles. The halves of the tables are equal."""
    first, second = x.double().chunk(2, -1)
    c, s = (table.double()[:, None, :, : first.shape[-1]] for table in (cosines, sines))
    return torch.cat((first * c - second * s, second * c + first * s), -1)


def exact_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of queries (B, H, Q, features), which are those of the last Q of K positions, to keys and values
    (B, G, K, features), of which H / G heads share each."""
    B, H, Q, features = queries.shape
    G, K = keys.shape[1:3]
    queries, keys, values = queries.double() * features**-0.5, keys.double(), values.double()
    result = torch.empty_like(queries)
    for begin in range(0, Q, QUERIES):
        some = queries[:, :, begin : begin + QUERIES]
        before = K - Q + begin  # positions that all of these queries see
        seen = before + some.shape[2]
        scores = some.reshape(B, G, -1, features) @ keys[:, :, :seen].mT
        scores = scores.view(B, H, -1, seen)
        later = torch.ones(some.shape[2], some.shape[2], dtype=torch.bool, device=scores.device).triu_(1)
        scores[..., before:].masked_fill_(later, -torch.inf)
        weights = scores.softmax(-1).view(B, G, -1, seen)
        result[:, :, begin : begin + QUERIES] = (weights @ values[:, :, :seen]).view(some.shape)
    return result


def exact_logits(model: Any, last: Tensor) -> Tensor:
    """Logits (B, vocabulary) of the last layer's hidden states at one position, (B, hidden)."""
    return _product(exact_norm(last, model.model.norm), model.lm_head)


def _gated(x: Tensor, mlp: Any) -> Tensor:
    return _product(F.silu(_product(x, mlp.gate_proj)).mul_(_product(x, mlp.up_proj)), mlp.down_proj)


def _product(x: Tensor, linear: Any) -> Tensor:
    y: Tensor = x @ linear.weight.double().T
    return y if linear.bias is None else y.add_(linear.bias.double())
