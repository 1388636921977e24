"""The float64 truth of a layer against transformers' own layer and PyTorch's own attention, on tiny sizes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from experiments import qwen_truth
from experiments.qwen_truth import exact_attention, exact_layer


def heads(count: int, positions: int, seed: int) -> Tensor:
    return torch.randn(2, count, positions, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("positions", [1, 3, 4, 11])
def test_attention_in_pieces_is_attention(positions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_truth, "QUERIES", 4)
    q, k, v = heads(6, positions, 1), heads(2, positions, 2), heads(2, positions, 3)
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(exact_attention(q, k, v), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("new", [1, 5])
def test_new_positions_see_those_before_them(new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_truth, "QUERIES", 2)
    q, k, v = heads(6, 9, 1), heads(2, 9, 2), heads(2, 9, 3)
    after = exact_attention(q[:, :, -new:], k, v)
    torch.testing.assert_close(after, exact_attention(q, k, v)[:, :, -new:], rtol=1e-12, atol=1e-12)


def test_scores_are_never_held_for_all_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_truth, "QUERIES", 4)
    held: list[int] = []
    softmax = Tensor.softmax
    monkeypatch.setattr(Tensor, "softmax", lambda x, dim: (held.append(x.numel()), softmax(x, dim))[1])
    exact_attention(heads(6, 16, 1), heads(2, 16, 2), heads(2, 16, 3))
    assert max(held) == 2 * 6 * 4 * 16
    assert sum(held) == 2 * 6 * 4 * (4 + 8 + 12 + 16)


def test_a_layer_is_that_of_transformers() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")
    from transformers import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RotaryEmbedding

    config = Qwen2Config(hidden_size=48, intermediate_size=80, num_attention_heads=6, num_key_value_heads=2)
    config._attn_implementation = "sdpa"
    layer: Any = Qwen2DecoderLayer(config, 0).double().requires_grad_(False)
    generator = torch.Generator().manual_seed(4)
    for parameter in layer.parameters():  # biases and the norms' weights too
        parameter.normal_(std=0.2, generator=generator)
    x = torch.randn(2, 7, 48, dtype=torch.float64, generator=generator)
    angles = Qwen2RotaryEmbedding(config)(x, torch.arange(7)[None])
    # Norms of transformers round to float32.
    theirs = layer(x, attention_mask=None, position_embeddings=angles)
    torch.testing.assert_close(exact_layer(layer, x, angles), theirs, rtol=1e-5, atol=1e-6)
