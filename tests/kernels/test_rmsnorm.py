import pytest
import torch
from accuracy import DTYPES, ODD_COLUMNS, assert_near
from torch import Tensor

from lab.kernels.launch import Configuration
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs, rmsnorm_reference, rmsnorm_traffic


def check(x: Tensor, weight: Tensor) -> None:
    assert_near(rmsnorm(x, weight), rmsnorm_reference(x, weight), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", ODD_COLUMNS)
def test_it_agrees_with_float64_at_any_number_of_columns(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*rmsnorm_inputs((3, columns), dtype, device, seed=1))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33])
def test_it_agrees_with_float64_at_any_number_of_rows(rows: int, device: str) -> None:
    check(*rmsnorm_inputs((rows, 48), torch.float32, device, seed=2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [16_384, 16_385, 65_536, 131_071])
def test_rows_too_wide_for_registers_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*rmsnorm_inputs((2, columns), dtype, device, seed=3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", [262_208, 524_287, 524_288])
def test_the_widest_rows_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*rmsnorm_inputs((1, columns), dtype, device, seed=21))


def test_eps_may_be_an_integer(device: str) -> None:
    """Triton would compile an integer of 1 into the kernel, which the next call, with another eps, would meet again."""
    x, weight = rmsnorm_inputs((2, 40), torch.float32, device, seed=22)
    for eps in (1, 0.5):
        assert_near(rmsnorm(x, weight, eps), rmsnorm_reference(x, weight, eps), x)


@pytest.mark.parametrize(("tiles", "tile"), [(1, 512), (2, 512), (3, 256), (5, 256)])
def test_a_wide_row_comes_out_alike_however_much_of_it_is_held(tiles: int, tile: int, device: str) -> None:
    x, weight = rmsnorm_inputs((2, 1100), torch.float32, device, seed=23)
    y = rmsnorm(x, weight, configuration=Configuration.of(HELD=tiles, BLOCK=tile, num_warps=4))
    assert_near(y, rmsnorm_reference(x, weight), x)


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    y = rmsnorm(x, torch.ones(64, device=device))
    assert y.shape == shape
    assert y.dtype == x.dtype


@pytest.mark.parametrize("columns", [100, 16_500])
def test_rows_may_lie_any_distance_apart(columns: int, device: str) -> None:
    wide, weight = rmsnorm_inputs((6, columns + 7), torch.float32, device, seed=4)
    check(wide[::2, :columns], weight[:columns])


@pytest.mark.parametrize("columns", [100, 16_500])
def test_one_row_may_stand_for_many(columns: int, device: str) -> None:
    row, weight = rmsnorm_inputs((1, columns), torch.float32, device, seed=5)
    repeated = row.expand(4, columns)
    assert repeated.stride(0) == 0
    check(repeated, weight)


def test_a_single_row_may_come_without_a_row_dimension(device: str) -> None:
    x, weight = rmsnorm_inputs((1, 33), torch.float32, device, seed=6)
    check(x[0], weight)


@pytest.mark.parametrize("transposed", [False, True])
def test_leading_dimensions_are_rows(transposed: bool, device: str) -> None:
    x, weight = rmsnorm_inputs((6, 33), torch.float32, device, seed=7)
    x = x.view(2, 3, 33)
    check(x.transpose(0, 1) if transposed else x, weight)


def test_a_weight_of_another_float_type_is_used_as_it_is(device: str) -> None:
    x, _ = rmsnorm_inputs((2, 100), torch.float16, device, seed=8)
    check(x, rmsnorm_inputs((1, 100), torch.float32, device, seed=9)[1])


def test_squares_beyond_the_range_of_float16_do_not_overflow(device: str) -> None:
    x, weight = rmsnorm_inputs((2, 100), torch.float16, device, seed=10)
    check(x * 1000, weight)


def test_a_row_of_zeros_stays_zero(device: str) -> None:
    weight = torch.ones(100, device=device)
    assert rmsnorm(torch.zeros(2, 100, device=device), weight).eq(0).all()


def test_the_inputs_stay_as_they_were(device: str) -> None:
    x, weight = rmsnorm_inputs((3, 100), torch.float32, device, seed=11)
    before = x.clone(), weight.clone()
    rmsnorm(x, weight)
    assert torch.equal(x, before[0])
    assert torch.equal(weight, before[1])


@pytest.mark.parametrize("columns", [100, 16_500])
def test_nan_stays_in_its_row(columns: int, device: str) -> None:
    x, weight = rmsnorm_inputs((4, columns), torch.float32, device, seed=12)
    x[1, columns // 2] = float("nan")
    y = rmsnorm(x, weight)
    assert y[1].isnan().all()
    assert not y[[0, 2, 3]].isnan().any()


def test_inputs_follow_from_their_seed(device: str) -> None:
    first, again, other = (rmsnorm_inputs((2, 50), torch.float16, device, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_least_traffic_is_one_read_of_each_input_and_one_write() -> None:
    traffic = rmsnorm_traffic((4096, 8192), itemsize=2)
    assert traffic.read_bytes == 67_125_248
    assert traffic.written_bytes == 67_108_864
    assert traffic.total_bytes == 134_234_112
    assert traffic.flops == 4 * 4096 * 8192


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "columns", [*ODD_COLUMNS, 3584, 8192, 16_385, 32_768, 65_535, 65_536, 131_072, 262_144, 524_288]
)
def test_on_a_gpu_it_agrees_with_float64_over_many_rows(columns: int, dtype: torch.dtype) -> None:
    check(*rmsnorm_inputs((501, columns), dtype, "cuda", seed=13))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_it_gives_the_same_bits_twice(columns: int) -> None:
    x, weight = rmsnorm_inputs((513, columns), torch.float16, "cuda", seed=14)
    assert torch.equal(rmsnorm(x, weight), rmsnorm(x, weight))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right(columns: int) -> None:
    rows = 2**31 // columns + 5
    x = torch.ones((rows, columns), dtype=torch.float16, device="cuda")
    last, weight = rmsnorm_inputs((3, columns), torch.float16, "cuda", seed=15)
    x[-3:] = last
    assert_near(rmsnorm(x, weight)[-3:], rmsnorm_reference(last, weight), last)
