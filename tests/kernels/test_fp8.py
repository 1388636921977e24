import itertools
import math
import re
from typing import Any

import pytest
import torch
from accuracy import DTYPES
from quantised import ULP, assert_nearest
from torch import Tensor

from lab.kernels.float8 import LARGEST, SMALLEST_SCALE
from lab.kernels.fp8 import (
    GRANULARITIES,
    quantize_fp8,
    quantize_fp8_choices,
    quantize_fp8_inputs,
    quantize_fp8_reference,
    quantize_fp8_traffic,
)
from lab.kernels.launch import Configuration

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

E4M3 = torch.float8_e4m3fn
every_dtype = pytest.mark.parametrize("dtype", LARGEST, ids=str)
every_granularity = pytest.mark.parametrize("granularity", GRANULARITIES)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu", seed: int = 1) -> Tensor:
    return quantize_fp8_inputs(shape, dtype, device, seed)[0]


def check(x: Tensor, granularity: str = "row", dtype: torch.dtype = E4M3, group: int = 128, **how: Any) -> None:
    """The scale to one unit in the last place, and q the float8 nearest to x / scale, for the scale that it has."""
    q, scale = quantize_fp8(x, granularity, dtype, group, **how)
    truth, true_scale = quantize_fp8_reference(x, granularity, dtype, group)
    assert (q.shape, q.dtype, scale.shape, scale.dtype) == (x.shape, dtype, true_scale.shape, torch.float32)
    assert q.is_contiguous()
    assert scale.is_contiguous()
    assert ((scale.double() - true_scale).abs() <= ULP * true_scale).all()
    assert_nearest(q, truth)


# Each pair of a width, a granularity, a dtype of x and a dtype of the result.
ROUNDED = [
    (columns, DTYPES[(number + of_scale) % 3], granularity, list(LARGEST)[(number + of_scale) % 2])
    for number, columns in enumerate([1, 7, 127, 128, 129, 1000])
    for of_scale, granularity in enumerate(GRANULARITIES)
]


@pytest.mark.parametrize(("columns", "x_dtype", "granularity", "dtype"), ROUNDED, ids=str)
def test_it_rounds_to_the_nearest_at_any_number_of_columns(
    columns: int, x_dtype: torch.dtype, granularity: str, dtype: torch.dtype, device: str
) -> None:
    check(drawn(3, columns, dtype=x_dtype, device=device), granularity, dtype)


@every_granularity
@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33])
def test_it_rounds_to_the_nearest_at_any_number_of_rows(rows: int, granularity: str, device: str) -> None:
    check(drawn(rows, 48, device=device), granularity)


# A group lies in registers however wide its row is, and a row of many groups is as many programs.
@pytest.mark.parametrize(
    ("columns", "granularity"),
    [*itertools.product([16_384, 16_385, 33_000, 524_287], ["row", "tensor"]), (16_385, "group"), (524_288, "group")],
)
def test_rows_too_wide_for_registers_are_read_in_tiles(columns: int, granularity: str, device: str) -> None:
    check(drawn(2, columns, dtype=torch.bfloat16, device=device), granularity)


@pytest.mark.parametrize(
    ("columns", "group"), [(20, 1), (60, 16), (500, 100), (500, 128), (512, 128), (500, 500), (500, 1000)]
)
def test_a_group_may_be_of_any_size_and_the_last_one_shorter(group: int, columns: int, device: str) -> None:
    check(drawn(3, columns, device=device), "group", group=group)
    check(drawn(3, columns + 9, device=device)[:, :columns], "group", group=group)


def test_each_scale_is_that_of_its_own_numbers(device: str) -> None:
    x = torch.ones(4, 256, device=device)
    x[2, 130] = 896.0
    assert quantize_fp8(x, "tensor")[1].item() == 2.0
    assert quantize_fp8(x, "row")[1][:, 0].tolist() == pytest.approx([1 / 448, 1 / 448, 2.0, 1 / 448])
    scale = quantize_fp8(x, "group")[1]
    assert scale[2].tolist() == pytest.approx([1 / 448, 2.0])
    assert scale.shape == (4, 2)


@every_granularity
@pytest.mark.parametrize("exponent", [-149, -140, -120, -30, 30, 120])
def test_numbers_of_any_size_are_held_by_their_scale(exponent: int, granularity: str, device: str) -> None:
    """The smallest of all have the smallest scale, whose reciprocal is still finite."""
    check((drawn(4, 200, device=device).clamp(-3, 3).double() * 2.0**exponent).float(), granularity)


@every_dtype
@every_granularity
def test_zeros_stay_zeros_and_get_the_smallest_scale(granularity: str, dtype: torch.dtype, device: str) -> None:
    q, scale = quantize_fp8(torch.zeros(3, 200, device=device), granularity, dtype)
    assert q.float().eq(0).all()
    assert scale.eq(SMALLEST_SCALE).all()


