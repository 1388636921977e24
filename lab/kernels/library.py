"""Registers the operators as `torch.ops.kernel_evidence_lab`, for torch.compile, torch.export and meta tensors.

A call in eager mode goes straight to the kernel. A call that is traced, or whose tensors have no values, uses the
registered operator, which costs more but tells a compiler the shapes of the results without a launch.

An eager call whose gradient is needed is found by the check of the arguments, at no cost to other calls. It goes
through a plain `torch.autograd.Function`, which costs less than the registered operator. An operator without a backward
pass, such as a backward pass itself, raises an error if a gradient is needed.
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


class Trainable:
    """An operator with a backward pass. Called after its kernel has raised GradientNeeded, with the configuration that
    the caller gave and then the arguments of `function`, it gives results that autograd can follow.

    operator: the registered form of `function`, to which the backward pass is given too. save(ctx, inputs, output)
    keeps what backward(ctx, *gradients) needs, as `torch.library.register_autograd` describes them.
    """

    __slots__ = ("_apply",)

    def __init__(
        self, operator: Any, function: Callable[..., Any], save: Callable[..., None], backward: Callable[..., Any]
    ) -> None:
        operator.register_autograd(backward, setup_context=save)

        def forward(ctx: Any, *inputs: Any) -> Any:
            output = function(*inputs)
            save(ctx, inputs, output)
            return output

        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        trained: Any = type("Trained", (torch.autograd.Function,), members)
        self._apply = trained.apply

    def __call__(self, configuration: Any, *arguments: Any) -> Any:
        """NotImplementedError if a configuration is given: the backward pass is launched by a rule of its own."""
        if configuration is not None:
            raise NotImplementedError(
                "a tensor requires grad, and with a configuration the kernel has no backward; call it without one, or "
                "under torch.no_grad()"
            )
        return self._apply(*arguments)


def adjacent(gradient: Tensor) -> Tensor:
    """A gradient from autograd, in which one element may stand for many, with adjacent elements in its rows."""
    if not gradient.dim() or gradient.shape[-1] == 1 or gradient.stride(-1) == 1:
        return gradient
    return gradient.contiguous()


def row_result(x: Tensor) -> Tensor:
    """The result of most operators without values: a new contiguous tensor of the shape, dtype and device of `x`."""
    return x.new_empty(x.shape)
