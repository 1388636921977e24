"""The sum of two tensors, z = x + y. Memory bandwidth limits it.

x, y: one shape and dtype, any strides   z: the same shape, contiguous; float16, bfloat16 or float32. The sum is in
float32 and rounded once.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_alike, check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.elements import elements_choices, elements_launch, run_rule, tile_of_planes
from lab.kernels.launch import Configuration, Launches, nothing, result_like
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements


@triton.jit
def _add_kernel(x_ptr, y_ptr, z_ptr, elements, BLOCK: tl.constexpr):
    """BLOCK elements a program. Only the last program masks its loads: a mask makes them narrower."""
    wait_for_previous()
    start = tl.program_id(0).to(tl.int64) * BLOCK
    left = elements - start
    offsets = tl.arange(0, BLOCK)
    x_ptr += start + offsets
    y_ptr += start + offsets
    z_ptr += start + offsets
    if left >= BLOCK:
        _add_at(x_ptr, y_ptr, z_ptr, None)
    else:
        _add_at(x_ptr, y_ptr, z_ptr, offsets < left)


@triton.jit
def _add_strided_kernel(
    x_ptr, y_ptr, z_ptr, M, N, x_plane, x_row, x_column, y_plane, y_row, y_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of ROWS × COLUMNS elements of one plane a program."""
    wait_for_previous()
    plane, rows, columns, inside = tile_of_planes(M, N, ROWS, COLUMNS)
    x_ptr += plane * x_plane + rows * x_row + columns * x_column
    y_ptr += plane * y_plane + rows * y_row + columns * y_column
    z_ptr += plane * M * N + rows * N + columns
    _add_at(x_ptr, y_ptr, z_ptr, inside)


@triton.jit
def _add_at(x_ptr, y_ptr, z_ptr, mask):
    x = tl.load(x_ptr, mask=mask)
    y = tl.load(y_ptr, mask=mask)
    tl.store(z_ptr, (x.to(tl.float32) + y.to(tl.float32)).to(x.dtype), mask=mask)


def add(x: Tensor, y: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """`x` + `y`, in one kernel launch.

    x, y: float16, bfloat16 or float32, of the same shape, dtype and device, with at most three axes left after axes
    that are adjacent in the memory of both are merged. configuration: how to launch, one of `add_choices`; by default
    as tuned here, else by rule. Returns a new contiguous tensor of their shape and dtype; no elements give an empty
    result. Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    launch = _LAUNCHES(x, y, options=(configuration,))
    z = result_like(x)
    launch(x, y, z)
    return z


def _prepare(x: Tensor, y: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_tensor("add", "x", x)
    check_tensor("add", "y", y)
    check_alike("add", "y", y, "x", x)
    if x.numel() == 0:
        return nothing
    return elements_launch(ADD_TUNING, _add_kernel, _add_strided_kernel, {"x": x, "y": y}, configuration)


_LAUNCHES = Launches(_prepare)


def add_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try, for any shape."""
    return elements_choices(itemsize)


ADD_TUNING = Tuning("add", __name__, run_rule, add_choices, by_elements, form="")


def add_reference(x: Tensor, y: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x.double() + y.double()


def add_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """(x, y) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return x, torch.randn(shape, dtype=dtype, device=device, generator=generator)


def add_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read each element of x and y once, write each sum once."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=2 * size_bytes, written_bytes=size_bytes, flops=math.prod(shape))
