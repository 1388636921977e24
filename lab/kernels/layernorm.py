"""Layer normalisation of rows: y = (x − mean(x)) / sqrt(var(x) + eps) · w + b.

x: (…, N)   w: (N,)   b: (N,)   y: (…, N), float16, bfloat16 or float32. The variance is the biased one; all arithmetic
is in float32 and rounded once. Definition: Ba, Kiros and Hinton, "Layer Normalization", 2016.
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
from lab.kernels.norm_backward import layernorm_backward
from lab.kernels.norm_cluster import layernorm_cluster_launch, layernorm_cluster_rule
from lab.kernels.pieces import read_piece, read_pieces, within, write_piece
from lab.kernels.rows import MAXIMUM_COLUMNS, norm_choices, norm_rule, row_launch
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import lane_sums, opaque, opaque_one, read_tile, read_tiles, write_tile

MOST_LOADS = 8  # of 16 bytes that a thread has in flight


@triton.jit
def _layernorm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, eps, M, x_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns, so that x is read once."""
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    w_ptrs = w_ptr + tl.zeros((ROWS, 1), tl.int32)  # one for each row, so that w gets the layout of x
    b_ptrs = b_ptr + tl.zeros((ROWS, 1), tl.int32)
    x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    if not PACKED:
        w = read_pieces(w_ptrs, inside, N, PIECES, BLOCK, False, "")
        b = read_pieces(b_ptrs, inside, N, PIECES, BLOCK, False, "")
    sums = tl.zeros((ROWS, BLOCK), tl.float32)
    for piece in tl.static_range(PIECES):
        sums += x[piece].to(tl.float32)
    mean = tl.sum(sums, axis=1, keep_dims=True) / N
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for piece in tl.static_range(PIECES):
        # Set lanes beyond N to 0, or they would add to the variance.
        x_again = (opaque(x[piece], opaque_one(mean)) if PACKED else x[piece]).to(tl.float32)
        centred = within(x_again - mean, piece * BLOCK, N, BLOCK)
        squares += centred * centred
    total = tl.sum(squares, axis=1, keep_dims=True)
    rstd = tl.rsqrt(total / N + eps)
    for piece in tl.static_range(PIECES):
        if PACKED:
            w_piece = read_piece(w_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
            b_piece = read_piece(b_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
            x_piece = opaque(x[piece], total).to(tl.float32)
        else:
            w_piece = w[piece].to(tl.float32)
            b_piece = b[piece].to(tl.float32)
            x_piece = x[piece].to(tl.float32)
        y = (x_piece - mean) * rstd * w_piece + b_piece
        write_piece(y_ptr + rows * N, inside, piece * BLOCK, y, N, BLOCK, PARTIAL)


@triton.jit
def _layernorm_wide_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, eps, M, x_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice.

    The kernel sums distances from the mean of the first tile, and their squares, because E[x²] − E[x]² of x itself
    loses every digit if the mean is large. If d is the mean distance of the row, d² is at most N / BLOCK variances for
    any first tile, since its difference from the rest is variance too. So only a few digits are lost.
    """
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * N
    tiles = read_tiles(x_ptr, N, HELD, BLOCK, MASKED)
    origin = tl.sum(tiles[0].to(tl.float32), axis=0) / min(BLOCK, N)
    sums = tl.zeros((LANES,), tl.float32)
    squares = tl.zeros((LANES,), tl.float32)
    for tile in tl.static_range(HELD):
        x_tile = _from_origin(tiles[tile].to(tl.float32), origin, tile * BLOCK, N, BLOCK, MASKED)
        sums += lane_sums(x_tile, LANES)
        squares += lane_sums(x_tile * x_tile, LANES)
    for start in range(HELD * BLOCK, N, BLOCK):
        x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        x = _from_origin(x, origin, start, N, BLOCK, MASKED)
        sums += lane_sums(x, LANES)
        squares += lane_sums(x * x, LANES)
    distance = tl.sum(sums, axis=0) / N
    total = tl.sum(squares, axis=0)
    # Rounding can make a variance of zero negative.
    variance = tl.maximum(total / N - distance * distance, 0.0, propagate_nan=tl.PropagateNan.ALL)
    rstd = tl.rsqrt(variance + eps)
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    PASSING: tl.constexpr = N > HELD * BLOCK
    for back in range(0, N - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        x = read_tile(x_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        w = read_tile(w_ptr, LAST - back, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        b = read_tile(b_ptr, LAST - back, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        write_tile(y_ptr, LAST - back, (x - origin - distance) * rstd * w + b, N, BLOCK, MASKED, PASSING)
    for tile in tl.static_range(HELD):
        w_tile = read_tile(w_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        b_tile = read_tile(b_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        centred = opaque(tiles[tile], total).to(tl.float32) - origin - distance
        write_tile(y_ptr, tile * BLOCK, centred * rstd * w_tile + b_tile, N, BLOCK, MASKED, PASSING)


@triton.jit
def _from_origin(x, origin, start, N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Distances from `origin`, zero beyond N, so that those lanes do not add to the variance."""
    x -= origin
    if MASKED:
        x = tl.where(start + tl.arange(0, BLOCK) < N, x, 0.0)
    return x


def layernorm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, *, configuration: Configuration | None = None
) -> Tensor:
    """LayerNorm of the rows of `x`, in one kernel launch.

    x: (..., N), any distance between rows, N from 1 to 524,288. weight, bias: (N,), contiguous.
    configuration: how to launch, one of `layernorm_choices`; by default as tuned here, else by rule.
    Where the GPU or the alignment of the rows rules out clusters, the rule without them decides.
    Returns a new contiguous tensor of the shape and dtype of `x`. Zero rows give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted. Gradients
    of all three are those of `layernorm_backward`; NotImplementedError if one is needed and a configuration given.
    """
    if configuration is None and traced(x):
        y: Tensor = _registered(x, weight, bias, checked_eps("layernorm", eps))
        return y
    try:
        return _layernorm(x, weight, bias, eps, configuration)
    except GradientNeeded:
        y = _TRAINABLE(configuration, x, weight, bias, checked_eps("layernorm", eps))
        return y


def _layernorm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, configuration: Configuration | None = None
) -> Tensor:
    launch = _LAUNCHES(x, weight, bias, options=(configuration,))
    y = result_like(x)
    launch(as_rows(x), weight, bias, y, checked_eps("layernorm", eps))
    return y


