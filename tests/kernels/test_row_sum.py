import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.row_sum import WIDEST, row_sum, row_sum_inputs, row_sum_reference, row_sum_traffic


def drawn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    return row_sum_inputs(shape, dtype, device, seed=1)[0]


def assert_near(y: Tensor, x: Tensor) -> None:
    """One rounding of the result, which Triton's interpreter does towards zero, and those of a float32 sum of √N."""
    truth = row_sum_reference(x)
    assert (y.shape, y.dtype) == (truth.shape, x.dtype)
    assert y.is_contiguous()
    rounding = torch.finfo(x.dtype).eps * truth.abs()
    summing = 8 * torch.finfo(torch.float32).eps * x.shape[-1] ** 0.5
    assert bool(((y.double() - truth).abs() <= rounding + summing).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (5, 7), (40, 33), (2, 4097), (1030, 4), (2, 3, 100)], ids=str)
def test_each_row_is_summed(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x = drawn(*shape, dtype=dtype, device=device)
    assert_near(row_sum(x), x)


@pytest.mark.parametrize("columns", [WIDEST - 1, WIDEST, WIDEST + 1, 3 * WIDEST + 5])
def test_a_row_that_is_too_wide_for_one_program_is_summed_in_parts(columns: int, device: str) -> None:
    x = drawn(2, columns, device=device)
    assert_near(row_sum(x), x)


def test_a_whole_tensor_is_one_row(device: str) -> None:
    x = drawn(10, 5000, device=device)
    assert_near(row_sum(x.view(1, -1)), x.view(1, -1))
    assert_near(row_sum(x.view(-1)), x.view(-1))


@pytest.mark.parametrize(
    "layout",
    [lambda x: x[:, :33], lambda x: x[:, ::2], lambda x: x.t(), lambda x: x[:1].expand(9, -1), lambda x: x[1:, 1:]],
    ids=["rows of a wider buffer", "every other column", "transposed", "one row many times", "unaligned"],
)
def test_a_strided_tensor_is_summed(layout, device: str) -> None:
    x = layout(drawn(37, 70, device=device))
    assert_near(row_sum(x), x)


def test_partial_sums_beyond_the_dtypes_range_do_no_harm(device: str) -> None:
    x = torch.full((1, 4 * WIDEST), 60_000.0, dtype=torch.float16, device=device)
    x[:, 1::2] = -60_000.0
    x[:, : 2 * WIDEST] = 60_000.0
    x[:, 2 * WIDEST :] = -60_000.0
    assert row_sum(x).item() == 0.0


def test_what_is_no_number_stays_in_its_row(device: str) -> None:
    x = torch.ones(4, 20, device=device)
    x[1, 3] = float("nan")
    x[2, 0] = float("inf")
    y = row_sum(x)
    assert y[[0, 3]].tolist() == [20.0, 20.0]
    assert bool(y[1].isnan())
    assert y[2].item() == float("inf")


def test_the_same_rows_give_the_same_sums(device: str) -> None:
    x = drawn(3, 2 * WIDEST, device=device)
    assert torch.equal(row_sum(x), row_sum(x.clone()))


@pytest.mark.parametrize(("shape", "sums"), [((0, 8), []), ((3, 0), [0.0, 0.0, 0.0]), ((0,), 0.0)])
def test_no_rows_have_no_sums_and_an_empty_row_sums_to_nothing(shape, sums, device: str) -> None:
    assert row_sum(torch.ones(shape, device=device)).tolist() == sums


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(2, 4, device=device)
    with pytest.raises(TypeError, match=r"row_sum: x is a list; accepted is a torch\.Tensor"):
        row_sum([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"row_sum: x has dtype torch\.float64; accepted are torch\.float16"):
        row_sum(x.double())
    with pytest.raises(ValueError, match=r"row_sum: x has shape \(\); at least one dimension \(\.\.\., N\) is needed"):
        row_sum(x[0, 0])
    with pytest.raises(NotImplementedError, match="row_sum: x requires grad"):
        row_sum(x.requires_grad_())


def test_the_traffic_is_one_read_of_the_tensor_and_one_write_of_the_sums() -> None:
    traffic = row_sum_traffic((4096, 4096), itemsize=4)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (64 << 20, 16_384, 4096 * 4096)


@pytest.mark.gpu
def test_elements_beyond_two_to_the_31st_are_summed() -> None:
    x = torch.zeros(2, 2**30 + 4099, dtype=torch.float16, device="cuda")
    x[:, -4096:] = 0.25  # float16 has no 1024.75
    assert row_sum(x).tolist() == [1024] * 2
    assert row_sum(x.view(-1)).item() == 2048


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_two_gpus_it_runs_on_that_of_its_tensor() -> None:
    (x,) = row_sum_inputs((32, 500), torch.float16, "cuda:0", seed=8)
    assert torch.equal(row_sum(x.to("cuda:1")).cpu(), row_sum(x).cpu())  # while cuda:0 is the current one
