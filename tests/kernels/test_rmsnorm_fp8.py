import math
from typing import Any

import pytest
import torch
from accuracy import DTYPES, ODD_COLUMNS
from quantised import ULP, assert_nearest
from torch import Tensor

from lab.kernels.float8 import LARGEST, SMALLEST_SCALE
from lab.kernels.rmsnorm_fp8 import (
    rmsnorm_fp8,
    rmsnorm_fp8_choices,
    rmsnorm_fp8_inputs,
    rmsnorm_fp8_reference,
    rmsnorm_fp8_traffic,
)

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

E4M3 = torch.float8_e4m3fn
every_dtype = pytest.mark.parametrize("dtype", LARGEST, ids=str)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu", seed: int = 1) -> tuple[Tensor, ...]:
    return rmsnorm_fp8_inputs(shape, dtype, device, seed)


def check(x: Tensor, weight: Tensor, dtype: torch.dtype = E4M3, **how: Any) -> None:
    """The sum over a row and what follows bring a few roundings of float32: sixteen hold 65,536 columns."""
    q, scale = rmsnorm_fp8(x, weight, dtype=dtype, **how)
    truth, true_scale = rmsnorm_fp8_reference(x, weight, dtype=dtype)
    assert (q.shape, q.dtype, scale.shape, scale.dtype) == (x.shape, dtype, (*x.shape[:-1], 1), torch.float32)
    assert q.is_contiguous()
    assert ((scale.double() - true_scale).abs() <= 16 * ULP * true_scale).all()
    assert_nearest(q, truth, ulps=16)


@every_dtype
@pytest.mark.parametrize("x_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", ODD_COLUMNS)
def test_it_rounds_the_norm_to_the_nearest(columns: int, x_dtype: torch.dtype, dtype: torch.dtype, device: str) -> None:
    check(*drawn(3, columns, dtype=x_dtype, device=device), dtype=dtype)


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33])
def test_any_number_of_rows_will_do(rows: int, device: str) -> None:
    check(*drawn(rows, 48, device=device))


@pytest.mark.parametrize("columns", [16_384, 16_385, 40_000, 524_287, 524_288])
def test_rows_too_wide_for_registers_are_read_in_tiles(columns: int, device: str) -> None:
    check(*drawn(2, columns, dtype=torch.bfloat16, device=device))


@pytest.mark.parametrize("columns", [100, 16_500])
def test_rows_may_lie_any_distance_apart(columns: int, device: str) -> None:
    wide, weight = drawn(6, columns + 7, device=device)
    check(wide[::2, :columns], weight[:columns])
    check(wide[:1, :columns].expand(4, columns), weight[:columns])


def test_leading_dimensions_are_rows_in_any_order(device: str) -> None:
    x, weight = drawn(6, 33, device=device)
    for each in (x.view(2, 3, 33), x.view(2, 3, 33).transpose(0, 1), x[0]):
        check(each, weight)


def test_a_weight_of_another_float_type_is_used_as_it_is(device: str) -> None:
    check(drawn(2, 100, dtype=torch.float16, device=device)[0], drawn(1, 100, device=device)[1])


@pytest.mark.parametrize("columns", [100, 16_500])
def test_a_row_of_zeros_stays_zero_with_the_smallest_scale(columns: int, device: str) -> None:
    q, scale = rmsnorm_fp8(torch.zeros(2, columns, device=device), torch.ones(columns, device=device))
    assert q.float().eq(0).all()
    assert scale.eq(SMALLEST_SCALE).all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("columns", [100, 16_500])
