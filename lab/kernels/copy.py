"""A copy of a tensor, bound by memory: y = x.

x: any shape and strides   y: the shape of x, contiguous; float16, bfloat16 or float32. A contiguous tensor is copied
as one run of memory. Any other is taken as planes (P, M, N), which holds whatever has at most three axes that do not
lie behind one another in memory: rows of a wider buffer, a transposed matrix, heads of an attention tensor.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.traffic import Traffic

# One load of 16 bytes a thread: on an H100 as fast as any larger share, and ahead of it where the tensor is small.
RUN_BYTES = 2048
THREADS = 128
TILE = 1024  # elements of a strided tensor that one program copies
MOST_AXES = 3


@triton.jit
def _copy_kernel(x_ptr, y_ptr, elements, BLOCK: tl.constexpr):
    """BLOCK elements a program. Only the last one asks how many are left: a mask would narrow every load."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    left = elements - start
    offsets = tl.arange(0, BLOCK)
    x_ptr += start
    y_ptr += start
    if left >= BLOCK:
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        inside = offsets < left
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def _copy_strided_kernel(
    x_ptr, y_ptr, M, N, plane_stride, row_stride, column_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of ROWS × COLUMNS elements of one plane a program."""
    row_tiles, column_tiles = tl.cdiv(M, ROWS), tl.cdiv(N, COLUMNS)
    tile = tl.program_id(0).to(tl.int64)
    plane = tile // (row_tiles * column_tiles)
    rows = tile // column_tiles % row_tiles * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tile % column_tiles * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (rows < M) & (columns < N)
    x_ptr += plane * plane_stride
    y_ptr += plane * M * N
    x = tl.load(x_ptr + rows * row_stride + columns * column_stride, mask=inside)
    tl.store(y_ptr + rows * N + columns, x, mask=inside)


def copy(x: Tensor) -> Tensor:
    """A contiguous copy of `x`, in one kernel launch.

    x: float16, bfloat16 or float32, of any shape, with at most three axes that do not merge in memory. Returns a new
    contiguous tensor of its shape and dtype; no elements give an empty result. Raises TypeError or ValueError naming
    the argument, what it was and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    check_tensor("copy", "x", x)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    if x.is_contiguous():
        block = RUN_BYTES // x.itemsize
        _copy_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block, num_warps=THREADS // 32)
    else:
        _copy_strided(x, y)
    return y


def _copy_strided(x: Tensor, y: Tensor) -> None:
    axes = merged_axes(x)
    if len(axes) > MOST_AXES:
        raise ValueError(
            f"copy: x has shape {tuple(x.shape)} and strides {x.stride()}, which is {len(axes)} axes that do not lie "
            f"behind one another in memory; accepted are at most {MOST_AXES}: call .contiguous() first"
        )
    (planes, plane_stride), (M, row_stride), (N, column_stride) = [(1, 0)] * (MOST_AXES - len(axes)) + axes
    # Where columns are adjacent a tile is as wide as it can be; else square, so that loads can follow the rows.
    columns = min(TILE, triton.next_power_of_2(N)) if column_stride == 1 else 32
    rows = TILE // columns
    _copy_strided_kernel[(planes * triton.cdiv(M, rows) * triton.cdiv(N, columns),)](
        x, y, M, N, plane_stride, row_stride, column_stride, ROWS=rows, COLUMNS=columns, num_warps=THREADS // 32
    )


def merged_axes(x: Tensor) -> list[tuple[int, int]]:
    """(size, stride) of the axes of `x`, those that lie behind one another in memory taken together."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(x.shape, x.stride(), strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        else:
            axes.append((size, stride))
    return axes


def copy_reference(x: Tensor) -> Tensor:
    """The float64 truth, on the device of `x`."""
    return x.double()


def copy_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def copy_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read each element once, write it once."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=size_bytes, written_bytes=size_bytes, flops=0)
