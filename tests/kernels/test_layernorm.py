import pytest
import torch
from accuracy import DTYPES, ODD_COLUMNS, assert_near
from torch import Tensor

from lab.kernels.launch import Configuration
from lab.kernels.layernorm import layernorm, layernorm_inputs, layernorm_reference, layernorm_traffic


def check(x: Tensor, weight: Tensor, bias: Tensor) -> None:
    assert_near(layernorm(x, weight, bias), layernorm_reference(x, weight, bias), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", ODD_COLUMNS)
def test_it_agrees_with_float64_at_any_number_of_columns(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*layernorm_inputs((3, columns), dtype, device, seed=1))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33])
def test_it_agrees_with_float64_at_any_number_of_rows(rows: int, device: str) -> None:
    check(*layernorm_inputs((rows, 48), torch.float32, device, seed=2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [16_384, 16_385, 65_536, 131_071])
def test_rows_too_wide_for_registers_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*layernorm_inputs((2, columns), dtype, device, seed=3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", [262_208, 524_287, 524_288])
def test_the_widest_rows_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*layernorm_inputs((1, columns), dtype, device, seed=21))


def test_eps_may_be_an_integer(device: str) -> None:
    """Triton would compile an integer of 1 into the kernel, which the next call, with another eps, would meet again."""
    x, weight, bias = layernorm_inputs((2, 40), torch.float32, device, seed=22)
    for eps in (1, 0.5):
        assert_near(layernorm(x, weight, bias, eps), layernorm_reference(x, weight, bias, eps), x)


@pytest.mark.parametrize(("tiles", "tile"), [(1, 512), (2, 512), (3, 256), (5, 256)])
def test_a_wide_row_comes_out_alike_however_much_of_it_is_held(tiles: int, tile: int, device: str) -> None:
    x, weight, bias = layernorm_inputs((2, 1100), torch.float32, device, seed=23)
    y = layernorm(x, weight, bias, configuration=Configuration.of(HELD=tiles, BLOCK=tile, num_warps=4))
    assert_near(y, layernorm_reference(x, weight, bias), x)


@pytest.mark.parametrize("columns", [1000, 16_385])
def test_a_mean_far_above_the_spread_costs_no_digits_of_the_variance(columns: int, device: str) -> None:
    """E[x²] − E[x]² in float32 would be wrong in its first digit here."""
    x, weight, bias = layernorm_inputs((2, columns), torch.float32, device, seed=4)
    x = x + 10_000
    truth = layernorm_reference(x, weight, bias)
    # The mean can be no more exact than float32 holds it: half an epsilon of 10,000 is a shift of 4.9e-4.
    assert (layernorm(x, weight, bias) - truth).abs().max() < 2e-3


def test_a_first_tile_unlike_the_rest_of_its_row_costs_few_digits(device: str) -> None:
    """Of a wide row all is measured from the mean of its first tile, which lies far from the row's here."""
    x, weight, bias = layernorm_inputs((2, 100_000), torch.float32, device, seed=24)
    x[:, :8192] += 10_000
    truth = layernorm_reference(x, weight, bias)
    # Rounded at 10,000, where the row's spread is 2,750: that many times the sixteen epsilons of other rows.
    allowed = 10_000 / 2_750 * 16 * torch.finfo(x.dtype).eps * (truth.abs() + 1)
    assert bool(((layernorm(x, weight, bias) - truth).abs() <= allowed).all())


def test_one_element_far_from_all_others_costs_few_digits(device: str) -> None:
    x, weight, bias = layernorm_inputs((2, 20_000), torch.float32, device, seed=25)
    x[:, 0] = 1e6
    assert_near(layernorm(x, weight, bias), layernorm_reference(x, weight, bias), x)


def test_equal_values_in_a_wide_row_give_the_bias(device: str) -> None:
    _, weight, bias = layernorm_inputs((1, 20_001), torch.float32, device, seed=26)
    y = layernorm(torch.full((2, 20_001), 0.1, device=device), weight, bias)
    assert (y - bias).abs().max() < 1e-4  # the mean is off by a rounding, which eps keeps small


def test_equal_values_in_a_row_give_the_bias(device: str) -> None:
    _, weight, bias = layernorm_inputs((1, 128), torch.float32, device, seed=5)
    y = layernorm(torch.full((3, 128), 7.0, device=device), weight, bias)
    assert torch.equal(y, bias.expand(3, 128))


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    y = layernorm(x, torch.ones(64, device=device), torch.ones(64, device=device))
    assert y.shape == shape
    assert y.dtype == x.dtype


@pytest.mark.parametrize("columns", [100, 16_500])
def test_rows_may_lie_any_distance_apart(columns: int, device: str) -> None:
    wide, weight, bias = layernorm_inputs((6, columns + 7), torch.float32, device, seed=6)
    check(wide[::2, :columns], weight[:columns], bias[:columns])


@pytest.mark.parametrize("columns", [100, 16_500])
def test_one_row_may_stand_for_many(columns: int, device: str) -> None:
    row, weight, bias = layernorm_inputs((1, columns), torch.float32, device, seed=7)
    repeated = row.expand(4, columns)
    assert repeated.stride(0) == 0
    check(repeated, weight, bias)


@pytest.mark.parametrize("transposed", [False, True])
def test_leading_dimensions_are_rows(transposed: bool, device: str) -> None:
    x, weight, bias = layernorm_inputs((6, 33), torch.float32, device, seed=8)
    x = x.view(2, 3, 33)
    check(x.transpose(0, 1) if transposed else x, weight, bias)


def test_the_inputs_stay_as_they_were(device: str) -> None:
    inputs = layernorm_inputs((3, 100), torch.float32, device, seed=9)
    before = [tensor.clone() for tensor in inputs]
    layernorm(*inputs)
    assert all(torch.equal(old, new) for old, new in zip(before, inputs, strict=True))


@pytest.mark.parametrize("columns", [100, 16_500])
def test_nan_stays_in_its_row(columns: int, device: str) -> None:
    x, weight, bias = layernorm_inputs((4, columns), torch.float32, device, seed=10)
    x[1, columns // 2] = float("nan")
    y = layernorm(x, weight, bias)
    assert y[1].isnan().all()
    assert not y[[0, 2, 3]].isnan().any()


def test_the_least_traffic_is_one_read_of_each_input_and_one_write() -> None:
    traffic = layernorm_traffic((4096, 4096), itemsize=4)
    assert traffic.read_bytes == 67_141_632
    assert traffic.written_bytes == 67_108_864
    assert traffic.flops == 7 * 4096 * 4096


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "columns", [*ODD_COLUMNS, 3584, 8192, 16_385, 32_768, 65_535, 65_536, 131_072, 262_144, 524_288]
)
def test_on_a_gpu_it_agrees_with_float64_over_many_rows(columns: int, dtype: torch.dtype) -> None:
    check(*layernorm_inputs((501, columns), dtype, "cuda", seed=11))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_it_gives_the_same_bits_twice(columns: int) -> None:
    inputs = layernorm_inputs((513, columns), torch.float16, "cuda", seed=12)
    assert torch.equal(layernorm(*inputs), layernorm(*inputs))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right(columns: int) -> None:
    rows = 2**31 // columns + 5
    x = torch.ones((rows, columns), dtype=torch.float16, device="cuda")
    last, weight, bias = layernorm_inputs((3, columns), torch.float16, "cuda", seed=13)
    x[-3:] = last
    assert_near(layernorm(x, weight, bias)[-3:], layernorm_reference(last, weight, bias), last)