def test_what_is_not_finite_makes_its_row_nan_and_no_other(columns: int, value: float, device: str) -> None:
    x, weight = drawn(4, columns, device=device)
    x[1, columns // 2] = value
    q, scale = rmsnorm_fp8(x, weight)
    truth, true_scale = rmsnorm_fp8_reference(x, weight)
    assert scale.isnan().flatten().tolist() == [False, True, False, False]
    assert torch.equal(true_scale.isnan(), scale.isnan())
    assert torch.equal(q.float().isnan(), truth.isnan())
    assert truth[1].isnan().all()


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_empty_results(shape: tuple[int, ...], device: str) -> None:
    q, scale = rmsnorm_fp8(torch.empty(shape, device=device), torch.ones(64, device=device))
    assert (q.shape, q.dtype, scale.shape) == (shape, E4M3, (*shape[:-1], 1))


def test_the_inputs_stay_as_they_were(device: str) -> None:
    x, weight = drawn(3, 100, device=device)
    before = x.clone(), weight.clone()
    rmsnorm_fp8(x, weight)
    assert torch.equal(x, before[0])
    assert torch.equal(weight, before[1])


@pytest.mark.parametrize("columns", [300, 20_000])
def test_every_choice_agrees(columns: int, device: str) -> None:
    x, weight = drawn(3, columns, dtype=torch.bfloat16, device=device)
    for chosen in list(rmsnorm_fp8_choices((3, columns), 2))[:: 1 if columns < 1000 else 4]:
        check(x, weight, configuration=chosen)


def test_what_cannot_be_taken_is_refused(device: str) -> None:
    x, weight = drawn(2, 8, device=device)
    with pytest.raises(TypeError, match=r"^rmsnorm_fp8: dtype is torch.int8; accepted are torch.float8_e4m3fn, torch"):
        rmsnorm_fp8(x, weight, dtype=torch.int8)
    with pytest.raises(ValueError, match=r"^rmsnorm_fp8: weight has shape \(7,\); accepted is \(8,\)"):
        rmsnorm_fp8(x, weight[:7])
    with pytest.raises(NotImplementedError, match=r"^rmsnorm_fp8: x requires grad"):
        rmsnorm_fp8(x.requires_grad_(), weight)


def test_the_least_traffic_is_one_read_and_a_byte_an_element() -> None:
    traffic = rmsnorm_fp8_traffic((16_384, 4096), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes) == (134_225_920, 67_108_864 + 65_536)


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("columns", [*ODD_COLUMNS, 3584, 8192, 16_384, 16_385, 65_536, 262_144, 524_288])
def test_on_a_gpu_it_rounds_the_norm_to_the_nearest_over_many_rows(columns: int, dtype: torch.dtype) -> None:
    check(*drawn(257, columns, dtype=torch.bfloat16, device="cuda"), dtype=dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 65_536])
def test_on_a_gpu_it_gives_the_same_bits_twice(columns: int) -> None:
    x, weight = drawn(513, columns, dtype=torch.bfloat16, device="cuda")
    (one, one_scale), (other, other_scale) = rmsnorm_fp8(x, weight), rmsnorm_fp8(x, weight)
    assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    assert torch.equal(one_scale, other_scale)


@pytest.mark.gpu
def test_on_a_gpu_a_graph_computes_on_new_data() -> None:
    x, weight = drawn(64, 4096, dtype=torch.bfloat16, device="cuda")
    rmsnorm_fp8(x, weight)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        q, _ = rmsnorm_fp8(x, weight)
    x.copy_(drawn(64, 4096, dtype=torch.bfloat16, device="cuda", seed=2)[0] * 3)
    graph.replay()
    assert_nearest(q, rmsnorm_fp8_reference(x, weight)[0], ulps=16)


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    columns = 65_536
    last, weight = drawn(3, columns, dtype=torch.float16, device="cuda")
    x = torch.ones((2**31 // columns + 5, columns), dtype=torch.float16, device="cuda")
    x[-3:] = last
    q, scale = rmsnorm_fp8(x, weight)
    truth, true_scale = rmsnorm_fp8_reference(last, weight)
    assert_nearest(q[-3:], truth, ulps=16)
    assert ((scale[-3:].double() - true_scale).abs() <= 16 * ULP * true_scale).all()
