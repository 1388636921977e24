"""A copy has memory of its own and the layout of its original."""

import pytest
import torch
from torch import Tensor

from lab.worker.tensors import copied, same

WIDE = torch.arange(64.0).view(4, 16)


@pytest.mark.parametrize(
    "tensor",
    [WIDE, WIDE[:, :8], WIDE[:, ::2], WIDE.t(), WIDE.view(2, 2, 16).permute(2, 0, 1), WIDE[:0], WIDE[0, 0]],
    ids=["contiguous", "rows", "steps", "transposed", "permuted", "empty", "scalar"],
)
def test_a_copy_keeps_values_and_strides_in_memory_of_its_own(tensor: Tensor) -> None:
    copy = copied(tensor)
    assert torch.equal(copy, tensor)
    assert copy.stride() == tensor.stride()
    assert tensor.numel() == 0 or copy.data_ptr() != tensor.data_ptr()


def test_an_expanded_tensor_is_copied_in_full() -> None:
    copy = copied(torch.ones(1, 3).expand(4, 3))
    assert torch.equal(copy, torch.ones(4, 3))
    copy[0] = 2
    assert torch.equal(copy[1:], torch.ones(3, 3))


def test_tuples_are_copied_item_by_item_and_other_things_are_not() -> None:
    token = object()
    copy = copied((WIDE, (WIDE, 3), token))
    assert copy[1][0] is not WIDE
    assert (copy[1][1], copy[2]) == (3, token)


def test_nan_is_the_same_as_nan_and_nothing_else() -> None:
    nan = torch.tensor([1.0, float("nan")])
    assert same(nan, nan.clone())
    assert not same(nan, torch.ones(2))
    assert not same(nan, torch.tensor([2.0, float("nan")]))
    assert same(torch.arange(3), torch.arange(3))
    assert not same(torch.arange(3), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("strides", ["rows", "transposed"])
def test_float8_is_copied_and_the_same_in_every_bit(dtype: torch.dtype, strides: str) -> None:
    values = torch.tensor([[1.0, -2.5, float("nan"), 0.0], [0.125, 3.0, -0.0, 448.0]]).to(dtype)
    tensor = values[:, :3] if strides == "rows" else values.t()
    copy = copied(tensor)
    assert copy.stride() == tensor.stride()
    assert same(copy, tensor)
    copy[0, 0] = -1.0
    assert not same(copy, tensor)
    assert not same(values[1], values[1].float().abs().to(dtype)), "-0 is not 0"
