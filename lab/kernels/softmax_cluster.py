"""Softmax of wide rows, each held by a cluster of thread blocks (cluster.py)."""

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.cluster import begin, cluster_launch, first_columns, read_tiles, receive, send, write_tile
from lab.kernels.early import wait_for_previous
from lab.kernels.exponential import exponential
from lab.kernels.launch import Configuration, Launch

BESIDES = {2: 16, 4: 32}  # registers of a thread, by element size, besides its elements


@gluon.jit
def _softmax_cluster_kernel(
    x_ptr, y_ptr, x_stride: gl.constexpr,
    N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    LANES: gl.constexpr,
):  # fmt: skip
    """A row in TILES tiles, of which each thread block has BLOCK columns. A block takes its powers relative to its
    own maximum, and scales them when it knows those of the others, so that they are computed once."""
    EXACT: gl.constexpr = x_ptr.dtype.element_ty == gl.float32
    slots = begin()
    wait_for_previous()
    row = gl.program_id(0).to(gl.int64)
    columns = first_columns(CTAS, BLOCK, LAYOUT)
    x = read_tiles(x_ptr + row * x_stride, columns, TILES, N, float("-inf"))
    largest = x[0].to(gl.float32)
    for tile in gl.static_range(1, TILES):
        largest = gl.maximum(largest, x[tile].to(gl.float32))
    top = gl.max(largest, axis=1)
    # If all values are −inf there is nothing to add, and −inf − (−inf) would be NaN.
    anchor = gl.where(top == float("-inf"), 0.0, top)[:, None]
    powers = ()
    summed = gl.zeros_like(largest)
    for tile in gl.static_range(TILES):
        power = exponential(x[tile].to(gl.float32) - anchor, EXACT)
        powers = powers + (power,)  # type: ignore[assignment]  # noqa: RUF005
        summed += power
    send(slots, top, gl.sum(summed, axis=1))
    tops, sums = receive(slots, CTAS, LANES)
    highest = gl.max(tops, axis=0)
    total = gl.sum(sums * _share(tops, highest, EXACT), axis=0)
    scale = (_share(top, highest, EXACT) / total)[:, None]
    for tile in gl.static_range(TILES):
        write_tile(y_ptr + row * N, columns, tile, powers[tile] * scale, N)


@gluon.jit
def _share(top, highest, EXACT: gl.constexpr):
    """What makes a sum relative to `top` one relative to `highest`; 0 if nothing was summed."""
    return gl.where(top == float("-inf"), 0.0, exponential(top - highest, EXACT))


def softmax_cluster_launch(x: Tensor, chosen: Configuration) -> Launch:
    """The launch on (x, y) for the rows of `x`, (M, N): CTAS thread blocks for each row."""
    return cluster_launch(_softmax_cluster_kernel, x, chosen, BESIDES[x.itemsize], x_stride=x.stride(0))
