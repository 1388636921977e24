"""The operators as PyTorch knows them: `torch.ops.kernel_evidence_lab`, for torch.compile, export and meta tensors.

A call in eager mode goes straight to the kernel. One that is traced, or whose tensors hold no values, goes by way of
the library instead, which costs more and tells a compiler the shapes of the results without a launch. The operators
have no derivative: PyTorch says so where a backward pass meets one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

NAMESPACE = "kernel_evidence_lab"


def registered(
    name: str, fake: Callable[..., Any], mutates: Iterable[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that registers a function of tensors and plain values, all of them annotated, under that name.

    fake: answers the same arguments with empty results, on any device. mutates: the arguments that are written to; such
    a function returns None.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator = torch.library.custom_op(f"{NAMESPACE}::{name}", function, mutates_args=tuple(mutates))
        operator.register_fake(fake)
        return operator

    return register


def traced(x: Any) -> bool:
    """Whether a call on `x` is to go by way of the library: it is being compiled or exported, or `x` has no values."""
    if is_compiling():
        return True
    kind = type(x)
    if kind is Tensor:
        return bool(x.is_meta)
    return isinstance(x, Tensor) and (x.is_meta or kind.__torch_dispatch__ is not Tensor.__torch_dispatch__)


def row_result(x: Tensor) -> Tensor:
    """What most operators answer with: a new contiguous tensor of the shape, dtype and device of `x`."""
    return x.new_empty(x.shape)
