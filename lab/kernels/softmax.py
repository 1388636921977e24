"""Softmax of rows: y = exp(x − max(x)) / Σ exp(x − max(x)).

x, y: (…, N), float16, bfloat16 or float32. All arithmetic is in float32 and rounded once. A row in which all elements
are −inf has no maximum to subtract and gives NaN, as in PyTorch; so does a row with +inf or NaN.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import GradientNeeded, check_rows
from lab.kernels.cluster import FEW_ROWS, cluster_choices, cluster_rule, is_cluster, launchable
from lab.kernels.early import wait_for_previous
from lab.kernels.exponential import exponential
from lab.kernels.launch import Configuration, Launches, as_rows, nothing, result_like
from lab.kernels.library import Trainable, adjacent, registered, row_result, traced
from lab.kernels.pieces import read_pieces, write_piece
from lab.kernels.rows import (
    LOAD_BYTES,
    MAXIMUM_COLUMNS,
    TILE_BYTES,
    WIDEST_REGISTER_ROW,
    norm_choices,
    row_launch,
    row_rule,
    shifted_alike,
    shifted_choices,
    shifted_launch,
)
from lab.kernels.shifted import aligned_row, read_shifted, write_shifted
from lab.kernels.softmax_backward import softmax_backward
from lab.kernels.softmax_cluster import softmax_cluster_launch
from lab.kernels.softmax_split import split_launch
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import opaque, opaque_one, read_tile, read_tiles, write_tile

WIDE_TILE_BYTES = 65_536  # for the widest rows: one such tile in registers; several smaller ones need too many
PART_BYTES = 8192  # of a row that is divided among programs
DIVIDED_BYTES = 2048  # for each of the rows: a row that is divided has as many at least
FEW_LONG_ROWS = 64
NARROW_BYTES = 16_384  # of a row: up to here one program holds it as fast as a cluster
FEW_NARROW_BYTES = 8192  # the same, of few rows
LONG_BYTES = 262_144  # of a row, for each of the rows: with more, programs that divide the rows are faster
ONE_ROW_EACH = 132  # rows: as many as multiprocessors
MOST_DIVIDED_ROWS = 512  # with more, x does not stay in L2 from one launch to the next
WIDEST_SHARING_BYTES = {2: 212_992, 4: 131_072}  # by element size: of rows of which two a multiprocessor fit the cache


@triton.jit
def _softmax_kernel(
    x_ptr, y_ptr, M, x_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as PIECES of BLOCK columns, so that x is read once.

    x_stride is a constant because Triton checks other integers only for multiples of 16: with rows of 1000 columns, a
    load would then read one element.
    """
    wait_for_previous()
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "", float("-inf"))
    largest = x[0].to(tl.float32)
    for piece in tl.static_range(1, PIECES):
        largest = tl.maximum(largest, x[piece].to(tl.float32))
    top = tl.max(largest, axis=1, keep_dims=True)
    EXACT: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    powers = tl.zeros((ROWS, BLOCK), tl.float32)
    for piece in tl.static_range(PIECES):
        x_again = (opaque(x[piece], opaque_one(top)) if PACKED else x[piece]).to(tl.float32)
        powers += exponential(x_again - top, EXACT)
    total = tl.sum(powers, axis=1, keep_dims=True)
    scale = 1 / total
    for piece in tl.static_range(PIECES):
        x_piece = (opaque(x[piece], total) if PACKED else x[piece]).to(tl.float32)
        y = exponential(x_piece - top, EXACT) * scale
        write_piece(y_ptr + rows * N, inside, piece * BLOCK, y, N, BLOCK, PARTIAL)


