"""Checks of the arguments of kernels. Each raises an error that names the argument, its value and what is accepted."""

import math
import os

import torch
from torch import Tensor
from torch.autograd import forward_ad


class GradientNeeded(NotImplementedError):
    """A tensor requires grad and gradients are on, but the kernel that would be launched has no backward."""


FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def interpreting() -> bool:
    """Whether Triton runs kernels in its CPU interpreter (TRITON_INTERPRET=1)."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def runs_here(x: Tensor) -> bool:
    """Whether kernels run on the device of `x`. Modules use PyTorch's own operators on others."""
    return x.is_cuda or (x.is_cpu and interpreting())


def check_rows(op: str, x: Tensor, maximum_columns: int, name: str = "x") -> None:
    """Raise unless `x` is (..., columns) of floats on a GPU, with adjacent columns, at most `maximum_columns`."""
    check_tensor(op, name, x)
    if x.dim() < 1:
        raise ValueError(f"{op}: {name} has shape (); at least one dimension (..., columns) is needed")
    columns = x.shape[-1]
    if not 1 <= columns <= maximum_columns:
        raise ValueError(f"{op}: {name} has {columns} columns; accepted are 1 to {maximum_columns}")
    check_adjacent(op, name, x)


def check_adjacent(op: str, name: str, tensor: Tensor) -> None:
    """Raise unless the elements of the last dimension are adjacent in memory."""
    if tensor.dim() and tensor.numel() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(
            f"{op}: {name} has stride {tensor.stride(-1)} in its last dimension; accepted is 1 "
            "(rows may lie any distance apart): call .contiguous() first"
        )


def check_alike(op: str, name: str, tensor: Tensor, model_name: str, model: Tensor) -> None:
    """Raise unless `tensor` has the shape, dtype and device of `model`."""
    for what in ("shape", "dtype", "device"):
        mine, wanted = getattr(tensor, what), getattr(model, what)
        if mine != wanted:
            mine, wanted = (tuple(mine), tuple(wanted)) if what == "shape" else (mine, wanted)
            raise ValueError(f"{op}: {name} has {what} {mine}; accepted is that of {model_name}, {wanted}")


def check_vector(op: str, name: str, vector: Tensor, x: Tensor) -> None:
    """Raise unless `vector` is contiguous, of shape (columns of x,), on the device of `x`."""
    check_tensor(op, name, vector)
    if vector.shape != (x.shape[-1],):
        raise ValueError(
            f"{op}: {name} has shape {tuple(vector.shape)}; accepted is ({x.shape[-1]},), the columns of x"
        )
    if not vector.is_contiguous():
        raise ValueError(f"{op}: {name} has stride {vector.stride(0)}; accepted is 1 (contiguous)")
    if vector.device != x.device:
        raise ValueError(f"{op}: {name} is on {vector.device}; accepted is the device of x, {x.device}")


def check_tensor(op: str, name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}: {name} is a {type(tensor).__name__}; accepted is a torch.Tensor")
    if tensor.dtype not in FLOATS:
        accepted = ", ".join(str(dtype) for dtype in FLOATS)
        raise TypeError(f"{op}: {name} has dtype {tensor.dtype}; accepted are {accepted}")
    if not tensor.is_cuda and not (tensor.is_cpu and interpreting()):
        raise ValueError(
            f"{op}: {name} is on {tensor.device}; accepted is a CUDA device "
            "(or the CPU under TRITON_INTERPRET=1, set before Python starts)"
        )
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else tensor.layout
        raise ValueError(f"{op}: {name} has layout {layout}; accepted is torch.strided")
    check_sign(op, name, tensor)
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
        raise NotImplementedError(f"{op}: {name} has a tangent, and this kernel has no derivative; take its primal")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise GradientNeeded(
            f"{op}: {name} requires grad, and this kernel has no backward; "
            "call it under torch.no_grad() or detach the tensor"
        )


def check_sign(op: str, name: str, tensor: Tensor) -> None:
    """Raise if `tensor` is a view of the negative of its memory, as `z.conj().imag` is."""
    if tensor.is_neg():
        raise ValueError(
            f"{op}: {name} is a view of the negative of its memory; accepted are the numbers themselves: "
            "call .resolve_neg() first"
        )


def checked_eps(op: str, eps: float) -> float:
    """`eps` as a float: Triton would compile an integer into the kernel. Raise unless it is finite and at least 0.

    Called at every call of an operator. The other checks run once for each kind of tensors.
    """
    if not isinstance(eps, (float, int)):
        raise TypeError(f"{op}: eps is a {type(eps).__name__}; accepted is a float or an int")
    if not 0 <= eps < math.inf:
        raise ValueError(f"{op}: eps is {eps}; accepted are finite numbers from 0")
    return float(eps)
