import math
import re
from collections.abc import Callable

import pytest
import torch
from products import assert_product, sharing_launches
from torch import Tensor

from lab.kernels.fp8_matmul import (
    ACCUMULATIONS,
    BLOCK,
    E4M3,
    GRANULARITIES,
    dequantized,
    fp8_matmul,
    fp8_matmul_choices,
    fp8_matmul_inputs,
    fp8_matmul_reference,
    fp8_matmul_sources,
    fp8_matmul_traffic,
    quantize_left,
    quantize_right,
    quantize_squares,
)
from lab.kernels.gemm import gemm_configuration
from lab.kernels.gemm_rule import HOPPER_TILES, Tile
from lab.kernels.multicast import CLUSTER

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

every_granularity = pytest.mark.parametrize("granularity", GRANULARITIES)
SHAPES = [(1, 1, 1), (3, 5, 7), (17, 40, 300), (37, 70, 93), (130, 260, 264)]
# How large sums may be for what they are allowed to err. Matrix units align 32 products and the sum so far to the
# largest of them and cut each to 13 bits behind its first. Computed so in float64, at a K of 528, sums over 128 of K
# that are added exactly err by 1.2e-4 as a standard deviation and by 1.1e-3 at worst of 53,000; those over all of K by
# four times that. The worst of a million on an H100, with scales of blocks, was a little more than 1e-3.
FAST = 50.0
PRECISE = {"cpu": 1.0, "cuda": 16.0}  # the interpreter adds all of it exactly


def check(inputs: tuple[Tensor, ...], granularity: str, dtype: torch.dtype = torch.float16, **how: object) -> None:
    y = fp8_matmul(*inputs, granularity=granularity, dtype=dtype, **how)
    truth = fp8_matmul_reference(*inputs, granularity=granularity)
    size = FAST if how.get("accumulation", "fast") == "fast" else PRECISE[y.device.type]
    assert_product(y, truth, size, dtype)


@every_granularity
@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_agrees_with_the_product_of_what_the_float8_stand_for(
    shape: tuple[int, int, int], accumulation: str, granularity: str, device: str
) -> None:
    inputs = fp8_matmul_inputs(shape, torch.bfloat16, device, 1, granularity)
    check(inputs, granularity, accumulation=accumulation)


@every_granularity
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_result_has_the_dtype_asked_for_and_a_bias_of_it(dtype: torch.dtype, granularity: str, device: str) -> None:
    inputs = fp8_matmul_inputs((20, 40, 200), torch.bfloat16, device, 2, granularity)
    bias = torch.randn(40, dtype=dtype, device=device)
    y = fp8_matmul(*inputs, bias, granularity=granularity, dtype=dtype)
    assert_product(y, fp8_matmul_reference(*inputs, bias, granularity=granularity), FAST, dtype)


@every_granularity
def test_what_has_no_scale_is_quantised_by_the_call(granularity: str, device: str) -> None:
    a, b = fp8_matmul_sources((20, 40, 300), torch.bfloat16, device, seed=3)
    (qa, a_scale), (qb, b_scale) = quantize_left(a, granularity), quantize_right(b, granularity)
    expected = fp8_matmul(qa, qb, a_scale, b_scale, granularity=granularity)
    for left, left_scale in ((a, None), (qa, a_scale)):
        for right, right_scale in ((b, None), (qb, b_scale)):
            assert torch.equal(fp8_matmul(left, right, left_scale, right_scale, granularity=granularity), expected)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@every_granularity
def test_what_is_not_finite_stays_with_the_results_of_its_scale(granularity: str, value: float, device: str) -> None:
    """The rows or columns of y that a scale is used for are NaN, the others as without the value.

    An infinity becomes a NaN of float8, which Triton's interpreter multiplies as if it were a number: with its scale
    the result is infinite there, or NaN.
    """
    a, b = fp8_matmul_sources((20, 140, 300), torch.bfloat16, device, seed=13)
    expected = fp8_matmul(a, b, granularity=granularity)
    wrong_a, wrong_b = a.clone(), b.clone()
    wrong_a[3, 5] = wrong_b[130, 5] = value
    rows, columns = {
        "tensor": (slice(None), slice(None)), "row": (3, 130), "block": (3, slice(BLOCK, None)),
    }[granularity]  # fmt: skip
    for left, right, place in ((wrong_a, b, (rows, slice(None))), (a, wrong_b, (slice(None), columns))):
        y = fp8_matmul(left, right, granularity=granularity)
        touched = torch.zeros_like(y, dtype=torch.bool)
        touched[place] = True
        not_finite = y.isnan() if math.isnan(value) or device != "cpu" else y.isfinite().logical_not()
        assert torch.equal(not_finite, touched)
        assert torch.equal(y[~touched], expected[~touched])


