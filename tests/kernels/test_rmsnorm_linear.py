import re
from collections.abc import Callable

import pytest
import torch
from products import assert_normed_product
from torch import Tensor

from lab.kernels.rmsnorm_linear import (
    fold_norm_weight,
    rmsnorm_linear,
    rmsnorm_linear_choices,
    rmsnorm_linear_inputs,
    rmsnorm_linear_reference,
    rmsnorm_linear_rule,
    rmsnorm_linear_traffic,
)

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

HALVES = (torch.float16, torch.bfloat16)
SHAPES = [
    (1, 1, 1),
    (1, 33, 1500),
    (1, 70, 1024),
    (5, 70, 93),
    (16, 130, 200),
    (33, 40, 130),
    (64, 40, 64),
    (70, 40, 93),
]


def both(x: Tensor, norm_weight: Tensor, weight: Tensor, eps: float = 1e-6) -> None:
    truth = rmsnorm_linear_reference(x, norm_weight, weight, eps)
    assert_normed_product(rmsnorm_linear(x, norm_weight, weight, eps), truth, x.dtype)
    assert_normed_product(rmsnorm_linear(x, None, fold_norm_weight(norm_weight, weight), eps), truth, x.dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_agrees_with_float64_with_and_without_folding(
    shape: tuple[int, int, int], dtype: torch.dtype, device: str
) -> None:
    both(*rmsnorm_linear_inputs(shape, dtype, device, seed=1))


@pytest.mark.parametrize("rows", [1, 6, 70])
@pytest.mark.parametrize("scale", [1e-4, 1e3])
def test_a_rows_size_does_not_matter_but_beside_eps(rows: int, scale: float, device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((rows, 40, 96), torch.float16, device, seed=2)
    both(x * scale, norm_weight, weight)
    both(x * scale, norm_weight, weight, eps=1e-2)


@pytest.mark.parametrize("rows", [1, 6])
def test_numbers_near_the_end_of_float16_do_not_overflow(rows: int, device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((rows, 40, 96), torch.float16, device, seed=3)
    both(x.clamp(-4, 4) * 15_000, norm_weight * 4, weight / 4)


@pytest.mark.parametrize("rows", [1, 6, 70])
def test_a_row_of_zeros_gives_zeros(rows: int, device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((rows, 40, 96), torch.float16, device, seed=4)
    x[-1] = 0
    assert rmsnorm_linear(x, norm_weight, weight)[-1].eq(0).all()


@pytest.mark.parametrize("rows", [6, 70])
def test_nan_stays_in_its_row(rows: int, device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((rows, 40, 96), torch.float16, device, seed=5)
    clean = rmsnorm_linear(x, norm_weight, weight)
    x[3, 7] = float("nan")
    y = rmsnorm_linear(x, norm_weight, weight)
    assert y[3].isnan().all()
    others = [row for row in range(rows) if row != 3]
    assert torch.equal(y[others], clean[others])


@pytest.mark.parametrize("rows", [1, 6, 70])
def test_rows_may_lie_any_distance_apart(rows: int, device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((rows, 40, 93), torch.float16, device, seed=6)
    wide_x = torch.zeros(rows, 101, dtype=x.dtype, device=device)
    wide_weight = torch.zeros(40, 107, dtype=x.dtype, device=device)
    wide_x[:, :93], wide_weight[:, 5:98] = x, weight
    assert torch.equal(
        rmsnorm_linear(wide_x[:, :93], norm_weight, wide_weight[:, 5:98]), rmsnorm_linear(x, norm_weight, weight)
    )


def test_leading_dimensions_are_rows(device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((6, 40, 96), torch.float16, device, seed=7)
    y = rmsnorm_linear(x.view(2, 3, 96), norm_weight, weight)
    assert torch.equal(y.view(6, 40), rmsnorm_linear(x, norm_weight, weight))


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5)], ids=str)
def test_no_rows_or_columns_give_an_empty_result(shape: tuple[int, int, int], device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs(shape, torch.float16, device, seed=8)
    assert rmsnorm_linear(x, norm_weight, weight).shape == shape[:2]


@pytest.mark.parametrize("shape", [(1, 50, 300), (6, 50, 300), (40, 50, 300), (70, 50, 300)], ids=str)
def test_every_choice_agrees_and_the_rules_is_first(shape: tuple[int, int, int], device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs(shape, torch.float16, device, seed=9)
    truth = rmsnorm_linear_reference(x, norm_weight, weight)
    choices = list(rmsnorm_linear_choices(shape, 2))
    assert choices[0] == rmsnorm_linear_rule(shape, 2)
    for chosen in choices:
        assert_normed_product(rmsnorm_linear(x, norm_weight, weight, configuration=chosen), truth, x.dtype)


def test_the_same_call_gives_the_same_bits(device: str) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((6, 50, 700), torch.float16, device, seed=10)
    assert torch.equal(rmsnorm_linear(x, norm_weight, weight), rmsnorm_linear(x, norm_weight, weight))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x, g, w: rmsnorm_linear(x.float(), g.float(), w.float()),
            TypeError,
            "x has dtype torch.float32; accepted",
        ),
        (
            lambda x, g, w: rmsnorm_linear(x, g[:-1], w),
            ValueError,
            "norm_weight has shape (95,); accepted is (96,), the",
        ),
        (
            lambda x, g, w: rmsnorm_linear(x, g, w[:, :-1]),
            ValueError,
            "weight.t() has shape (95, 40); accepted is (96, N)",
        ),
        (
            lambda x, g, w: rmsnorm_linear(x, g.float(), w),
            ValueError,
            "norm_weight has dtype torch.float32; accepted is",
        ),
        (lambda x, g, w: rmsnorm_linear(x, g, w.t().contiguous().t()), ValueError, "weight has stride 40 in its last"),
        (lambda x, g, w: rmsnorm_linear(x, g, w, eps=-1), ValueError, "eps is -1; accepted are finite numbers from 0"),
        (lambda x, g, w: rmsnorm_linear(x, g, w[0]), ValueError, "weight has shape (96,); accepted is (N, K)"),
    ],
    ids=["float32", "norm weight", "K", "dtype", "stride", "eps", "vector"],
)
def test_what_it_cannot_take_is_named(
    call: Callable[..., Tensor], error: type[Exception], message: str, device: str
) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs((4, 40, 96), torch.float16, device, seed=11)
    with pytest.raises(error, match=f"^{re.escape(f'rmsnorm_linear: {message}')}"):
        call(x, norm_weight, weight)


def test_the_least_traffic_reads_the_weight_once() -> None:
    traffic = rmsnorm_linear_traffic((1, 3584, 3584), itemsize=2)
    assert traffic.read_bytes == 2 * (3584 * 3584 + 2 * 3584)
    assert traffic.written_bytes == 2 * 3584


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64, 65, 512])
@pytest.mark.parametrize("layer", [(3584, 3584), (4864, 896), (1003, 1001)], ids=str)
def test_on_a_gpu_it_agrees_with_float64(layer: tuple[int, int], rows: int, dtype: torch.dtype) -> None:
    both(*rmsnorm_linear_inputs((rows, *layer), dtype, "cuda", seed=12))
