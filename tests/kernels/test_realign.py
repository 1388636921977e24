import pytest
import torch
from torch import Tensor

from lab.kernels.realign import LINE_BYTES, realign


def odd(rows: int, columns: int, dtype: torch.dtype, device: str, *, across: bool) -> Tensor:
    """A matrix that begins between two lines, with rows or columns adjacent."""
    size = (columns, rows) if across else (rows, columns)
    matrix = torch.randn(size[0], size[1] + 3, device=device).to(dtype)[:, 1:-2]
    return matrix.t() if across else matrix


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 70, 200), (5, 130, 64)], ids=str)
def test_copies_are_equal_and_begin_with_lines(
    sizes: tuple[int, int, int], across: bool, dtype: torch.dtype, device: str
) -> None:
    M, N, K = sizes
    a, b = (odd(rows, K, dtype, device, across=across) for rows in (M, N))
    for copy, matrix in zip(realign(a, b)(a, b), (a, b), strict=True):
        assert torch.equal(copy, matrix)
        assert copy.stride(0) * copy.itemsize % LINE_BYTES == 0
        assert copy.stride(1) == 1


def test_one_of_two_may_stay_as_it_is(device: str) -> None:
    a, b = torch.randn(5, 7, device=device), torch.randn(9, 7, device=device)
    left, right = realign(None, b)(a, b)
    assert left is a
    assert torch.equal(right, b)
    left, right = realign(a, None)(a, b)
    assert torch.equal(left, a)
    assert right is b