@registered("layernorm", lambda x, weight, bias, eps: row_result(x))
def _registered(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _layernorm(x, weight, bias, eps)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.eps = inputs
    ctx.bias_dtype = bias.dtype
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    x, weight = ctx.saved_tensors
    dx, dw, db = layernorm_backward(adjacent(dy), x, weight, ctx.eps)
    return dx, dw, db.to(ctx.bias_dtype), None


_TRAINABLE = Trainable(_registered, _layernorm, _save, _backward)


def _prepare(x: Tensor, weight: Tensor, bias: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("layernorm", x, MAXIMUM_COLUMNS)
    check_vector("layernorm", "weight", weight, x)
    check_vector("layernorm", "bias", bias, x)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    chosen = launchable(configuration or LAYERNORM_TUNING.choose(rows.shape, x), layernorm_without_clusters, rows)
    if is_cluster(chosen):
        return layernorm_cluster_launch(rows, chosen)
    return row_launch(_layernorm_kernel, _layernorm_wide_kernel, rows, chosen)


_LAUNCHES = Launches(_prepare)


def layernorm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """Clusters of thread blocks by `layernorm_cluster_rule`; else as `layernorm_without_clusters`."""
    return layernorm_cluster_rule(shape, itemsize) or layernorm_without_clusters(shape, itemsize)


def layernorm_without_clusters(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """The rule of other norms, but with more loads a thread at most shapes. Two reductions and two vectors need more
    registers, so with more threads a row, fewer rows run at a time (1.7 times slower on an H200 at 14,336 columns; on
    an H100 1024 rows of 5120 in bfloat16 took 9.9 µs with three loads and 256 threads, 9.4 with five and 128)."""
    return norm_rule(shape, itemsize, most_loads=MOST_LOADS)


def layernorm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    rule, others = layernorm_rule(shape, itemsize), norm_choices(shape, itemsize)
    return iter(dict.fromkeys((rule, *others, *cluster_choices(shape[-1], itemsize))))


LAYERNORM_TUNING = Tuning("layernorm", __name__, layernorm_rule, layernorm_choices)


def layernorm_reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """The float64 result, on the device of `x`. Same shapes as `layernorm`; returns float64."""
    truth = x.to(torch.float64, copy=True)  # then in place, as in rmsnorm_reference
    truth.sub_(truth.mean(-1, keepdim=True))
    truth.mul_(torch.rsqrt(truth.square().mean(-1, keepdim=True) + eps))
    return truth.mul_(weight.double()).add_(bias.double())


def layernorm_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight, bias) of normal data for shape (M, N)."""
    M, N = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, N), dtype=dtype, device=device, generator=generator)
    weight = 1 + 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    bias = 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    return x, weight, bias


def layernorm_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x, w and b once, write y once; seven operations an element."""
    M, N = shape
    return Traffic(read_bytes=(M * N + 2 * N) * itemsize, written_bytes=M * N * itemsize, flops=7 * M * N)
