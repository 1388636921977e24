import pytest
import torch
from accuracy import DTYPES

from lab.kernels.stream import (
    OVERHEAD_BYTES,
    extra_rows,
    stream,
    stream_inputs,
    stream_reference,
    stream_traffic,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("extra", [0, 1, 2])
def test_the_result_is_the_first_rows_whatever_else_is_copied(extra: int, dtype: torch.dtype, device: str) -> None:
    x, rows = stream_inputs((33, 100), dtype, device, seed=1)
    assert x.shape == (35, 100)
    y = stream(x, rows, extra)
    assert torch.equal(y, x[:33])
    assert torch.equal(stream_reference(x, rows), x[:33].double())
    assert y.is_contiguous()
    assert y.dtype == dtype


def test_the_extra_rows_are_really_copied_behind_the_result(device: str) -> None:
    x, rows = stream_inputs((32, 100), torch.float32, device, seed=2)
    y = stream(x, rows, 2)
    assert torch.equal(y.as_strided((34, 100), (100, 1)), x)


def test_each_call_has_memory_of_its_own(device: str) -> None:
    x, rows = stream_inputs((32, 100), torch.float32, device, seed=3)
    first, second = stream(x, rows, 1), stream(x, rows, 1)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()


@pytest.mark.parametrize(("rows", "columns"), [(0, 8), (8, 0)])
def test_nothing_gives_an_empty_result(rows: int, columns: int, device: str) -> None:
    assert stream(torch.ones(8, columns, device=device), rows).shape == (rows, columns)


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(8, 4, device=device)
    with pytest.raises(TypeError, match=r"stream: x is a list; accepted is a torch\.Tensor"):
        stream([1.0], 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"stream: x has shape \(32,\); accepted is \(rows, N\), contiguous"):
        stream(x.view(-1), 1)
    with pytest.raises(ValueError, match=r"stream: x has shape \(4, 8\); accepted is \(rows, N\), contiguous"):
        stream(x.t(), 1)
    with pytest.raises(ValueError, match="stream: rows is 9; accepted are 0 to 8, as x has 8 rows"):
        stream(x, 9)
    with pytest.raises(ValueError, match="stream: extra_rows is 3; accepted are 0 to 2, as x has 8 rows"):
        stream(x, 6, 3)
    with pytest.raises(NotImplementedError, match="stream: x requires grad"):
        stream(x.requires_grad_(), 1)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("rows", [16_384, 65_536])
def test_the_extra_rows_lengthen_the_whole_call_by_their_share(rows: int, share: float) -> None:
    x = torch.empty((rows + rows // 16, 4096), device="meta")
    fixed_rows = OVERHEAD_BYTES / (2 * 4096 * 4)
    assert extra_rows(x, rows, share) / (rows + fixed_rows) == pytest.approx(share, rel=0.01)


def test_no_more_rows_are_asked_for_than_there_are() -> None:
    assert extra_rows(torch.empty((5, 8), device="meta"), 4, 0.05) <= 1


def test_the_traffic_is_one_read_and_one_write_of_the_result() -> None:
    traffic = stream_traffic((16_384, 4096), itemsize=4)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (268_435_456, 268_435_456, 0)
