"""A copy of a tensor, y = x. Memory bandwidth limits it.

x: any shape and strides   y: the shape of x, contiguous; float16, bfloat16 or float32.
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
def _copy_kernel(x_ptr, y_ptr, elements, BLOCK: tl.constexpr):
    """BLOCK elements a program. Only the last program masks its loads: a mask makes them narrower."""
    wait_for_previous()
    start = tl.program_id(0).to(tl.int64) * BLOCK
    left = elements - start
    offsets = tl.arange(0, BLOCK)
    x_ptr += start + offsets
    y_ptr += start + offsets
    if left >= BLOCK:
        _copy_at(x_ptr, y_ptr, None)
    else:
        _copy_at(x_ptr, y_ptr, offsets < left)


@triton.jit
def _copy_strided_kernel(
    x_ptr, y_ptr, M, N, x_plane, x_row, x_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of ROWS × COLUMNS elements of one plane a program."""
    wait_for_previous()
    plane, rows, columns, inside = tile_of_planes(M, N, ROWS, COLUMNS)
    x_ptr += plane * x_plane + rows * x_row + columns * x_column
    y_ptr += plane * M * N + rows * N + columns
    _copy_at(x_ptr, y_ptr, inside)


@triton.jit
def _copy_at(x_ptr, y_ptr, mask):
    x = tl.load(x_ptr, mask=mask)
    tl.store(y_ptr, x, mask=mask)


def copy(x: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """A contiguous copy of `x`, in one kernel launch.

    x: float16, bfloat16 or float32, of any shape, with at most three axes left after axes that are adjacent in memory
    are merged. configuration: how to launch, one of `copy_choices`; by default as tuned here, else by rule. Returns a
    new contiguous tensor of its shape and dtype; no elements give an empty result. Raises TypeError or ValueError
    naming the argument, what it was and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    launch = _LAUNCHES(x, options=(configuration,))
    y = result_like(x)
    launch(x, y)
    return y


def _prepare(x: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_tensor("copy", "x", x)
    if x.numel() == 0:
        return nothing
    return elements_launch(COPY_TUNING, _copy_kernel, _copy_strided_kernel, {"x": x}, configuration)


_LAUNCHES = Launches(_prepare)


def copy_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try, for any shape."""
    return elements_choices(itemsize)


COPY_TUNING = Tuning("copy", __name__, run_rule, copy_choices, by_elements, form="")


def copy_reference(x: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x.double()


def copy_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def copy_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read each element once, write it once."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=size_bytes, written_bytes=size_bytes, flops=0)
