"""Copies of tensors that keep their layout, and whether two hold the same."""

from typing import Any

import torch
from torch import Tensor

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def copied(value: Any) -> Any:
    """Copies of the tensors with the same strides. Other arguments are not copied."""
    if isinstance(value, tuple):
        return tuple(copied(item) for item in value)
    return _copy(value) if isinstance(value, Tensor) else value


def same(one: Tensor, other: Tensor) -> bool:
    """Equal in every value: NaN equals NaN. Of float8, in every bit."""
    if one.dtype in FLOAT8:
        one, other = raw(one), raw(other)
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def raw(tensor: Tensor) -> Tensor:
    """A view of float8 as bytes, which every function of torch takes; any other tensor as it is."""
    return tensor.view(torch.uint8) if tensor.dtype in FLOAT8 else tensor


def _copy(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.size(), strict=True)):
        return tensor.clone()  # elements that share their memory could not be written one by one
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)
