"""Sum of two tensors and the RMSNorm of its rows in one kernel: s = x + r, y = s / sqrt(mean(s²) + eps) · w.

x, r: (…, N)   w: (N,)   y, s: (…, N), float16, bfloat16 or float32. s is rounded once to the dtype of x, and y is the
norm of the rounded s, as with two separate calls; the next layer's residual stream gets that s. All other arithmetic is
in float32, and y is rounded once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import (
    GradientNeeded,
    check_adjacent,
    check_alike,
    check_rows,
    check_tensor,
    check_vector,
    checked_eps,
)
from lab.kernels.cluster import cluster_choices, is_cluster, launchable
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launches, as_rows, nothing, result_like
from lab.kernels.library import Trainable, adjacent, registered, row_result, traced
from lab.kernels.norm_backward import add_rmsnorm_backward
from lab.kernels.norm_cluster import add_rmsnorm_cluster_launch, rmsnorm_cluster_rule
from lab.kernels.pieces import read_piece, read_pieces, write_piece
from lab.kernels.rows import MAXIMUM_COLUMNS, norm_choices, norm_rule, row_launch
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import lane_sums, opaque, read_tile, write_tile


@triton.jit
def _add_rmsnorm_kernel(
    x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, eps, M, x_stride: tl.constexpr, r_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns: every tensor is read or written once."""
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    w_ptrs = w_ptr + tl.zeros((ROWS, 1), tl.int32)  # one for each row, so that w gets the layout of x
    x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    r = read_pieces(r_ptr + rows * r_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    if not PACKED:
        w = read_pieces(w_ptrs, inside, N, PIECES, BLOCK, False, "")
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    s = ()
    for piece in tl.static_range(PIECES):
        rounded = (x[piece].to(tl.float32) + r[piece].to(tl.float32)).to(s_ptr.dtype.element_ty)
        write_piece(s_ptr + rows * N, inside, piece * BLOCK, rounded, N, BLOCK, PARTIAL)
        squares += rounded.to(tl.float32) * rounded.to(tl.float32)
        s = s + (rounded,)  # type: ignore[assignment]  # noqa: RUF005
    total = tl.sum(squares, axis=1, keep_dims=True)
    rstd = tl.rsqrt(total / N + eps)
    for piece in tl.static_range(PIECES):
        if PACKED:
            w_piece = read_piece(w_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
            s_piece = opaque(s[piece], total).to(tl.float32)
        else:
            w_piece = w[piece].to(tl.float32)
            s_piece = s[piece].to(tl.float32)
        write_piece(y_ptr + rows * N, inside, piece * BLOCK, s_piece * rstd * w_piece, N, BLOCK, PARTIAL)


@triton.jit
def _add_rmsnorm_wide_kernel(
    x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, eps, M, x_stride: tl.constexpr, r_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD of s stay in registers, the rest is read back."""
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    r_ptr += row * r_stride
    y_ptr += row * N
    s_ptr += row * N
    squares = tl.zeros((LANES,), tl.float32)
    tiles = ()
    for tile in tl.static_range(HELD):
        s_new = _sum_of_tiles(x_ptr, r_ptr, tile * BLOCK, s_ptr.dtype.element_ty, N, BLOCK, MASKED)
        squares += lane_sums(s_new.to(tl.float32) * s_new.to(tl.float32), LANES)
        tiles = tiles + (s_new,)  # type: ignore[assignment]  # noqa: RUF005
    for start in range(HELD * BLOCK, N, BLOCK):
        rounded = _sum_of_tiles(x_ptr, r_ptr, start, s_ptr.dtype.element_ty, N, BLOCK, MASKED)
        write_tile(s_ptr, start, rounded, N, BLOCK, MASKED)
        squares += lane_sums(rounded.to(tl.float32) * rounded.to(tl.float32), LANES)
    tl.debug_barrier()  # what is read back below may have been written by another thread
    total = tl.sum(squares, axis=0)
    rstd = tl.rsqrt(total / N + eps)
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    for back in range(0, N - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        s = read_tile(s_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        w = read_tile(w_ptr, LAST - back, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        write_tile(y_ptr, LAST - back, s * rstd * w, N, BLOCK, MASKED)
    for tile in tl.static_range(HELD):
        s_tile = opaque(tiles[tile], total)
        w_tile = read_tile(w_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        write_tile(s_ptr, tile * BLOCK, s_tile, N, BLOCK, MASKED)
        write_tile(y_ptr, tile * BLOCK, s_tile.to(tl.float32) * rstd * w_tile, N, BLOCK, MASKED)


@triton.jit
def _sum_of_tiles(x_ptr, r_ptr, start, dtype: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """x + r of one tile, rounded to `dtype`."""
    x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_first").to(tl.float32)
    r = read_tile(r_ptr, start, N, BLOCK, MASKED, "evict_first").to(tl.float32)
    return (x + r).to(dtype)


def add_rmsnorm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    """(y, s): s = x + residual, and the RMSNorm y of the rows of s, in one kernel launch.

    x, residual: (..., N) of one dtype, any distance between rows, N from 1 to 524,288. weight: (N,), contiguous, of any
    accepted dtype. configuration: how to launch, one of `add_rmsnorm_choices`; by default as tuned here, else by rule.
    Where the GPU or the alignment of the rows rules out clusters, the rule without them decides.
    Returns new contiguous tensors of the shape and dtype of `x`; the inputs stay as they were. Zero rows give empty
    results. Raises TypeError or ValueError naming the argument, what it was and what is accepted.
    Gradients of all three are those of `add_rmsnorm_backward`; NotImplementedError if one is needed and a configuration
    given.
    """
    if configuration is None and traced(x):
        both: tuple[Tensor, Tensor] = _registered(x, residual, weight, checked_eps("add_rmsnorm", eps))
        return both
    try:
        return _add_rmsnorm(x, residual, weight, eps, configuration)
    except GradientNeeded:
        both = _TRAINABLE(configuration, x, residual, weight, checked_eps("add_rmsnorm", eps))
        return both


def _add_rmsnorm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    launch = _LAUNCHES(x, residual, weight, options=(configuration,))
    y, s = result_like(x), result_like(x)
    launch(as_rows(x), as_rows(residual), weight, y, s, checked_eps("add_rmsnorm", eps))
    return y, s


@registered("add_rmsnorm", lambda x, residual, weight, eps: (row_result(x), row_result(x)))
def _registered(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return _add_rmsnorm(x, residual, weight, eps)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, weight, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight)


def _backward(ctx: Any, dy: Tensor, ds: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    s, weight = ctx.saved_tensors
    dx, dw = add_rmsnorm_backward(adjacent(dy), adjacent(ds), s, weight, ctx.eps)
    return dx, dx, dw, None


_TRAINABLE = Trainable(_registered, _add_rmsnorm, _save, _backward)


def _prepare(x: Tensor, residual: Tensor, weight: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("add_rmsnorm", x, MAXIMUM_COLUMNS)
    check_tensor("add_rmsnorm", "residual", residual)
    check_alike("add_rmsnorm", "residual", residual, "x", x)
    check_adjacent("add_rmsnorm", "residual", residual)
    check_vector("add_rmsnorm", "weight", weight, x)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    residual_rows = residual.reshape(-1, x.shape[-1])
    chosen = configuration or ADD_RMSNORM_TUNING.choose(rows.shape, x)
    chosen = launchable(chosen, norm_rule, rows, residual_rows)
    if is_cluster(chosen):
        return add_rmsnorm_cluster_launch(rows, residual_rows, chosen)
    return row_launch(_add_rmsnorm_kernel, _add_rmsnorm_wide_kernel, rows, chosen, residual_rows.stride(0))


_LAUNCHES = Launches(_prepare)


def add_rmsnorm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """Clusters of thread blocks by `rmsnorm_cluster_rule`; else as `norm_rule`."""
    return rmsnorm_cluster_rule(shape, itemsize) or norm_rule(shape, itemsize)


def add_rmsnorm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    rule, others = add_rmsnorm_rule(shape, itemsize), norm_choices(shape, itemsize)
    return iter(dict.fromkeys((rule, *others, *cluster_choices(shape[-1], itemsize))))


ADD_RMSNORM_TUNING = Tuning("add-rmsnorm", __name__, add_rmsnorm_rule, add_rmsnorm_choices)


def add_rmsnorm_reference(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """(y, s) in float64, on the device of `x`. s is rounded to the dtype of `x` first, since y is the norm of that."""
    s = (x.double() + residual.double()).to(x.dtype).double()
    return s * torch.rsqrt(s.square().mean(-1, keepdim=True) + eps) * weight.double(), s


def add_rmsnorm_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, residual, weight) of normal data for shape (M, N)."""
    M, N = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, N), dtype=dtype, device=device, generator=generator)
    residual = torch.randn((M, N), dtype=dtype, device=device, generator=generator)
    weight = 1 + 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    return x, residual, weight


def add_rmsnorm_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x, r and w once, write s and y once; five operations an element."""
    M, N = shape
    return Traffic(read_bytes=(2 * M * N + N) * itemsize, written_bytes=2 * M * N * itemsize, flops=5 * M * N)
