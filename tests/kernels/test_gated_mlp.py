import re
from collections.abc import Callable

import pytest
import torch
from products import assert_product
from torch import Tensor

from lab.kernels.gated_mlp import (
    GATES,
    gated_mlp,
    gated_mlp_choices,
    gated_mlp_inputs,
    gated_mlp_reference,
    gated_mlp_traffic,
)
from lab.kernels.gemm import gemm_configuration

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

HALVES = (torch.float16, torch.bfloat16)


def check(x: Tensor, gate: Tensor, up: Tensor, activation: str = "silu", **how: object) -> None:
    y = gated_mlp(x, gate, up, activation, **how)
    # Either sum errs by 1e-4 of its size at most, and is multiplied with the other, of a few times its size.
    assert_product(y, gated_mlp_reference(x, gate, up, activation), 4.0, x.dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (17, 33, 65), (70, 130, 93)], ids=str)
def test_it_agrees_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> None:
    check(*gated_mlp_inputs(shape, dtype, device, seed=1))


@pytest.mark.parametrize("activation", GATES)
def test_the_activation_is_on_the_gate(activation: str, device: str) -> None:
    x, gate, up = gated_mlp_inputs((20, 30, 40), torch.float16, device, seed=2)
    check(x, gate, up, activation)
    assert not torch.allclose(gated_mlp(x, gate, up, activation), gated_mlp(x, up, gate, activation), atol=1e-2)


def test_weights_may_be_packed_or_apart_or_strided(device: str) -> None:
    x, gate, up = gated_mlp_inputs((20, 30, 40), torch.float16, device, seed=3)
    packed = torch.cat([gate, up])
    expected = gated_mlp(x, gate.clone(), up.clone())
    assert torch.equal(gated_mlp(x, *packed.chunk(2)), expected)
    assert torch.equal(gated_mlp(x, gate.t().contiguous().t(), up.t().contiguous().t()), expected)
    wide = torch.zeros(60, 47, dtype=x.dtype, device=device)
    wide[:, 3:43] = packed
    assert torch.equal(gated_mlp(x, *wide[:, 3:43].chunk(2)), expected)


def test_leading_dimensions_are_rows_in_any_order(device: str) -> None:
    _, gate, up = gated_mlp_inputs((1, 30, 40), torch.float16, device, seed=4)
    x = torch.randn(2, 3, 40, dtype=torch.float16, device=device)
    check(x, gate, up)
    check(x.transpose(0, 1), gate, up)


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5)], ids=str)
def test_no_rows_or_columns_give_an_empty_result(shape: tuple[int, int, int], device: str) -> None:
    assert gated_mlp(*gated_mlp_inputs(shape, torch.float16, device, seed=5)).shape == shape[:2]


def test_nan_stays_in_its_row(device: str) -> None:
    x, gate, up = gated_mlp_inputs((20, 30, 40), torch.float16, device, seed=6)
    clean = gated_mlp(x, gate, up)
    x[3, 7] = float("nan")
    y = gated_mlp(x, gate, up)
    assert y[3].isnan().all()
    assert torch.equal(torch.cat([y[:3], y[4:]]), torch.cat([clean[:3], clean[4:]]))


def test_every_choice_agrees(device: str) -> None:
    shape = (130, 140, 100)
    for chosen in gated_mlp_choices(shape, 2):
        check(*gated_mlp_inputs(shape, torch.float16, device, seed=7), configuration=chosen)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x, g, u: gated_mlp(x.float(), g.float(), u.float()),
            TypeError,
            "x has dtype torch.float32; accepted are",
        ),
        (
            lambda x, g, u: gated_mlp(x, g, u[:-1]),
            ValueError,
            "up has shape (29, 40); accepted is that of gate, (30, 40)",
        ),
        (lambda x, g, u: gated_mlp(x, g[:, :-1], u), ValueError, "gate.t() has shape (39, 30); accepted is (40, N)"),
        (
            lambda x, g, u: gated_mlp(x, g, u.t().contiguous().t()),
            ValueError,
            "up has strides (1, 30); accepted are those",
        ),
        (lambda x, g, u: gated_mlp(x, g, u, "none"), ValueError, "activation is 'none'; accepted are ['silu'"),
        (lambda x, g, u: gated_mlp(x, g[0], u), ValueError, "gate has shape (40,); accepted is (F, K)"),
    ],
    ids=["float32", "shape", "K", "strides", "activation", "vector"],
)
def test_what_it_cannot_take_is_named(
    call: Callable[..., Tensor], error: type[Exception], message: str, device: str
) -> None:
    x, gate, up = gated_mlp_inputs((4, 30, 40), torch.float16, device, seed=8)
    with pytest.raises(error, match=f"^{re.escape(f'gated_mlp: {message}')}"):
        call(x, gate, up)


def test_the_least_traffic_has_no_intermediate() -> None:
    traffic = gated_mlp_traffic((2048, 18_944, 3584), itemsize=2)
    assert traffic.written_bytes == 2 * 2048 * 18_944
    assert traffic.read_bytes == 2 * 3584 * (2048 + 2 * 18_944)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", [(200, 264, 520), (1001, 1003, 1000), (130, 300, 517), (16, 4864, 896)], ids=str)
def test_on_a_gpu_it_agrees_with_float64(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    for activation in GATES:
        check(*gated_mlp_inputs(shape, dtype, "cuda", seed=9), activation)


@pytest.mark.gpu
def test_on_a_gpu_gate_and_up_are_reported_apart_in_every_tile() -> None:
    x, gate, up = gated_mlp_inputs((520, 776, 328), torch.bfloat16, "cuda", seed=10)
    check(x, gate, up, configuration=gemm_configuration(128, 256, 64, stages=4, hopper=True))
    check(x, gate, up, configuration=gemm_configuration(256, 128, 64, stages=4, hopper=True))
