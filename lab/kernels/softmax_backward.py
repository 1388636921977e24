"""Gradient of softmax by rows: dx = y · (dy − Σ dy · y), from the result y of the forward pass and its gradient dy.

dy, y, dx: (…, N), float16, bfloat16 or float32. All arithmetic is in float32 and rounded once.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_adjacent, check_alike, check_rows, check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launches, as_rows, nothing, result_like
from lab.kernels.library import registered, row_result, traced
from lab.kernels.pieces import read_pieces, write_piece
from lab.kernels.rows import MAXIMUM_COLUMNS, norm_choices, row_launch, row_rule
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import lane_sums, read_tile, write_tile

WIDEST_REGISTER_ROW = 8192  # columns: of a wider row, which is two here, one tile in registers gained 4 % on an H200
WIDE_TILE_BYTES = 16_384


@triton.jit
def _softmax_backward_kernel(
    dy_ptr, y_ptr, dx_ptr, M, y_stride: tl.constexpr, dy_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns, so that y and dy are read once."""
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    y = read_pieces(y_ptr + rows * y_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    dy = read_pieces(dy_ptr + rows * dy_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
    products = tl.zeros((ROWS, BLOCK), tl.float32)
    for piece in tl.static_range(PIECES):
        products += y[piece].to(tl.float32) * dy[piece].to(tl.float32)
    total = tl.sum(products, axis=1, keep_dims=True)
    for piece in tl.static_range(PIECES):
        dx = y[piece].to(tl.float32) * (dy[piece].to(tl.float32) - total)
        write_piece(dx_ptr + rows * N, inside, piece * BLOCK, dx, N, BLOCK, PARTIAL)


@triton.jit
def _softmax_backward_wide_kernel(
    dy_ptr, y_ptr, dx_ptr, M, y_stride: tl.constexpr, dy_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice."""
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * y_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    y_ptr += row * y_stride
    dy_ptr += row * dy_stride
    dx_ptr += row * N
    tiles = ()
    lanes = tl.zeros((LANES,), tl.float32)
    for tile in tl.static_range(HELD):
        y_new = read_tile(y_ptr, tile * BLOCK, N, BLOCK, MASKED, "")
        dy_new = read_tile(dy_ptr, tile * BLOCK, N, BLOCK, MASKED, "")
        lanes += lane_sums(y_new.to(tl.float32) * dy_new.to(tl.float32), LANES)
        tiles = tiles + (y_new, dy_new)  # type: ignore[assignment]  # noqa: RUF005
    for start in range(HELD * BLOCK, N, BLOCK):
        y = read_tile(y_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        dy = read_tile(dy_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        lanes += lane_sums(y * dy, LANES)
    total = tl.sum(lanes, axis=0)
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    PASSING: tl.constexpr = N > HELD * BLOCK
    for back in range(0, N - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        y = read_tile(y_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        dy = read_tile(dy_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        write_tile(dx_ptr, LAST - back, y * (dy - total), N, BLOCK, MASKED, PASSING)
    for tile in tl.static_range(HELD):
        dx = tiles[2 * tile].to(tl.float32) * (tiles[2 * tile + 1].to(tl.float32) - total)
        write_tile(dx_ptr, tile * BLOCK, dx, N, BLOCK, MASKED, PASSING)  # type: ignore[unreachable]


def softmax_backward(dy: Tensor, y: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """dx, the gradient of x, for the result y of `softmax(x)` and its gradient dy, in one kernel launch.

    dy, y: (..., N) of one dtype, any distance between rows, N from 1 to 524,288. configuration: how to launch, one of
    `softmax_backward_choices`; if None, by rule: `lab tune` cannot tune it yet. Returns a new contiguous tensor of
    the shape and dtype of `y`. Zero rows give an empty result. Raises TypeError or ValueError naming the argument, what
    it was and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    if configuration is None and traced(y):
        dx: Tensor = _registered(dy, y)
        return dx
    return _softmax_backward(dy, y, configuration)


@registered("softmax_backward", lambda dy, y: row_result(y))
def _registered(dy: Tensor, y: Tensor) -> Tensor:
    return _softmax_backward(dy, y)


def _softmax_backward(dy: Tensor, y: Tensor, configuration: Configuration | None = None) -> Tensor:
    launch = _LAUNCHES(dy, y, options=(configuration,))
    dx = result_like(y)
    launch(as_rows(dy), as_rows(y), dx)
    return dx


def _prepare(dy: Tensor, y: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("softmax_backward", y, MAXIMUM_COLUMNS, "y")
    check_tensor("softmax_backward", "dy", dy)
    check_alike("softmax_backward", "dy", dy, "y", y)
    check_adjacent("softmax_backward", "dy", dy)
    if y.numel() == 0:
        return nothing
    rows = y.reshape(-1, y.shape[-1])
    chosen = configuration or SOFTMAX_BACKWARD_TUNING.choose(tuple(rows.shape), y)
    return row_launch(
        _softmax_backward_kernel, _softmax_backward_wide_kernel, rows, chosen, dy.reshape(-1, dy.shape[-1]).stride(0)
    )


_LAUNCHES = Launches(_prepare)


def softmax_backward_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """The rule of other rows. Of wider rows one tile stays in registers and the rest is read again."""
    _, N = shape
    if N <= WIDEST_REGISTER_ROW:
        return row_rule(shape, itemsize)
    return Configuration.of(HELD=1, BLOCK=WIDE_TILE_BYTES // itemsize, num_warps=16)


def softmax_backward_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    return iter(dict.fromkeys((softmax_backward_rule(shape, itemsize), *norm_choices(shape, itemsize))))


SOFTMAX_BACKWARD_TUNING = Tuning("softmax-backward", __name__, softmax_backward_rule, softmax_backward_choices)


def softmax_backward_reference(dy: Tensor, y: Tensor) -> Tensor:
    """The float64 result, on the device of `y`, by PyTorch's own derivative of softmax for the result `y`."""
    truth = y.double()
    dx: Tensor = torch.ops.aten._softmax_backward_data(dy.double(), truth, -1, torch.float64)
    return dx


def softmax_backward_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor]:
    """(dy, y): normal data, and the softmax of other normal data, for shape (M, N)."""
    generator = torch.Generator(device).manual_seed(seed)
    dy = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return dy, torch.randn(shape, dtype=dtype, device=device, generator=generator).softmax(-1)


def softmax_backward_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read dy and y once, write dx once; four operations an element."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=2 * size_bytes, written_bytes=size_bytes, flops=4 * math.prod(shape))
