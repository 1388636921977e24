"""RMSNorm and LayerNorm of wide rows, each held by a cluster of thread blocks (cluster.py)."""

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.cluster import (
    FOUR_WARPS,
    MOST_CTAS,
    MOST_HELD,
    begin,
    cluster_launch,
    cluster_rule,
    clusters,
    first_columns,
    read_tile,
    read_tiles,
    receive,
    send,
    write_tile,
)
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launch
from lab.kernels.rows import LOAD_BYTES, WIDEST_REGISTER_ROW
from lab.kernels.wide_row import opaque

FEW_ROWS, MANY_ROWS = 32, 256
NARROW_BYTES = 14_336  # of the narrowest of few rows that a cluster holds
VERY_WIDE = 32_768  # columns
HELD_OF_FEW = {2: 12, 4: 8}  # elements of a thread, by element size: with more, the rule takes twice the blocks


@gluon.jit
def _rmsnorm_cluster_kernel(
    x_ptr, w_ptr, y_ptr, eps, x_stride: gl.constexpr,
    N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    LANES: gl.constexpr,
):  # fmt: skip
    """A row in TILES tiles, of which each thread block has BLOCK columns."""
    slots = begin()
    wait_for_previous()
    row = gl.program_id(0).to(gl.int64)
    columns = first_columns(CTAS, BLOCK, LAYOUT)
    x = read_tiles(x_ptr + row * x_stride, columns, TILES, N)
    squares = gl.zeros([CTAS, BLOCK], gl.float32, LAYOUT)
    for tile in gl.static_range(TILES):
        squares += x[tile].to(gl.float32) * x[tile].to(gl.float32)
    _scale(slots, squares, x, w_ptr, y_ptr + row * N, eps, columns, N, CTAS, TILES, LANES)


@gluon.jit
def _add_rmsnorm_cluster_kernel(
    x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, eps, x_stride: gl.constexpr, r_stride: gl.constexpr,
    N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    LANES: gl.constexpr,
):  # fmt: skip
    """As `_rmsnorm_cluster_kernel`, of s = x + r, which is written too."""
    slots = begin()
    wait_for_previous()
    row = gl.program_id(0).to(gl.int64)
    columns = first_columns(CTAS, BLOCK, LAYOUT)
    x = read_tiles(x_ptr + row * x_stride, columns, TILES, N)
    r = read_tiles(r_ptr + row * r_stride, columns, TILES, N)
    squares = gl.zeros([CTAS, BLOCK], gl.float32, LAYOUT)
    s = ()
    for tile in gl.static_range(TILES):
        rounded = (x[tile].to(gl.float32) + r[tile].to(gl.float32)).to(s_ptr.dtype.element_ty)
        write_tile(s_ptr + row * N, columns, tile, rounded, N)
        squares += rounded.to(gl.float32) * rounded.to(gl.float32)
        s = s + (rounded,)  # type: ignore[assignment]  # noqa: RUF005
    _scale(slots, squares, s, w_ptr, y_ptr + row * N, eps, columns, N, CTAS, TILES, LANES)


@gluon.jit
def _scale(
    slots, squares, x, w_ptr, y_ptr, eps, columns,
    N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, LANES: gl.constexpr,
):  # fmt: skip
    """Write x / sqrt(mean of the squares of all blocks + eps) · w. If x and w have 16 bits, w is read before the sums
    of the other blocks are known; else it would need too many registers."""
    AHEAD: gl.constexpr = (
        w_ptr.dtype.element_ty.primitive_bitwidth == 16 and y_ptr.dtype.element_ty.primitive_bitwidth == 16
    )
    part = gl.sum(squares, axis=1)
    send(slots, part, part)
    if AHEAD:
        w = read_tiles(w_ptr, columns, TILES, N)
    sums, _ = receive(slots, CTAS, LANES)
    total = gl.sum(sums, axis=0)
    rstd = gl.rsqrt(total / N + eps)
    for tile in gl.static_range(TILES):
        w_tile = w[tile] if AHEAD else read_tile(w_ptr, columns, tile, N)
        write_tile(y_ptr, columns, tile, opaque(x[tile], total).to(gl.float32) * rstd * w_tile.to(gl.float32), N)


