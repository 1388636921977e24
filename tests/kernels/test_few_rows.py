"""Linear layers of few rows with norm, bias, gate and residual sum, and the token that is written into a cache."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lab.kernels.few_rows import (
    WIDE,
    few_rows_configuration,
    few_rows_rule,
    joined_linear,
    joined_linear_reference,
    normed_gated_mlp,
    normed_gated_mlp_reference,
)
from lab.kernels.rope_cache import rope_into_cache, rope_into_cache_reference


def numbers(
    *shape: int, seed: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", by: float = 1.0
) -> Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, dtype=dtype, device=device, generator=generator) * by


def assert_near(y: Tensor, truth: Tensor, allowance: float = 2.0) -> None:
    """Within roundings of the dtype: of x · norm, and of the result."""
    assert y.shape == truth.shape
    allowed = allowance * torch.finfo(y.dtype).eps * (truth.abs() + 1)
    assert bool(((y.double() - truth).abs() <= allowed).all())


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("depth", [64, 200, 700])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_three_layers_with_norm_and_some_biases(rows: int, depth: int, dtype: torch.dtype, device: str) -> None:
    x = numbers(rows, depth, seed=1, dtype=dtype, device=device)
    weights = [numbers(n, depth, seed=n, dtype=dtype, device=device, by=depth**-0.5) for n in (128, 64, 72)]
    biases = [numbers(128, seed=5, dtype=dtype, device=device), None, numbers(72, seed=6, dtype=dtype, device=device)]
    norm = 1 + numbers(depth, seed=7, dtype=dtype, device=device, by=0.3)
    y = joined_linear(x, weights, biases, norm_weight=norm, eps=1e-3)
    assert_near(y, joined_linear_reference(x, weights, biases, norm_weight=norm, eps=1e-3))


@pytest.mark.parametrize("rows", [1, 7])
def test_outputs_beyond_the_last_read_nothing_before_a_weight(rows: int, device: str) -> None:
    """The last program reaches beyond the outputs. Infinities in front of the last weight would make invalid sums."""
    x = numbers(rows, 32, seed=1, device=device)
    memory = torch.full((8 * 1024, 32), float("inf"), dtype=torch.bfloat16, device=device)
    memory[-3:] = numbers(3, 32, seed=2, device=device)
    weights = (numbers(64, 32, seed=3, device=device), memory[-3:])
    with np.errstate(invalid="raise"):
        y = joined_linear(x, weights)
    assert_near(y, joined_linear_reference(x, weights))


@pytest.mark.parametrize("outputs", [64, WIDE - 1, WIDE])
@pytest.mark.parametrize("depth", [40, 3584, 20_000])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64])
@pytest.mark.parametrize(("paired", "normed"), [(False, False), (False, True), (True, True)])
def test_the_rule_fits_any_size(outputs: int, depth: int, rows: int, paired: bool, normed: bool) -> None:
    chosen = few_rows_rule((rows, outputs, depth), paired=paired, normed=normed)
    tiles = chosen["BLOCK_M"] + chosen["BLOCK_N"] * (2 if paired else 1)
    assert chosen["BLOCK_M"] >= rows
    assert 64 % chosen["BLOCK_N"] == 0
    assert chosen.num_stages * tiles * chosen["BLOCK_K"] * 2 <= 227 * 1024


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_one_layer_and_a_residual_of_other_strides(rows: int, device: str) -> None:
    x = numbers(rows, 96, seed=1, device=device)
    weight = numbers(35, 96, seed=2, device=device, by=0.1)
    residual = numbers(rows, 80, seed=3, device=device)[:, :35]
    y = joined_linear(x, (weight,), residual=residual)
    assert_near(y, joined_linear_reference(x, (weight,), residual=residual))


@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("normed", [False, True])
def test_a_gated_unit(rows: int, normed: bool, device: str) -> None:
    x = numbers(rows, 160, seed=1, device=device)
    gate, up = (numbers(90, 160, seed=seed, device=device, by=0.1) for seed in (2, 3))
    norm = 1 + numbers(160, seed=4, device=device, by=0.3) if normed else None
    assert_near(normed_gated_mlp(x, norm, gate, up), normed_gated_mlp_reference(x, norm, gate, up), 3.0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"x": torch.zeros(65, 8, dtype=torch.bfloat16)}, r"x has shape \(65, 8\).*M from 1 to 64"),
        ({"x": torch.zeros(1, 8)}, "x has dtype torch.float32"),
        ({"weights": [torch.zeros(4, 9, dtype=torch.bfloat16)]}, r"weights\[0\].t\(\) has shape \(9, 4\)"),
        ({"weights": [torch.zeros(4, 8, dtype=torch.bfloat16)] * 4}, "weights are 4; accepted are 1 to 3"),
        ({"weights": [torch.zeros(5, 8, dtype=torch.bfloat16)] * 2}, r"weights have \[5, 5\] outputs"),
        ({"residual": torch.zeros(1, 5, dtype=torch.bfloat16)}, r"residual is torch.bfloat16 of shape \(1, 5\)"),
        ({"norm_weight": torch.zeros(9, dtype=torch.bfloat16)}, r"norm_weight has shape \(9,\)"),
        ({"biases": [torch.zeros(3, dtype=torch.bfloat16)]}, r"the bias of weights\[0\] has shape \(3,\)"),
        ({"configuration": few_rows_configuration(1, 4, 8, warps=1), "x": torch.zeros(2, 8, dtype=torch.bfloat16)},
         "for 1 rows; x has 2"),
    ],
)  # fmt: skip
def test_what_is_not_accepted(change: dict[str, object], complaint: str) -> None:
    given = {
        "x": torch.zeros(1, 8, dtype=torch.bfloat16),
        "weights": [torch.zeros(4, 8, dtype=torch.bfloat16)],
    } | change
    with pytest.raises((ValueError, TypeError), match=complaint):
        joined_linear(given.pop("x"), given.pop("weights"), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("features", [16, 24])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_token_goes_into_the_cache_at_its_place(features: int, batch: int, device: str) -> None:
    qkv = numbers(batch, (5 + 2 * 2) * features, seed=1, device=device)
    angles = numbers(batch, features, seed=2, device=device)
    cos, sin = angles.cos(), angles.sin()
    keys, values = (numbers(batch, 2, 11, features, seed=seed, device=device) for seed in (3, 4))
    lengths = torch.tensor([7, 1, 11][:batch], dtype=torch.int32, device=device)
    counter = torch.zeros((), dtype=torch.int64, device=device)
    truth = rope_into_cache_reference(qkv, cos, sin, lengths, keys, values)
    q = rope_into_cache(qkv, cos, sin, lengths, keys, values, counter)
    for one, other in zip((q, keys, values), truth, strict=True):
        assert_near(one, other, 1.0)
    assert int(counter) == 7


def test_one_row_of_angles_serves_all_sequences(device: str) -> None:
    qkv = numbers(2, 3 * 8, seed=1, device=device)
    cos, sin = (numbers(1, 4, seed=seed, device=device) for seed in (2, 3))
    keys, values = (torch.zeros(2, 1, 4, 8, dtype=torch.bfloat16, device=device) for _ in range(2))
    lengths = torch.tensor([2, 3], dtype=torch.int32, device=device)
    truth = rope_into_cache_reference(qkv, cos, sin, lengths, keys, values)
    q = rope_into_cache(qkv, cos, sin, lengths, keys, values)
    for one, other in zip((q, keys, values), truth, strict=True):
        assert_near(one, other, 1.0)


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("qkv", torch.zeros(1, 25, dtype=torch.bfloat16), "qkv has 25 columns"),
        ("lengths", torch.zeros(1, dtype=torch.int64), "lengths has dtype torch.int64"),
        ("keys", torch.zeros(1, 1, 4, 8), "keys is torch.float32"),
        ("cos", torch.zeros(3, 4, dtype=torch.bfloat16), r"cos has shape \(3, 4\)"),
        ("values", torch.zeros(1, 1, 5, 8, dtype=torch.bfloat16), r"values \(1, 1, 5, 8\)"),
    ],
)
def test_a_cache_that_is_not_accepted(name: str, wrong: Tensor, complaint: str) -> None:
    given = {
        "qkv": torch.zeros(1, 24, dtype=torch.bfloat16), "cos": torch.zeros(1, 4), "sin": torch.zeros(1, 4),
        "lengths": torch.ones(1, dtype=torch.int32), "keys": torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16),
        "values": torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16),
    } | {name: wrong}  # fmt: skip
    with pytest.raises((ValueError, TypeError), match=complaint):
        rope_into_cache(**given)
