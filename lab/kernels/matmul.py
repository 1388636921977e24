"""Matrix product (prototype while launches are being tuned)."""

import triton
import triton.language as tl


@triton.jit
def place_tile(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles at a time, so that programs at work share what they read."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    within = tile % in_group
    return first + within % height, within // height


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, y_ptr, bias_ptr, M, N, K, a_row, a_k, b_k, b_column, depth,
    ACTIVATION: tl.constexpr, BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, SPLITS: tl.constexpr, WHOLE_K: tl.constexpr,
):  # fmt: skip
    """One tile of y a program, or with SPLITS its share of a tile's sum, in float32, to y as (SPLITS, M, N)."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    work = tl.program_id(0)
    tile, split = (work, 0) if SPLITS == 1 else (work // SPLITS, work % SPLITS)
    tile_m, tile_n = place_tile(tile, tiles_m, tiles_n, GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    start = split * depth
    end = tl.minimum(start + depth, K)
    # Rows beyond the last read a row that is there: what they give is not stored, and a mask would cost every load.
    safe_rows = tl.where(rows < M, rows, 0).to(tl.int64)
    safe_columns = tl.where(columns < N, columns, 0).to(tl.int64)
    a_ptrs = a_ptr + safe_rows[:, None] * a_row + (start + inner).to(tl.int64)[None, :] * a_k
    b_ptrs = b_ptr + (start + inner).to(tl.int64)[:, None] * b_k + safe_columns[None, :] * b_column
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(start, end, BLOCK_K):
        if WHOLE_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=(k + inner)[None, :] < end, other=0.0)
            b = tl.load(b_ptrs, mask=(k + inner)[:, None] < end, other=0.0)
        sums = tl.dot(a, b, sums)
        a_ptrs += BLOCK_K * a_k
        b_ptrs += BLOCK_K * b_k
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    place = rows.to(tl.int64)[:, None] * N + columns[None, :]
    if SPLITS == 1:
        if BIAS:
            sums += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        if ACTIVATION is not None:
            sums = ACTIVATION(sums)
        tl.store(y_ptr + place, sums.to(y_ptr.dtype.element_ty), mask=inside)
    else:
        tl.store(y_ptr + split.to(tl.int64) * M * N + place, sums, mask=inside)


@triton.jit
def _combine_kernel(
    part_ptr, y_ptr, bias_ptr, elements, N, between,
    ACTIVATION: tl.constexpr, BIAS: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of SPLITS shares, `between` elements apart, in their order; bias and activation after it."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < elements
    sums = tl.load(part_ptr + places, mask=inside, other=0.0)
    for split in tl.static_range(1, SPLITS):
        sums += tl.load(part_ptr + split * between + places, mask=inside, other=0.0)
    if BIAS:
        sums += tl.load(bias_ptr + places % N, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION is not None:
        sums = ACTIVATION(sums)
    tl.store(y_ptr + places, sums.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def ws_kernel(
    a, b, y_ptr, M, N, K,
    B_ACROSS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """Triton's own warp specialisation, to compare."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), warp_specialize=SPECIALIZE):
        tile_m, tile_n = place_tile(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            left = a.load([row, k])
            right = b.load([k, column]) if B_ACROSS else b.load([column, k]).T
            sums = tl.dot(left, right, sums)
        rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
        place = rows.to(tl.int64)[:, None] * N + columns[None, :]
        tl.store(y_ptr + place, sums.to(y_ptr.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])
