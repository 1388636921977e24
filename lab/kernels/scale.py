"""A tensor times a number, y = factor · x. Memory bandwidth limits it.

x: any shape and strides   y: the shape of x, contiguous; float16, bfloat16 or float32. The factor is converted to
float32; the product is in float32 and rounded once.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.elements import elements_choices, elements_launch, run_rule, tile_of_planes
from lab.kernels.launch import Configuration, Launches, nothing, result_like
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements


@triton.jit
def _scale_kernel(x_ptr, y_ptr, factor, elements, BLOCK: tl.constexpr):
    """BLOCK elements a program. Only the last program masks its loads: a mask makes them narrower."""
    wait_for_previous()
    start = tl.program_id(0).to(tl.int64) * BLOCK
    left = elements - start
    offsets = tl.arange(0, BLOCK)
    x_ptr += start + offsets
    y_ptr += start + offsets
    if left >= BLOCK:
        _scale_at(x_ptr, y_ptr, factor, None)
    else:
        _scale_at(x_ptr, y_ptr, factor, offsets < left)


@triton.jit
def _scale_strided_kernel(
    x_ptr, y_ptr, factor, M, N, x_plane, x_row, x_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of ROWS × COLUMNS elements of one plane a program."""
    wait_for_previous()
    plane, rows, columns, inside = tile_of_planes(M, N, ROWS, COLUMNS)
    x_ptr += plane * x_plane + rows * x_row + columns * x_column
    y_ptr += plane * M * N + rows * N + columns
    _scale_at(x_ptr, y_ptr, factor, inside)


@triton.jit
def _scale_at(x_ptr, y_ptr, factor, mask):
    x = tl.load(x_ptr, mask=mask)
    tl.store(y_ptr, (x.to(tl.float32) * factor).to(x.dtype), mask=mask)


def scale(x: Tensor, factor: float, *, configuration: Configuration | None = None) -> Tensor:
    """`x` times `factor`, in one kernel launch.

    x: float16, bfloat16 or float32, of any shape, with at most three axes left after axes that are adjacent in memory
    are merged. factor: a Python number. configuration: how to launch, one of `scale_choices`; by default as tuned here,
    else by rule. Returns a new contiguous tensor of the shape and dtype of `x`; no elements give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and NotImplementedError where
    a gradient would be needed.
    """
    launch = _LAUNCHES(x, options=(type(factor), configuration))
    y = result_like(x)
    launch(x, y, float(factor))
    return y


def _prepare(x: Tensor, number: type, configuration: Configuration | None) -> Callable[..., Any]:
    check_tensor("scale", "x", x)
    if not issubclass(number, (float, int)):
        raise TypeError(f"scale: factor is a {number.__name__}; accepted is a float or an int")
    if x.numel() == 0:
        return nothing
    return elements_launch(SCALE_TUNING, _scale_kernel, _scale_strided_kernel, {"x": x}, configuration)


_LAUNCHES = Launches(_prepare)


def scale_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try, for any shape."""
    return elements_choices(itemsize)


SCALE_TUNING = Tuning("scale", __name__, run_rule, scale_choices, by_elements, form="")


def scale_reference(x: Tensor, factor: float) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x.double() * torch.tensor(factor, dtype=torch.float32).item()


def scale_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, float]:
    """(x, factor): normal data and 1/3."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, dtype=dtype, device=device, generator=generator), 1 / 3


def scale_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read each element once, write its product once."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=size_bytes, written_bytes=size_bytes, flops=math.prod(shape))
