"""Qwen2.5-7B as implemented in transformers, with its real configuration and random weights, for whole models.

Nothing is downloaded, and no time depends on the values. All profiles of a process share one copy of the weights, which
is made at the first call and not when profiles are loaded: several processes load at once, and would not fit.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

SIZES: dict[str, Any] = {
    "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "vocab_size": 152_064, "max_position_embeddings": 32_768,
}  # fmt: skip
ROPE_BASE = 1_000_000.0
EPS = 1e-6
SEED = 7


@cache
def the_model(device: str, dtype: torch.dtype) -> Any:
    """The model, made once in each process."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**SIZES, rms_norm_eps=EPS, rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE})
    config.dtype = dtype
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return Qwen2ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def another(model: Any, attention: str) -> Any:
    """A model that shares the weights of `model` and uses another attention implementation."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    other = copy.deepcopy(model, shared)
    other.set_attn_implementation(attention)
    return other


def on_first_call(make: Callable[..., Callable[..., Tensor]]) -> Callable[..., Tensor]:
    """A function that calls `make` with its first arguments for what it then calls, now and from then on."""
    made: list[Callable[..., Tensor]] = []

    def call(*arguments: Any) -> Tensor:
        if not made:
            made.append(make(*arguments))
        return made[0](*arguments)

    return call


def weights_of_layer() -> int:
    """The elements of the matrices of a layer."""
    hidden, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    return int(2 * hidden * hidden + 2 * hidden * key_columns() + 3 * hidden * inner)


def key_columns() -> int:
    """The columns of the keys, or of the values, of a layer."""
    return int(SIZES["hidden_size"] // SIZES["num_attention_heads"] * SIZES["num_key_value_heads"])
