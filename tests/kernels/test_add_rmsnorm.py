import re
from typing import Any

import pytest
import torch
from accuracy import DTYPES, ODD_COLUMNS, assert_near
from torch import Tensor

from lab.kernels.add_rmsnorm import add_rmsnorm, add_rmsnorm_inputs, add_rmsnorm_reference, add_rmsnorm_traffic
from lab.kernels.rmsnorm import rmsnorm_reference


def check(x: Tensor, residual: Tensor, weight: Tensor) -> None:
    y, s = add_rmsnorm(x, residual, weight)
    assert s.is_contiguous()
    if x.is_cuda or x.dtype != torch.bfloat16:
        assert torch.equal(s, x + residual)
    else:  # Triton's interpreter cuts bfloat16 off where a GPU rounds it
        torch.testing.assert_close(s, x + residual, rtol=torch.finfo(x.dtype).eps, atol=0)
    assert_near(y, rmsnorm_reference(s, weight), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", ODD_COLUMNS)
def test_it_agrees_with_float64_at_any_number_of_columns(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*add_rmsnorm_inputs((3, columns), dtype, device, seed=1))


@pytest.mark.parametrize("rows", [1, 2, 15, 17, 33])
def test_it_agrees_with_float64_at_any_number_of_rows(rows: int, device: str) -> None:
    check(*add_rmsnorm_inputs((rows, 48), torch.float32, device, seed=2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [16_385, 65_536, 131_071])
def test_rows_too_wide_for_registers_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*add_rmsnorm_inputs((2, columns), dtype, device, seed=3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", [262_208, 524_287, 524_288])
def test_the_widest_rows_agree_with_float64(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*add_rmsnorm_inputs((1, columns), dtype, device, seed=4))


def test_the_norm_is_that_of_the_sum_as_rounded(device: str) -> None:
    """1 + 2⁻¹² is 1 in float16: of what the residual stream holds the norm is exactly the weight."""
    x = torch.ones(2, 64, dtype=torch.float16, device=device)
    y, s = add_rmsnorm(x, torch.full_like(x, 2**-12), torch.ones(64, device=device), eps=1e-12)
    assert torch.equal(s, x)
    assert torch.equal(y, x)


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_empty_results(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    y, s = add_rmsnorm(x, x, torch.ones(64, device=device))
    assert y.shape == s.shape == shape


@pytest.mark.parametrize("columns", [100, 16_500])
def test_rows_of_both_may_lie_any_distance_apart(columns: int, device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((6, columns + 7), torch.float32, device, seed=5)
    check(x[::2, :columns], residual[:3, 7:], weight[:columns])


@pytest.mark.parametrize("columns", [100, 16_500])
def test_one_row_may_be_added_to_many(columns: int, device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((4, columns), torch.float32, device, seed=6)
    check(x, residual[:1].expand(4, columns), weight)


@pytest.mark.parametrize("transposed", [False, True])
def test_leading_dimensions_are_rows(transposed: bool, device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((6, 33), torch.float32, device, seed=7)
    x, residual = x.view(2, 3, 33), residual.view(2, 3, 33)
    if transposed:
        x, residual = x.transpose(0, 1), residual.reshape(3, 2, 33)
    check(x, residual, weight)


def test_a_tensor_may_be_added_to_itself(device: str) -> None:
    x, _, weight = add_rmsnorm_inputs((2, 100), torch.float32, device, seed=8)
    check(x, x, weight)


def test_the_inputs_stay_as_they_were(device: str) -> None:
    inputs = add_rmsnorm_inputs((3, 100), torch.float32, device, seed=9)
    before = [tensor.clone() for tensor in inputs]
    y, s = add_rmsnorm(*inputs)
    assert all(torch.equal(old, new) for old, new in zip(before, inputs, strict=True))
    assert len({tensor.data_ptr() for tensor in (*inputs, y, s)}) == 5


@pytest.mark.parametrize("columns", [100, 16_500])
def test_nan_stays_in_its_row(columns: int, device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((4, columns), torch.float32, device, seed=10)
    residual[1, columns // 2] = float("nan")
    y, s = add_rmsnorm(x, residual, weight)
    assert y[1].isnan().all()
    assert s[1].isnan().sum() == 1
    assert not y[[0, 2, 3]].isnan().any()


def test_eps_may_be_an_integer(device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((2, 40), torch.float32, device, seed=11)
    for eps in (1, 0.5):
        y, s = add_rmsnorm(x, residual, weight, eps)
        assert_near(y, rmsnorm_reference(s, weight, eps), x)


def refused(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape('add_rmsnorm: ' + message)}")


def test_what_does_not_fit_is_refused_by_name(device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((4, 8), torch.float32, device, seed=12)
    with refused(TypeError, "x is a list; accepted is a torch.Tensor"):
        add_rmsnorm([1.0], residual, weight)  # type: ignore[arg-type]
    with refused(TypeError, "residual is a NoneType; accepted is a torch.Tensor"):
        add_rmsnorm(x, None, weight)  # type: ignore[arg-type]
    with refused(ValueError, "residual has shape (3, 8); accepted is that of x, (4, 8)"):
        add_rmsnorm(x, residual[:3], weight)
    with refused(ValueError, "residual has dtype torch.float16; accepted is that of x, torch.float32"):
        add_rmsnorm(x, residual.half(), weight)
    with refused(ValueError, "residual has stride 4 in its last dimension; accepted is 1"):
        add_rmsnorm(x, torch.ones(8, 4, device=device).t(), weight)
    with refused(ValueError, "weight has shape (7,); accepted is (8,), the columns of x"):
        add_rmsnorm(x, residual, weight[:7])


def test_the_truth_is_the_norm_of_the_rounded_sum(device: str) -> None:
    x, residual, weight = add_rmsnorm_inputs((2, 50), torch.bfloat16, device, seed=13)
    y, s = add_rmsnorm_reference(x, residual, weight)
    assert torch.equal(s, (x + residual).double())
    assert torch.equal(y, rmsnorm_reference(x + residual, weight))


def test_the_least_traffic_is_two_reads_and_two_writes() -> None:
    traffic = add_rmsnorm_traffic((4096, 4096), itemsize=2)
    assert traffic.read_bytes == 2 * 33_554_432 + 8_192
    assert traffic.written_bytes == 2 * 33_554_432
    assert traffic.flops == 5 * 4096 * 4096


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [*ODD_COLUMNS, 3584, 16_384, 16_385, 65_535, 65_536, 131_072, 262_144, 524_288])
def test_on_a_gpu_it_agrees_with_float64_over_many_rows(columns: int, dtype: torch.dtype) -> None:
    check(*add_rmsnorm_inputs((501, columns), dtype, "cuda", seed=14))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_it_gives_the_same_bits_twice(columns: int) -> None:
    inputs = add_rmsnorm_inputs((513, columns), torch.bfloat16, "cuda", seed=15)
    assert all(torch.equal(a, b) for a, b in zip(add_rmsnorm(*inputs), add_rmsnorm(*inputs), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right(columns: int) -> None:
    rows = 2**31 // columns + 5
    x = torch.ones((rows, columns), dtype=torch.float16, device="cuda")
    last, residual, weight = add_rmsnorm_inputs((3, columns), torch.float16, "cuda", seed=16)
    x[-3:] = last
    y, s = add_rmsnorm(x, residual[:1].expand(rows, columns), weight)
    assert torch.equal(s[-3:], last + residual[:1])
    assert_near(y[-3:], rmsnorm_reference(s[-3:], weight), last)