@triton.jit
def _softmax_wide_kernel(
    x_ptr, y_ptr, M, x_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice.

    Each lane keeps its largest value so far and the sum relative to it (Milakov and Gimelshein, "Online normalizer
    calculation for softmax", 2018). A lane has the neighbouring columns that one thread loads together: this costs
    little more than one exponential a column, and no thread waits for another.
    """
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    EXACT: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * N
    tiles = read_tiles(x_ptr, N, HELD, BLOCK, MASKED, float("-inf"))
    largest = tl.full((LANES,), float("-inf"), tl.float32)
    total = tl.zeros((LANES,), tl.float32)
    for tile in tl.static_range(HELD):
        largest, total = _lanes_grown(largest, total, tiles[tile].to(tl.float32), LANES, EXACT)
    for start in range(HELD * BLOCK, N, BLOCK):
        x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last", float("-inf")).to(tl.float32)
        largest, total = _lanes_grown(largest, total, x, LANES, EXACT)
    top = tl.max(largest, axis=0)
    shares = tl.where(largest == float("-inf"), 0.0, exponential(largest - top, EXACT))
    sum_of_powers = tl.sum(total * shares, axis=0)
    scale = 1 / sum_of_powers
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    PASSING: tl.constexpr = N > HELD * BLOCK
    for back in range(0, N - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        x = read_tile(x_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        write_tile(y_ptr, LAST - back, exponential(x - top, EXACT) * scale, N, BLOCK, MASKED, PASSING)
    for tile in tl.static_range(HELD):
        x_tile = opaque(tiles[tile], sum_of_powers).to(tl.float32)
        write_tile(y_ptr, tile * BLOCK, exponential(x_tile - top, EXACT) * scale, N, BLOCK, MASKED, PASSING)


@triton.jit
def _softmax_shifted_kernel(
    x_ptr, y_ptr, M, x_stride: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """As `_softmax_wide_kernel`, for rows at any address; rows of x and y must have the same remainder to 16 bytes.

    TILES tiles are enough for a row with any shift. Only the first and those in which the row may end need a mask.
    """
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    EXACT: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    FULL: tl.constexpr = N // BLOCK
    row = tl.program_id(0).to(tl.int64)
    x_ptr, shift = aligned_row(x_ptr, row * x_stride)
    y_ptr, _ = aligned_row(y_ptr, row * N)
    largest = tl.full((LANES,), float("-inf"), tl.float32)
    total = tl.zeros((LANES,), tl.float32)
    tiles = ()
    for tile in tl.static_range(HELD):
        x_new = read_shifted(x_ptr, shift, tile * BLOCK, N, BLOCK, tile > 0 and tile < FULL, "", float("-inf"))
        tiles = tiles + (x_new,)  # type: ignore[assignment]  # noqa: RUF005
    for tile in tl.static_range(HELD):
        largest, total = _lanes_grown(largest, total, tiles[tile].to(tl.float32), LANES, EXACT)
    for start in range(HELD * BLOCK, FULL * BLOCK, BLOCK):
        x = read_shifted(x_ptr, shift, start, N, BLOCK, True, "evict_last", float("-inf")).to(tl.float32)
        largest, total = _lanes_grown(largest, total, x, LANES, EXACT)
    REST: tl.constexpr = FULL if FULL > HELD else HELD
    for tile in tl.static_range(REST, TILES):
        x_end = read_shifted(x_ptr, shift, tile * BLOCK, N, BLOCK, False, "", float("-inf")).to(tl.float32)
        largest, total = _lanes_grown(largest, total, x_end, LANES, EXACT)
    top = tl.max(largest, axis=0)
    shares = tl.where(largest == float("-inf"), 0.0, exponential(largest - top, EXACT))
    sum_of_powers = tl.sum(total * shares, axis=0)
    scale = 1 / sum_of_powers
    PASSING: tl.constexpr = TILES > HELD
    for tile in tl.static_range(REST, TILES):
        x_end = read_shifted(x_ptr, shift, tile * BLOCK, N, BLOCK, False, "", float("-inf")).to(tl.float32)
        y_end = exponential(x_end - top, EXACT) * scale
        write_shifted(y_ptr, shift, tile * BLOCK, y_end, N, BLOCK, False, PASSING)
    for back in range(0, (FULL - HELD) * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        start = (FULL - 1) * BLOCK - back
        x = read_shifted(x_ptr, shift, start, N, BLOCK, True, "evict_first", float("-inf")).to(tl.float32)
        write_shifted(y_ptr, shift, start, exponential(x - top, EXACT) * scale, N, BLOCK, True, PASSING)
    for tile in tl.static_range(HELD):
        x_tile = opaque(tiles[tile], sum_of_powers).to(tl.float32)
        y_tile = exponential(x_tile - top, EXACT) * scale
        write_shifted(y_ptr, shift, tile * BLOCK, y_tile, N, BLOCK, tile > 0 and tile < FULL, PASSING)


@triton.jit
def _lanes_grown(largest, total, x, LANES: tl.constexpr, EXACT: tl.constexpr):
    """(largest value, sum relative to it) of each lane after adding the columns of `x`."""
    x = tl.reshape(x, (LANES, x.shape[0] // LANES))
    higher = tl.maximum(largest, tl.max(x, axis=1))
    # If all values of a lane were −inf so far there is nothing to scale, and −inf − (−inf) would be NaN.
    anchor = tl.where(higher == float("-inf"), 0.0, higher)
    powers = exponential(x - anchor[:, None], EXACT)
    return higher, total * exponential(largest - anchor, EXACT) + tl.sum(powers, axis=1)


def softmax(x: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """Softmax over the last axis of `x`, in one kernel launch, or in two where few wide rows are divided.

    x: (..., N), any distance between rows, N from 1 to 524,288. configuration: how to launch, one of
    `softmax_choices`; by default as tuned here, else by rule. Where the GPU or the alignment of the rows rules out
    clusters, the rule without them decides. Returns a new contiguous tensor of the shape and dtype of `x`. Zero rows
    give an empty result. Raises TypeError or ValueError naming the argument, what it was and what is accepted. The
    gradient is that of `softmax_backward`; NotImplementedError if it is needed and a configuration given.
    """
    if configuration is None and traced(x):
        y: Tensor = _registered(x)
        return y
    try:
        return _softmax(x, configuration)
    except GradientNeeded:
        y = _TRAINABLE(configuration, x)
        return y


def _softmax(x: Tensor, configuration: Configuration | None = None) -> Tensor:
    launch = _LAUNCHES(x, options=(configuration,))
    y = result_like(x)
    launch(as_rows(x), y)
    return y


@registered("softmax", row_result)
def _registered(x: Tensor) -> Tensor:
    return _softmax(x)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _backward(ctx: Any, dy: Tensor) -> Tensor:
    return softmax_backward(adjacent(dy), *ctx.saved_tensors)


_TRAINABLE = Trainable(_registered, _softmax, _save, _backward)


def _prepare(x: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("softmax", x, MAXIMUM_COLUMNS)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    chosen = launchable(configuration or SOFTMAX_TUNING.choose(rows.shape, x), softmax_without_clusters, rows)
    if is_cluster(chosen):
        return softmax_cluster_launch(rows, chosen)
    if "PART" in dict(chosen.constants):
        return split_launch(rows, chosen)
    if "HELD" in dict(chosen.constants) and shifted_alike(x, rows.stride(0)):
        return shifted_launch(_softmax_shifted_kernel, rows, chosen)
    return row_launch(_softmax_kernel, _softmax_wide_kernel, rows, chosen)


_LAUNCHES = Launches(_prepare)


def softmax_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """A cluster of thread blocks holds each row, if it is wide and a multiple of 16 bytes long; else as
    `softmax_without_clusters`.

    On an H100, in graphs, by clusters and without: 1024 rows of 262,144 in float16 357 and 447 µs, 512 of 14,336 in
    bfloat16 9.0 and 11.4, 2048 of 16,640 in float32 92 and 117, 16 of 32,768 in bfloat16 2.3 and 3.1.
    """
    M, N = shape
    row_bytes = N * itemsize
    wide = row_bytes > (FEW_NARROW_BYTES if M <= FEW_ROWS else NARROW_BYTES)
    if wide and row_bytes % LOAD_BYTES == 0 and row_bytes <= M * LONG_BYTES:
        return cluster_rule(shape, itemsize)
    return softmax_without_clusters(shape, itemsize)


def softmax_without_clusters(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """The rule of other rows, and two for wider ones.

    Few rows are divided, if each is long enough for its parts to gain more than a second launch costs. Else one program
    reads a wide row twice: one tile stays in registers and the rest is read again. A small tile if the cache has room
    for two rows a multiprocessor, so that one program reads while another writes; else as much as fits into registers.
    Measured on an H200.
    """
    M, N = shape
    if N <= WIDEST_REGISTER_ROW:
        return row_rule(shape, itemsize)
    if M <= FEW_LONG_ROWS and N * itemsize >= M * DIVIDED_BYTES:
        return Configuration.of(PART=PART_BYTES // itemsize, num_warps=4)
    shared = N * itemsize <= WIDEST_SHARING_BYTES[itemsize]
    if itemsize == 4:
        return Configuration.of(
            HELD=1 if shared else 4, BLOCK=8192, num_warps=16 if shared and M > ONE_ROW_EACH else 32
        )
    if shared:
        return Configuration.of(HELD=1, BLOCK=TILE_BYTES // itemsize, num_warps=16)
    return Configuration.of(HELD=1, BLOCK=WIDE_TILE_BYTES // itemsize, num_warps=32)


def softmax_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    rule = softmax_rule(shape, itemsize)
    M, N = shape
    others = (*norm_choices(shape, itemsize), *shifted_choices(N, itemsize), *_part_choices(M, N))
    return iter(dict.fromkeys((rule, *others, *cluster_choices(N, itemsize))))


def _part_choices(M: int, N: int) -> Iterator[Configuration]:
    for part, num_warps in ((2048, 4), (4096, 4), (4096, 8), (8192, 8), (8192, 16), (16_384, 16)):
        if part < N and M <= MOST_DIVIDED_ROWS:
            yield Configuration.of(PART=part, num_warps=num_warps)


SOFTMAX_TUNING = Tuning("softmax", __name__, softmax_rule, softmax_choices)


def softmax_reference(x: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return torch.softmax(x.double(), dim=-1)


def softmax_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data for shape (M, N)."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def softmax_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read x once, write y once; an element counts as five operations."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=size_bytes, written_bytes=size_bytes, flops=5 * math.prod(shape))