@gluon.jit
def _layernorm_cluster_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, eps, x_stride: gl.constexpr,
    N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    LANES: gl.constexpr,
):  # fmt: skip
    """A row in TILES tiles, of which each thread block has BLOCK columns. A block sums the squares of distances from
    the mean of its own columns. Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
    Sample Variances", 1979, add those of several parts up."""
    slots = begin()
    wait_for_previous()
    row = gl.program_id(0).to(gl.int64)
    columns = first_columns(CTAS, BLOCK, LAYOUT)
    x = read_tiles(x_ptr + row * x_stride, columns, TILES, N)
    added = gl.zeros([CTAS, BLOCK], gl.float32, LAYOUT)
    for tile in gl.static_range(TILES):
        added += x[tile].to(gl.float32)
    part = gl.sum(added, axis=1)
    own_counts = _counts(gl.arange(0, CTAS, gl.SliceLayout(1, LAYOUT)), N, CTAS, TILES, BLOCK)
    own_mean = part / gl.maximum(own_counts, 1.0)
    squares = gl.zeros([CTAS, BLOCK], gl.float32, LAYOUT)
    for tile in gl.static_range(TILES):
        centred = x[tile].to(gl.float32) - own_mean[:, None]
        if (tile + 1) * CTAS * BLOCK > N:
            centred = gl.where(tile * CTAS * BLOCK + columns < N, centred, 0.0)
        squares += centred * centred
    send(slots, part, gl.sum(squares, axis=1))
    sums, spreads = receive(slots, CTAS, LANES)
    mean = gl.sum(sums, axis=0) / N
    counts = _counts(gl.arange(0, CTAS, LANES), N, CTAS, TILES, BLOCK)
    away = sums / gl.maximum(counts, 1.0) - mean
    total = gl.sum(spreads + counts * away * away, axis=0)
    rstd = gl.rsqrt(total / N + eps)
    for tile in gl.static_range(TILES):
        w = read_tile(w_ptr, columns, tile, N).to(gl.float32)
        b = read_tile(b_ptr, columns, tile, N).to(gl.float32)
        y = (opaque(x[tile], total).to(gl.float32) - mean) * rstd * w + b
        write_tile(y_ptr + row * N, columns, tile, y, N)


@gluon.jit
def _counts(part, N: gl.constexpr, CTAS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr):
    """How many columns each thread block has."""
    LAST: gl.constexpr = (TILES - 1) * CTAS * BLOCK
    in_last = gl.minimum(gl.maximum(N - LAST - part * BLOCK, 0), BLOCK)
    return ((TILES - 1) * BLOCK + in_last).to(gl.float32)


def rmsnorm_cluster_launch(x: Tensor, chosen: Configuration) -> Launch:
    """The launch on (x, w, y, eps) for the rows of `x`, (M, N): CTAS thread blocks for each row."""
    return cluster_launch(_rmsnorm_cluster_kernel, x, chosen, x_stride=x.stride(0))


def add_rmsnorm_cluster_launch(x: Tensor, residual: Tensor, chosen: Configuration) -> Launch:
    """The launch on (x, residual, w, y, s, eps), as `rmsnorm_cluster_launch`."""
    strides = {"x_stride": x.stride(0), "r_stride": residual.stride(0)}
    return cluster_launch(_add_rmsnorm_cluster_kernel, x, chosen, **strides)


def layernorm_cluster_launch(x: Tensor, chosen: Configuration) -> Launch:
    """The launch on (x, w, b, y, eps), as `rmsnorm_cluster_launch`."""
    return cluster_launch(_layernorm_cluster_kernel, x, chosen, x_stride=x.stride(0))


def few_wide_rows_rule(shape: tuple[int, ...], itemsize: int) -> Configuration | None:
    """For (M, N): clusters if the rows are so few that most multiprocessors have no work when one thread block holds
    each; else none.

    On an H100, in graphs, by clusters and without, in bfloat16: 16 rows of 8192 1.51 and 1.66 µs (LayerNorm 1.80 and
    2.22, with residual sum 1.53 and 1.98), 1 of 16,384 1.57 and 2.13. From 64 rows on a row in one block was up to 1.3
    times as fast, as a norm in one block needs fewer registers than softmax.
    """
    M, N = shape
    if M > FEW_ROWS or N * itemsize < NARROW_BYTES or N * itemsize % LOAD_BYTES:
        return None
    ctas = 4
    while ctas < MOST_CTAS and ctas * FOUR_WARPS * HELD_OF_FEW[itemsize] < N:
        ctas *= 2
    return clusters(ctas, 4 if ctas * FOUR_WARPS * MOST_HELD >= N else 8)


def rmsnorm_cluster_rule(shape: tuple[int, ...], itemsize: int) -> Configuration | None:
    """As `few_wide_rows_rule`, or clusters for the widest rows of 16 bits: one thread block holds 65,536 columns with
    32 warps, and reads the rest twice. 512 rows of 65,536 took 46.6 µs on an H100, without clusters 48.9; 48 to 256
    rows of 65,536 and 131,072 took 1.01 to 1.7 times less on an H200 (128 rows on an H100 0.95 to 1.07 times). In
    float32 clusters were slower on an H200."""
    M, N = shape
    widest = VERY_WIDE if M > MANY_ROWS else 2 * VERY_WIDE
    if M > FEW_ROWS and itemsize == 2 and widest <= N and N * itemsize % LOAD_BYTES == 0:
        return cluster_rule(shape, itemsize)
    return few_wide_rows_rule(shape, itemsize)


def layernorm_cluster_rule(shape: tuple[int, ...], itemsize: int) -> Configuration | None:
    """As `few_wide_rows_rule`, or clusters for many rows of 16,385 to 32,768 columns, which one thread block holds with
    32 warps: 1024 of 18,432 took 30 µs on an H100, without clusters 42. Wider rows were no faster."""
    M, N = shape
    if M > MANY_ROWS and WIDEST_REGISTER_ROW < N <= VERY_WIDE and N * itemsize % LOAD_BYTES == 0:
        return cluster_rule(shape, itemsize)
    return few_wide_rows_rule(shape, itemsize)
