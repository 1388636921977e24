"""Root-mean-square normalisation of rows, quantised to float8 with one scale for each row.

    y = x / sqrt(mean(x²) + eps) · w      scale = max(max |y| / L, 2^-126)      q = y / scale, rounded to the nearest

x: (…, N), w: (N,), float16, bfloat16 or float32. q: the shape of x, float8_e4m3fn (L = 448) or float8_e5m2
(L = 57,344). scale: (…, 1), float32. All arithmetic is in float32: y is not rounded before it is quantised, as it is if
one kernel writes the norm and another quantises it. A NaN or an infinity makes its own row NaN, and no other row.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_rows, check_vector, checked_eps
from lab.kernels.early import wait_for_previous
from lab.kernels.float8 import LARGEST, magnitude_bits, scale_of
from lab.kernels.fp8 import check_float8, quantize_fp8_reference, write_float8_piece, write_float8_tile
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing
from lab.kernels.library import registered, traced
from lab.kernels.pieces import read_piece, read_pieces
from lab.kernels.rmsnorm import rmsnorm_inputs, rmsnorm_reference
from lab.kernels.rows import (
    MAXIMUM_COLUMNS,
    TILE_BYTES,
    WIDEST_REGISTER_ROW,
    check_tiles,
    norm_choices,
    norm_rule,
    piece_constants,
    tiled_rule,
)
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import lane_maxima, lane_sums, opaque, read_tile, read_tiles


@triton.jit
def _rmsnorm_fp8_kernel(
    x_ptr, w_ptr, q_ptr, scale_ptr, eps, M, x_stride: tl.constexpr,
    N: tl.constexpr, LARGEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns, so that x is read once.

    The largest |x · w| is found before the norm is known, since the norm scales all elements of a row equally.
    """
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    w_ptrs = w_ptr + tl.zeros((ROWS, 1), tl.int32)  # one for each row, so that w gets the layout of x
    x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "evict_first")
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    magnitudes = tl.zeros((ROWS, BLOCK), tl.int32)
    products = ()
    for piece in tl.static_range(PIECES):
        x_piece = x[piece].to(tl.float32)
        product = x_piece * read_piece(w_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
        squares += x_piece * x_piece
        magnitudes = tl.maximum(magnitudes, magnitude_bits(product))
        if not PACKED:
            products = products + (product,)  # type: ignore[assignment]  # noqa: RUF005
    total = tl.sum(squares, axis=1, keep_dims=True)
    rstd = tl.rsqrt(total / N + eps)
    weighted = tl.max(magnitudes, axis=1, keep_dims=True).to(tl.float32, bitcast=True)
    scale = scale_of(magnitude_bits(weighted * rstd), LARGEST)
    tl.store(scale_ptr + rows, scale, mask=inside if PARTIAL else None)
    factor = tl.div_rn(1.0, scale)
    AT_ONCE: tl.constexpr = 128 // x_ptr.dtype.element_ty.primitive_bitwidth
    for piece in tl.static_range(PIECES):
        if PACKED:
            w_again = read_piece(w_ptrs, inside, piece * BLOCK, N, BLOCK, False, "").to(tl.float32)
            y = opaque(x[piece], total).to(tl.float32) * w_again
        else:
            y = products[piece]
        write_float8_piece(q_ptr + rows * N, inside, piece * BLOCK, y * rstd * factor, N, BLOCK, PARTIAL, AT_ONCE)


@triton.jit
def _rmsnorm_fp8_wide_kernel(
    x_ptr, w_ptr, q_ptr, scale_ptr, eps, columns, x_stride,
    N: tl.constexpr, LARGEST: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice.

    The largest |x · w| is found before the norm is known, since the norm scales all elements of a row equally. columns:
    N again, as in `_quantize_wide_kernel`.
    """
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    q_ptr += row * N
    tiles = read_tiles(x_ptr, N, HELD, BLOCK, MASKED)
    squares = tl.zeros((LANES,), tl.float32)
    largest = tl.zeros((LANES,), tl.int32)
    for tile in tl.static_range(HELD):
        x_tile = tiles[tile].to(tl.float32)
        w_tile = read_tile(w_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        squares += lane_sums(x_tile * x_tile, LANES)
        largest = tl.maximum(largest, lane_maxima(magnitude_bits(x_tile * w_tile), LANES))
    for start in range(HELD * BLOCK, columns, BLOCK):
        x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        w = read_tile(w_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        squares += lane_sums(x * x, LANES)
        largest = tl.maximum(largest, lane_maxima(magnitude_bits(x * w), LANES))
    total = tl.sum(squares, axis=0)
    rstd = tl.rsqrt(total / N + eps)
    weighted = tl.max(largest, axis=0).to(tl.float32, bitcast=True)
    scale = scale_of(magnitude_bits(weighted * rstd), LARGEST)
    tl.store(scale_ptr + row, scale)
    reciprocal = tl.div_rn(1.0, scale)
    AT_ONCE: tl.constexpr = BLOCK // LANES
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    for back in range(0, columns - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        x = read_tile(x_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        w = read_tile(w_ptr, LAST - back, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        write_float8_tile(q_ptr, LAST - back, x * w * rstd * reciprocal, N, BLOCK, AT_ONCE, MASKED)
    for tile in tl.static_range(HELD):
        w_again = read_tile(w_ptr, tile * BLOCK, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        y = opaque(tiles[tile], total).to(tl.float32) * w_again * rstd * reciprocal
        write_float8_tile(q_ptr, tile * BLOCK, y, N, BLOCK, AT_ONCE, MASKED)


def rmsnorm_fp8(
    x: Tensor,
    weight: Tensor,
    eps: float = 1e-6,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:
    """(q, scale) with RMSNorm(x) ≈ q · scale, in one kernel launch.

    x: (..., N), any distance between rows, N from 1 to 524,288. weight: (N,), contiguous, of any accepted dtype.
    dtype: torch.float8_e4m3fn or torch.float8_e5m2. configuration: how to launch, one of `rmsnorm_fp8_choices`; by
    default as tuned here, else by rule.
    Returns new contiguous tensors: q of the shape of x, and scale, float32, (..., 1). Zero rows give empty results.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    if configuration is None and traced(x):
        result: tuple[Tensor, Tensor] = _registered(x, weight, checked_eps("rmsnorm_fp8", eps), dtype)
        return result
    return _rmsnorm_fp8(x, weight, eps, dtype, configuration)


def _rmsnorm_fp8(
    x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    launch = _LAUNCHES(x, weight, options=(dtype, configuration))
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)
    launch(as_rows(x), weight, q, scale, checked_eps("rmsnorm_fp8", eps))
    return q, scale


def _empty(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape, dtype=dtype), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


@registered("rmsnorm_fp8", _empty)
def _registered(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return _rmsnorm_fp8(x, weight, eps, dtype)


def _prepare(x: Tensor, weight: Tensor, dtype: torch.dtype, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("rmsnorm_fp8", x, MAXIMUM_COLUMNS)
    check_vector("rmsnorm_fp8", "weight", weight, x)
    check_float8("rmsnorm_fp8", dtype)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    M, N = rows.shape
    chosen = configuration or RMSNORM_FP8_TUNING.choose((M, N), x)
    check_tiles(chosen, N)
    constants = dict(chosen.constants)
    how: dict[str, Any] = {
        "num_warps": chosen.num_warps,
        "num_stages": chosen.num_stages,
        "N": N,
        "LARGEST": LARGEST[dtype],
    }
    if "HELD" in constants:
        return Launch(
            _rmsnorm_fp8_wide_kernel, M, x.get_device(), N, rows.stride(0),
            early=True, **how, **constants, MASKED=N % constants["BLOCK"] != 0,
        )  # fmt: skip
    return Launch(
        _rmsnorm_fp8_kernel, triton.cdiv(M, constants["ROWS"]), x.get_device(), M, rows.stride(0),
        early=True, **how, **constants, **piece_constants(chosen, M, N, x.itemsize),
    )  # fmt: skip


_LAUNCHES = Launches(_prepare)


def rmsnorm_fp8_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """The rule of other norms for (M, N), but wide rows always have the larger tiles: with many small ones the compiler
    would load more of w ahead than there are registers for."""
    _, N = shape
    return norm_rule(shape, itemsize) if N <= WIDEST_REGISTER_ROW else tiled_rule(N, itemsize, 2 * TILE_BYTES)


def rmsnorm_fp8_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    return norm_choices(shape, itemsize)


RMSNORM_FP8_TUNING = Tuning("rmsnorm-fp8", __name__, rmsnorm_fp8_rule, rmsnorm_fp8_choices)


def rmsnorm_fp8_reference(
    x: Tensor, weight: Tensor, eps: float = 1e-6, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[Tensor, Tensor]:
    """(y / scale, scale) in float64, on the device of `x`: q before rounding, and its scale."""
    return quantize_fp8_reference(rmsnorm_reference(x, weight, eps), "row", dtype)


def rmsnorm_fp8_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight) of normal data for shape (M, N)."""
    return rmsnorm_inputs(shape, dtype, device, seed)


def rmsnorm_fp8_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x and w once, write a byte for each element and four for each row's scale.

    Eight operations an element: square, add and two products for the norm; magnitude, comparison, product, conversion.
    """
    M, N = shape
    return Traffic(read_bytes=(M * N + N) * itemsize, written_bytes=M * N + 4 * M, flops=8 * M * N)
