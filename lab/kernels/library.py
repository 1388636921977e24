"""Registers the operators as `torch.ops.kernel_evidence_lab`, for torch.compile, torch.export and meta tensors.

A call in eager mode goes straight to the kernel. A call that is traced, or whose tensors have no values, uses the
registered operator, which costs more but tells a compiler the shapes of the results without a launch. The operators
have no derivative: PyTorch raises an error if a backward pass reaches one.
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
    """A decorator that registers a function as the operator `name`. Its arguments are annotated tensors and numbers.

    fake: takes the same arguments and returns empty results, on any device. mutates: the arguments that the function
    writes to; such a function returns None.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator = torch.library.custom_op(f"{NAMESPACE}::{name}", function, mutates_args=tuple(mutates))
        operator.register_fake(fake)
        return operator

    return register


def traced(x: Any) -> bool:
    """Whether a call on `x` must use the registered operator: it is compiled or exported, or `x` has no values."""
    if is_compiling():
        return True
    kind = type(x)
    if kind is Tensor:
        return bool(x.is_meta)
    return isinstance(x, Tensor) and (x.is_meta or kind.__torch_dispatch__ is not Tensor.__torch_dispatch__)


def row_result(x: Tensor) -> Tensor:
    """The result of most operators without values: a new contiguous tensor of the shape, dtype and device of `x`."""
    return x.new_empty(x.shape)