@every_dtype
def test_the_largest_becomes_the_end_of_the_range(dtype: torch.dtype, device: str) -> None:
    x = drawn(64, 100, device=device)
    q, _ = quantize_fp8(x, "row", dtype)
    assert q.float().abs().amax(-1).eq(LARGEST[dtype]).all()


@every_granularity
def test_it_follows_pytorchs_own_formula(granularity: str, device: str) -> None:
    """The scale in every bit; q as well, but where a product and a quotient round to either side of a middle."""
    x = drawn(16, 512, dtype=torch.bfloat16, device=device)
    wide = x.float() if granularity != "group" else x.float().view(-1, 128)
    amax = wide.abs().amax() if granularity == "tensor" else wide.abs().amax(-1, keepdim=True)
    scale = amax / torch.tensor(448.0, device=device)  # by a number, PyTorch multiplies on a GPU with 1 / 448
    plain = (wide / scale).clamp(-448, 448).to(E4M3).view(x.shape)
    q, scales = quantize_fp8(x, granularity)
    assert torch.equal(scales.flatten(), scale.flatten())
    assert (q.view(torch.uint8) != plain.view(torch.uint8)).float().mean() < 1e-3


def test_the_scale_of_rows_is_what_a_scaled_product_takes(device: str) -> None:
    q, scale = quantize_fp8(drawn(2, 3, 64, device=device))
    assert scale.shape == (2, 3, 1)
    assert scale.flatten(0, -2).stride() == (1, 1)
    assert ((q.float() * scale - drawn(2, 3, 64, device=device)).abs() <= 0.07 * scale * 448).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("granularity", "touched"), [("row", 200), ("group", 128), ("tensor", 800)])
def test_what_is_not_finite_stays_with_those_that_share_its_scale(
    value: float, granularity: str, touched: int, device: str
) -> None:
    x = drawn(4, 200, device=device)
    x[1, 5] = value
    q, scale = quantize_fp8(x, granularity)
    assert scale.isfinite().logical_not().sum() == 1
    values = q.float()
    if math.isnan(value):
        assert values.isnan().sum() == touched
    else:
        assert values.isnan().nonzero().tolist() == [[1, 5]]
        assert values.eq(0).sum() >= touched - 1
    if granularity != "tensor":
        others = [0, 2, 3]
        assert torch.equal(values[others], quantize_fp8(x[others], granularity)[0].float())


@every_granularity
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_no_rows_give_empty_results(shape: tuple[int, ...], granularity: str, device: str) -> None:
    q, scale = quantize_fp8(torch.empty(shape, device=device), granularity)
    assert q.shape == shape
    assert scale.shape == {"row": (*shape[:-1], 1), "group": (*shape[:-1], 1), "tensor": ()}[granularity]
    assert granularity != "tensor" or scale.item() == SMALLEST_SCALE


@pytest.mark.parametrize(
    ("columns", "granularity"),
    [*itertools.product([100, 128], GRANULARITIES), (16_500, "row"), (16_500, "tensor"), (2_500, "group")],
)
def test_rows_may_lie_any_distance_apart(columns: int, granularity: str, device: str) -> None:
    check(drawn(6, columns + 7, device=device)[::2, :columns], granularity)


@every_granularity
def test_leading_dimensions_are_rows_in_any_order(granularity: str, device: str) -> None:
    x = drawn(2, 3, 256, device=device)
    for each in (x, x.transpose(0, 1), x[0, 0], x[:1].expand(4, 3, 256)):
        check(each, granularity)


@every_granularity
def test_memory_need_not_be_aligned(granularity: str, device: str) -> None:
    check(drawn(3 * 200 + 1, dtype=torch.float16, device=device)[1:].view(3, 200), granularity)


@every_granularity
def test_the_input_stays_as_it_was(granularity: str, device: str) -> None:
    x = drawn(3, 100, device=device)
    before = x.clone()
    quantize_fp8(x, granularity)
    assert torch.equal(x, before)


# Many groups are as many programs, however long the rows: fewer columns ask the same of them.
@pytest.mark.parametrize(
    ("granularity", "columns"),
    [*itertools.product(GRANULARITIES, [300]), ("tensor", 20_000), ("row", 20_000), ("group", 2_500)],
)
def test_every_choice_gives_the_same(columns: int, granularity: str, device: str) -> None:
    x = drawn(3, columns, dtype=torch.bfloat16, device=device)
    q, scale = quantize_fp8(x, granularity)
    choices = list(quantize_fp8_choices((3, columns), 2, granularity))
    assert len(choices) >= 6
    for chosen in choices[:: 1 if columns < 1000 else 4]:
        again, again_scale = quantize_fp8(x, granularity, configuration=chosen)
        assert torch.equal(again.view(torch.uint8), q.view(torch.uint8))
        assert torch.equal(again_scale, scale)