@every_granularity
@pytest.mark.parametrize("more", [5, 16], ids=["rows at any address", "rows at multiples of 16 bytes"])
def test_rows_may_lie_any_distance_apart(more: int, granularity: str, device: str) -> None:
    a, b = fp8_matmul_sources((20, 40, 304), torch.bfloat16, device, seed=14)
    (qa, a_scale), (qb, b_scale) = quantize_left(a, granularity), quantize_right(b, granularity)
    expected = fp8_matmul(qa, qb, a_scale, b_scale, granularity=granularity)
    a_part, b_part, qa_part, qb_part = (part_of_a_wider_tensor(x, more) for x in (a, b, qa, qb))
    for left, left_scale in ((a_part, None), (qa_part, a_scale)):
        for right, right_scale in ((b_part, None), (qb_part, b_scale)):
            assert torch.equal(fp8_matmul(left, right, left_scale, right_scale, granularity=granularity), expected)


def part_of_a_wider_tensor(x: Tensor, more: int) -> Tensor:
    """A view with the numbers of `x`, in rows that end `more` elements before the next one begins, full of NaN."""
    wide = torch.full((x.shape[0], x.shape[1] + more), math.nan, device=x.device).to(x.dtype)
    wide[:, : x.shape[1]] = x
    return wide[:, : x.shape[1]]


@every_granularity
def test_the_error_of_quantisation_is_that_of_three_bits(granularity: str, device: str) -> None:
    """Of either factor a few per cent: less than twice what normal numbers give, and more than nothing."""
    a, b = fp8_matmul_sources((64, 48, 512), torch.bfloat16, device, seed=4)
    truth = a.double() @ b.double().t()
    y = fp8_matmul(a, b, granularity=granularity, dtype=torch.float32)
    assert 0.01 < ((y.double() - truth).norm() / truth.norm()).item() < 0.07


