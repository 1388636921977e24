"""Root-mean-square normalisation of rows: y = x / sqrt(mean(x²) + eps) · w.

x: (…, N)   w: (N,)   y: (…, N), float16, bfloat16 or float32. All arithmetic is in float32 and rounded once.
Definition: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import GradientNeeded, check_rows, check_vector, checked_eps
from lab.kernels.cluster import cluster_choices, is_cluster, launchable
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launches, as_rows, nothing, result_like
from lab.kernels.library import Trainable, adjacent, registered, row_result, traced
from lab.kernels.norm_backward import rmsnorm_backward
from lab.kernels.norm_cluster import rmsnorm_cluster_launch, rmsnorm_cluster_rule
from lab.kernels.pieces import read_piece, read_pieces, write_piece
from lab.kernels.rows import (
    LOADS,
    MAXIMUM_COLUMNS,
    WIDEST_REGISTER_ROW,
    norm_choices,
    norm_rule,
    row_launch,
)
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import lane_sums, opaque, read_tile, read_tiles, write_tile

MANY_ROWS = 8192
LONG_ROW = 3072  # columns


@triton.jit
def _rmsnorm_kernel(
    x_ptr, w_ptr, y_ptr, eps, M, x_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns, so that x is read once."""
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    w_ptrs = w_ptr + tl.zeros((ROWS, 1), tl.int32)  # one for each row, so that w gets the layout of x
    x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    if not PACKED:
        w = read_pieces(w_ptrs, inside, N, PIECES, BLOCK, False, "")
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for piece in tl.static_range(PIECES):
        squares += x[piece].to(tl.float32) * x[piece].to(tl.float32)
    total = tl.sum(squares, axis=1, keep_dims=True)
    rstd = tl.rsqrt(total / N + eps)
    for piece in tl.static_range(PIECES):
        if PACKED:
            w_piece = read_piece(w_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
            x_piece = opaque(x[piece], total).to(tl.float32)
        else:
            w_piece = w[piece].to(tl.float32)
            x_piece = x[piece].to(tl.float32)
        write_piece(y_ptr + rows * N, inside, piece * BLOCK, x_piece * rstd * w_piece, N, BLOCK, PARTIAL)


@triton.jit
def _rmsnorm_wide_kernel(
    x_ptr, w_ptr, y_ptr, eps, M, x_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice."""
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * N
    tiles = read_tiles(x_ptr, N, HELD, BLOCK, MASKED)
    squares = tl.zeros((LANES,), tl.float32)
    for tile in tl.static_range(HELD):
        x_tile = tiles[tile].to(tl.float32)
        squares += lane_sums(x_tile * x_tile, LANES)
    for start in range(HELD * BLOCK, N, BLOCK):
        x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        squares += lane_sums(x * x, LANES)
    total = tl.sum(squares, axis=0)
    rstd = tl.rsqrt(total / N + eps)
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    PASSING: tl.constexpr = N > HELD * BLOCK
    for back in range(0, N - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        x = read_tile(x_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        w = read_tile(w_ptr, LAST - back, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        write_tile(y_ptr, LAST - back, x * rstd * w, N, BLOCK, MASKED, PASSING)
    for tile in tl.static_range(HELD):
        w_tile = read_tile(w_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        y_tile = opaque(tiles[tile], total).to(tl.float32) * rstd * w_tile
        write_tile(y_ptr, tile * BLOCK, y_tile, N, BLOCK, MASKED, PASSING)


def rmsnorm(x: Tensor, weight: Tensor, eps: float = 1e-6, *, configuration: Configuration | None = None) -> Tensor:
    """RMSNorm of the rows of `x`, in one kernel launch.

    x: (..., N), any distance between rows, N from 1 to 524,288. weight: (N,), contiguous, of any accepted dtype.
    configuration: how to launch, one of `rmsnorm_choices`; by default as tuned here, else by rule.
    Where the GPU or the alignment of the rows rules out clusters, the rule without them decides.
    Returns a new contiguous tensor of the shape and dtype of `x`. Zero rows give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted. Gradients
    of `x` and `weight` are those of `rmsnorm_backward`; NotImplementedError if one is needed and a configuration given.
    """
    if configuration is None and traced(x):
        y: Tensor = _registered(x, weight, checked_eps("rmsnorm", eps))
        return y
    try:
        return _rmsnorm(x, weight, eps, configuration)
    except GradientNeeded:
        y = _TRAINABLE(configuration, x, weight, checked_eps("rmsnorm", eps))
        return y


def _rmsnorm(x: Tensor, weight: Tensor, eps: float, configuration: Configuration | None = None) -> Tensor:
    launch = _LAUNCHES(x, weight, options=(configuration,))
    y = result_like(x)
    launch(as_rows(x), weight, y, checked_eps("rmsnorm", eps))
    return y


@registered("rmsnorm", lambda x, weight, eps: row_result(x))
def _registered(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return _rmsnorm(x, weight, eps)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None]:
    x, weight = ctx.saved_tensors
    return *rmsnorm_backward(adjacent(dy), x, weight, ctx.eps), None


_TRAINABLE = Trainable(_registered, _rmsnorm, _save, _backward)


def _prepare(x: Tensor, weight: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("rmsnorm", x, MAXIMUM_COLUMNS)
    check_vector("rmsnorm", "weight", weight, x)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    chosen = launchable(configuration or RMSNORM_TUNING.choose(rows.shape, x), rmsnorm_without_clusters, rows)
    if is_cluster(chosen):
        return rmsnorm_cluster_launch(rows, chosen)
    return row_launch(_rmsnorm_kernel, _rmsnorm_wide_kernel, rows, chosen)


_LAUNCHES = Launches(_prepare)


def rmsnorm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """Clusters of thread blocks by `rmsnorm_cluster_rule`; else as `rmsnorm_without_clusters`."""
    return rmsnorm_cluster_rule(shape, itemsize) or rmsnorm_without_clusters(shape, itemsize)


def rmsnorm_without_clusters(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """The rule of other norms; but of many long rows of 16 bits only a quarter to a half stays in registers.

    The rest is read again from the cache. More rows are then on the way to a multiprocessor at once: 1 to 2.5 % faster
    on an H200, with 3584 to 16,384 columns.
    """
    M, N = shape
    if M > MANY_ROWS and LONG_ROW < N <= WIDEST_REGISTER_ROW and itemsize == 2 and N % 8 == 0:
        threads = triton.next_power_of_2(triton.cdiv(N, 8 * LOADS))
        return Configuration.of(HELD=1, BLOCK=8 * threads, num_warps=threads // 32)
    return norm_rule(shape, itemsize)


def rmsnorm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    rule, others = rmsnorm_rule(shape, itemsize), norm_choices(shape, itemsize)
    return iter(dict.fromkeys((rule, *others, *cluster_choices(shape[-1], itemsize))))


RMSNORM_TUNING = Tuning("rmsnorm", __name__, rmsnorm_rule, rmsnorm_choices)


def rmsnorm_reference(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """The float64 result, on the device of `x`. Same shapes as `rmsnorm`; returns float64."""
    truth = x.to(torch.float64, copy=True)  # then in place: on a CPU, new memory costs more than the arithmetic
    return truth.mul_(torch.rsqrt(truth.square().mean(-1, keepdim=True) + eps)).mul_(weight.double())


def rmsnorm_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight) of normal data for shape (M, N)."""
    M, N = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, N), dtype=dtype, device=device, generator=generator)
    weight = 1 + 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    return x, weight


def rmsnorm_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x and w once, write y once; square, add and two products an element."""
    M, N = shape
    return Traffic(read_bytes=(M * N + N) * itemsize, written_bytes=M * N * itemsize, flops=4 * M * N)