def test_a_launch_that_holds_no_whole_group_is_refused(device: str) -> None:
    chosen = Configuration.of(HELD=1, BLOCK=4096, num_warps=4)
    with pytest.raises(
        ValueError, match=r"^quantize_fp8: configuration is .*; accepted are those that hold a group of"
    ):
        quantize_fp8(drawn(2, 256, device=device), "group", configuration=chosen)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("rows",), ValueError, "granularity is 'rows'; accepted are ['row', 'group', 'tensor']"),
        (
            ("row", torch.int8),
            TypeError,
            "dtype is torch.int8; accepted are torch.float8_e4m3fn, torch.float8_e5m2",
        ),
        (("group", E4M3, 0), ValueError, "group is 0; accepted are 1 to 16384 columns"),
        (("group", E4M3, 16_385), ValueError, "group is 16385; accepted are 1 to 16384 columns"),
    ],
)
def test_what_is_not_offered_is_refused(
    arguments: tuple[Any, ...], kind: type[Exception], message: str, device: str
) -> None:
    with pytest.raises(kind, match=f"^quantize_fp8: {re.escape(message)}$"):
        quantize_fp8(drawn(2, 8, device=device), *arguments)


def test_tensors_that_cannot_be_taken_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match=r"quantize_fp8: x has stride 2 in its last dimension; accepted is 1"):
        quantize_fp8(drawn(4, 8, device=device)[:, ::2])
    with pytest.raises(TypeError, match=r"quantize_fp8: x has dtype torch.float64"):
        quantize_fp8(drawn(4, 8, device=device).double())
    with pytest.raises(NotImplementedError, match="quantize_fp8: x requires grad"):
        quantize_fp8(drawn(4, 8, device=device).requires_grad_())


def test_the_least_traffic_is_one_read_and_a_byte_an_element() -> None:
    rows = quantize_fp8_traffic((4096, 8192), itemsize=2)
    assert (rows.read_bytes, rows.written_bytes) == (67_108_864, 33_554_432 + 4 * 4096)
    assert quantize_fp8_traffic((4096, 8192), 2, "group").written_bytes == 33_554_432 + 4 * 4096 * 64
    assert quantize_fp8_traffic((4096, 8192), 2, "tensor").written_bytes == 33_554_432 + 4


@pytest.mark.gpu
@every_dtype
@every_granularity
@pytest.mark.parametrize("columns", [1, 7, 128, 1000, 4096, 4097, 8192, 16_385, 65_537, 262_144, 524_288])
def test_on_a_gpu_it_rounds_to_the_nearest_over_many_rows(columns: int, granularity: str, dtype: torch.dtype) -> None:
    check(drawn(257, columns, dtype=torch.bfloat16, device="cuda"), granularity, dtype)


@pytest.mark.gpu
@every_granularity
def test_on_a_gpu_it_gives_the_same_bits_twice(granularity: str) -> None:
    x = drawn(4096, 8192, dtype=torch.bfloat16, device="cuda")
    (one, one_scale), (other, other_scale) = quantize_fp8(x, granularity), quantize_fp8(x, granularity)
    assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    assert torch.equal(one_scale, other_scale)


@pytest.mark.gpu
@every_granularity
def test_on_a_gpu_a_graph_computes_on_new_data(granularity: str) -> None:
    x = drawn(64, 4096, dtype=torch.bfloat16, device="cuda")
    quantize_fp8(x, granularity)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        q, _ = quantize_fp8(x, granularity)
    x.copy_(drawn(64, 4096, dtype=torch.bfloat16, device="cuda", seed=2) * 3)
    graph.replay()
    assert_nearest(q, quantize_fp8_reference(x, granularity)[0])


@pytest.mark.gpu
@every_granularity
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right(granularity: str) -> None:
    columns = 65_536
    x = torch.ones((2**31 // columns + 5, columns), dtype=torch.float16, device="cuda")
    x[-3:] = drawn(3, columns, dtype=torch.float16, device="cuda").clamp(-1, 1)
    q, scale = quantize_fp8(x, granularity)
    last = x[-3:].double() / (1 / 448 if granularity == "tensor" else quantize_fp8_reference(x[-3:], "row")[1])
    if granularity != "group":
        assert_nearest(q[-3:], last)
    assert q[0, :8].float().eq(448).all()
    assert scale.flatten()[0].item() == pytest.approx(1 / 448)


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_scales_are_addressed_right() -> None:
    x = torch.ones((2**31 // 65_536 + 1, 65_536), dtype=torch.float16, device="cuda")
    x[-1] = 2
    q, scale = quantize_fp8(x, "group", group=1)
    for row, value in ((0, 1), (-1, 2)):
        assert q[row].float().eq(448).all()
        assert scale[row].mul(448).sub(value).abs().max() < 1e-6


@pytest.mark.parametrize("group", [None, "4", 2.5], ids=repr)
def test_a_group_that_is_no_number_of_columns_is_refused(group: Any, device: str) -> None:
    message = f"quantize_fp8: group is {group!r}; accepted are 1 to 16384 columns"
    with pytest.raises(ValueError, match=re.escape(message)):
        quantize_fp8(torch.ones(2, 8, device=device), "group", group=group)