@pytest.mark.parametrize("shape", [(1, 1), (128, 128), (129, 127), (300, 200)], ids=str)
def test_a_square_has_one_scale(shape: tuple[int, int], device: str) -> None:
    x = torch.randn(shape, dtype=torch.bfloat16, device=device)
    x[-1, -1] = 100.0
    q, scale = quantize_squares(x)
    assert scale.shape == tuple(-(-size // BLOCK) for size in shape)
    assert scale[-1, -1].item() == pytest.approx(100 / 448)
    assert (
        (dequantized(q, scale, BLOCK) - x.double()).abs() <= 0.07 * x.abs().double() + scale.max().item() / 500
    ).all()


def test_a_square_follows_rows_of_a_wider_buffer(device: str) -> None:
    x = torch.randn(200, 300, dtype=torch.float16, device=device)
    wide = torch.zeros(200, 311, dtype=torch.float16, device=device)
    wide[:, :300] = x
    for one, other in zip(quantize_squares(x), quantize_squares(wide[:, :300]), strict=True):
        assert torch.equal(one.float(), other.float())


def test_a_block_of_large_numbers_costs_the_others_nothing(device: str) -> None:
    """Which one scale a row would: its small numbers would be rounded to next to nothing."""
    a, b = fp8_matmul_sources((16, 32, 512), torch.float32, device, seed=5)
    a[:, :BLOCK] *= 1e5
    b[:, :BLOCK] = 0
    truth = a.double() @ b.double().t()
    errors = {}
    for granularity in GRANULARITIES:
        y = fp8_matmul(a, b, granularity=granularity, dtype=torch.float32).double()
        errors[granularity] = ((y - truth).norm() / truth.norm()).item()
    assert errors["block"] < 0.07
    assert errors["row"] > 2 * errors["block"]


@every_granularity
@pytest.mark.parametrize("shape", [(0, 4, 128), (4, 0, 128)], ids=str)
def test_no_rows_or_columns_give_an_empty_result(shape: tuple[int, int, int], granularity: str, device: str) -> None:
    M, N, K = shape
    a, b = (torch.empty(size, K, dtype=E4M3, device=device) for size in (M, N))
    scales = {
        "tensor": (torch.ones((), device=device),) * 2,
        "row": (torch.ones(M, 1, device=device), torch.ones(N, 1, device=device)),
        "block": (torch.ones(M, 1, device=device), torch.ones(-(-N // BLOCK), 1, device=device)),
    }[granularity]
    assert fp8_matmul(a, b, *scales, granularity=granularity).shape == (M, N)


def test_leading_dimensions_are_rows(device: str) -> None:
    a, b = fp8_matmul_sources((6, 40, 200), torch.bfloat16, device, seed=6)
    for granularity in GRANULARITIES:
        y = fp8_matmul(a.view(2, 3, 200), b, granularity=granularity)
        assert torch.equal(y.view(6, 40), fp8_matmul(a, b, granularity=granularity))


@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@every_granularity
def test_every_choice_agrees(granularity: str, accumulation: str, device: str) -> None:
    shape = (130, 140, 300)
    inputs = fp8_matmul_inputs(shape, torch.bfloat16, device, 7, granularity)
    for chosen in fp8_matmul_choices(shape, 1, granularity, accumulation):
        check(inputs, granularity, accumulation=accumulation, configuration=chosen)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda a, b, s, t: fp8_matmul(a, b, s, t, granularity="group"),
            ValueError,
            "granularity is 'group'; accepted are",
        ),
        (
            lambda a, b, s, t: fp8_matmul(a, b, s, t, accumulation="exact"),
            ValueError,
            "accumulation is 'exact'; accepted",
        ),
        (
            lambda a, b, s, t: fp8_matmul(a.float(), b, s, t),
            TypeError,
            "a has a scale and dtype torch.float32; accepted is",
        ),
        (
            lambda a, b, s, t: fp8_matmul(a, b, s[:2], t),
            ValueError,
            "a_scale is torch.float32 of shape (2, 1); accepted for",
        ),
        (
            lambda a, b, s, t: fp8_matmul(a, b, s, t.double()),
            TypeError,
            "b_scale has dtype torch.float64; accepted are",
        ),
        (
            lambda a, b, s, t: fp8_matmul(a[:, :9], b, s, t),
            ValueError,
            "a has shape (4, 9) and b (5, 32); accepted are",
        ),
        (lambda a, b, s, t: fp8_matmul(a, b, s, t, dtype=torch.int8), TypeError, "dtype is torch.int8; accepted are"),
        (
            lambda a, b, s, t: fp8_matmul(a, b, s, t, s[:, 0]),
            ValueError,
            "bias is torch.float32 of shape (4,); accepted is",
        ),
    ],
    ids=["granularity", "accumulation", "dtype", "scale", "scale dtype", "K", "result", "bias"],
)
def test_what_it_cannot_take_is_named(
    call: Callable[..., Tensor], error: type[Exception], message: str, device: str
) -> None:
    a, b, a_scale, b_scale = fp8_matmul_inputs((4, 5, 32), torch.bfloat16, device, 8)
    with pytest.raises(error, match=f"^{re.escape(f'fp8_matmul: {message}')}"):
        call(a, b, a_scale, b_scale)


def test_the_least_traffic_is_a_byte_a_number() -> None:
    traffic = fp8_matmul_traffic((4096, 4096, 4096), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes) == (2 * 4096**2, 2 * 4096**2)


@pytest.mark.gpu
@every_granularity
@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
@pytest.mark.parametrize("shape", [(200, 264, 528), (1001, 1003, 1040), (130, 300, 517), (16, 4096, 4096)], ids=str)
def test_on_a_gpu_it_agrees_with_float64(shape: tuple[int, int, int], accumulation: str, granularity: str) -> None:
    inputs = fp8_matmul_inputs(shape, torch.bfloat16, "cuda", 9, granularity)
    check(inputs, granularity, torch.bfloat16, accumulation=accumulation)


@pytest.mark.gpu
@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
@pytest.mark.parametrize("N", [784, 777])  # rows of y that TMA writes, and that it cannot
def test_on_a_gpu_every_tile_agrees(tile: Tile, N: int) -> None:
    inputs = fp8_matmul_inputs((520, N, 1104), torch.bfloat16, "cuda", 11, "row")
    rows, columns, more, turns = tile
    stages, _ = HOPPER_TILES[tile]
    chosen = gemm_configuration(rows, columns, 128, stages=stages, hopper=True, more_n=more, turns=turns)
    check(inputs, "row", torch.bfloat16, configuration=chosen)


@pytest.mark.gpu
@pytest.mark.parametrize("accumulation", ACCUMULATIONS)
def test_on_a_gpu_programs_that_share_tiles_compute_the_same_bits(
    accumulation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 1104 bytes begin between lines."""
    made = sharing_launches(monkeypatch)
    inputs = fp8_matmul_inputs((520, 784, 1104), torch.bfloat16, "cuda", 12, "row")
    alone, sharing = (
        fp8_matmul(
            *inputs, accumulation=accumulation,
            configuration=gemm_configuration(128, 128, 128, stages=5, hopper=True, cluster=cluster),
        )
        for cluster in (1, CLUSTER)
    )  # fmt: skip
    assert torch.equal(alone, sharing)
    assert len(made) == 1


@pytest.mark.gpu
def test_on_a_gpu_precise_sums_err_less_than_fast_ones() -> None:
    inputs = fp8_matmul_inputs((256, 256, 16_384), torch.bfloat16, "cuda", 10)
    truth = fp8_matmul_reference(*inputs)
    fast, precise = (
        (fp8_matmul(*inputs, accumulation=accumulation, dtype=torch.float32).double() - truth).norm()
        for accumulation in ACCUMULATIONS
    )
    assert precise < fast / 4
