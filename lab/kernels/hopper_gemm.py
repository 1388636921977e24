"""Matrix products by Hopper's own means: tensor memory copies, warpgroup products, and warps that each do one thing.

    y = epilogue(a @ b)        a: (M, K), b: (K, N), y: (M, N); either operand with any of its two axes adjacent

Written in Gluon, which comes with Triton, because there the warps' work can be divided by hand. A program has one warp
that only copies tiles to shared memory, and two groups of four warps that only multiply. Each group has rows of its
own, waits for a tile by itself and gives it back by itself, so that one of them writes its result while the other
still multiplies.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def _place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles at a time, so that programs at work share what they read."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = gl.minimum(tiles_m - first, GROUP)
    within = tile % in_group
    return first + within % height, within // height


@gluon.jit
def _copy_tiles(
    a, b, b2, a_tiles, b_tiles, ready, free, M, N, K, splits, depth,
    A_ACROSS: gl.constexpr, B_ACROSS: gl.constexpr, PAIRED: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    COLUMNS: gl.constexpr = BLOCK_N // 2 if PAIRED else BLOCK_N
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    stage = 0
    phase = 1
    for work in range(gl.program_id(0), tiles * splits, gl.num_programs(0)):
        tile_m, tile_n = _place(work % tiles, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * COLUMNS
        start = work // tiles * depth
        for k in range(start, gl.minimum(start + depth, K), BLOCK_K):
            mbarrier.wait(free.index(stage), phase)
            bar = ready.index(stage)
            a_tile, b_tile = a_tiles.index(stage), b_tiles.index(stage)
            mbarrier.expect(bar, (BLOCK_M + BLOCK_N) * BLOCK_K * a.dtype.primitive_bitwidth // 8)
            if A_ACROSS:
                tma.async_copy_global_to_shared(a, [k, row], bar, a_tile)
            else:
                tma.async_copy_global_to_shared(a, [row, k], bar, a_tile)
            if PAIRED:
                tma.async_copy_global_to_shared(b, [column, k], bar, b_tile.slice(0, COLUMNS))
                tma.async_copy_global_to_shared(b2, [column, k], bar, b_tile.slice(COLUMNS, COLUMNS))
            elif B_ACROSS:
                tma.async_copy_global_to_shared(b, [k, column], bar, b_tile)
            else:
                tma.async_copy_global_to_shared(b, [column, k], bar, b_tile)
            stage += 1
            wrapped = stage == STAGES
            stage = gl.where(wrapped, 0, stage)
            phase = gl.where(wrapped, phase ^ 1, phase)


@gluon.jit
def _finish(
    sums, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N, ACTIVATION: gl.constexpr,
    BIAS: gl.constexpr, ROW_SCALE: gl.constexpr, COLUMN_SCALE: gl.constexpr,
):  # fmt: skip
    """Scale, add, activate and write (rows, columns) of sums, by way of shared memory, at row `base + row` of y."""
    ROWS: gl.constexpr = sums.shape[0]
    COLUMNS: gl.constexpr = sums.shape[1]
    layout: gl.constexpr = sums.type.layout
    if ROW_SCALE:
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        sums = sums * gl.load(row_scale_ptr + rows, mask=rows < M, other=0.0)[:, None]
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    if COLUMN_SCALE:
        sums = sums * gl.load(column_scale_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if BIAS:
        sums = sums + gl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(gl.float32)[None, :]
    if ACTIVATION is not None:
        sums = ACTIVATION(sums)
    rounded = sums.to(y.dtype)
    tma.store_wait(0)
    y_tile.store(rounded)
    fence_async_shared()
    tma.async_copy_shared_to_global(y, [base + row, column], y_tile)


@gluon.jit
def _halves(sums, layout: gl.constexpr):
    """The left and the right columns of an accumulator, which lie in the same threads."""
    ROWS: gl.constexpr = sums.shape[0]
    COLUMNS: gl.constexpr = sums.shape[1] // 2
    left, right = sums.reshape([ROWS, 2, COLUMNS]).permute([0, 2, 1]).split()
    return gl.convert_layout(left, layout, assert_trivial=True), gl.convert_layout(right, layout, assert_trivial=True)


@gluon.jit
def _multiply(
    y, a_tiles, b_tiles, y_tiles, ready, free, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, splits, depth,
    WHICH: gl.constexpr, A_ACROSS: gl.constexpr, B_ACROSS: gl.constexpr, PAIRED: gl.constexpr,
    ACTIVATION: gl.constexpr, BIAS: gl.constexpr, ROW_SCALE: gl.constexpr, COLUMN_SCALE: gl.constexpr,
    PRECISE: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr, HALVED: gl.constexpr,
):  # fmt: skip
    """The group of warps number WHICH of two: its half of the rows of every tile of this program."""
    ROWS: gl.constexpr = BLOCK_M // 2
    COLUMNS: gl.constexpr = BLOCK_N // 2 if PAIRED else BLOCK_N
    DEPTH: gl.constexpr = 256 // a_tiles.dtype.primitive_bitwidth
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, DEPTH])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 2, DEPTH])
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    y_tile = y_tiles.index(WHICH)
    stage = 0
    phase = 0
    for work in range(gl.program_id(0), tiles * splits, gl.num_programs(0)):
        tile_m, tile_n = _place(work % tiles, tiles_m, tiles_n, GROUP)
        start = work // tiles * depth
        sums = gl.zeros([ROWS, BLOCK_N], gl.float32, layout)
        before = stage
        for k in range(start, gl.minimum(start + depth, K), BLOCK_K):
            mbarrier.wait(ready.index(stage), phase)
            if A_ACROSS:
                a_tile = a_tiles.index(stage).slice(WHICH * ROWS, ROWS, dim=1).permute([1, 0])
            else:
                a_tile = a_tiles.index(stage).slice(WHICH * ROWS, ROWS)
            b_tile = b_tiles.index(stage)
            if not B_ACROSS:
                b_tile = b_tile.permute([1, 0])
            if PRECISE:
                nothing = gl.zeros([ROWS, BLOCK_N], gl.float32, layout)
                part = warpgroup_mma(a_tile, b_tile, nothing, use_acc=False, is_async=True)
                part = warpgroup_mma_wait(0, (part,))
                mbarrier.arrive(free.index(stage), count=1)
                sums += part
            else:
                sums = warpgroup_mma(a_tile, b_tile, sums, use_acc=k > start, is_async=True)
                sums = warpgroup_mma_wait(1, (sums,))
                mbarrier.arrive(free.index(before), count=1, pred=k > start)
            before = stage
            stage += 1
            wrapped = stage == STAGES
            stage = gl.where(wrapped, 0, stage)
            phase = gl.where(wrapped, phase ^ 1, phase)
        if not PRECISE:
            sums = warpgroup_mma_wait(0, (sums,))
            mbarrier.arrive(free.index(before), count=1)
        row, column = tile_m * BLOCK_M + WHICH * ROWS, tile_n * COLUMNS
        base = work // tiles * tiles_m * BLOCK_M
        if PAIRED:
            gate, up = _halves(sums, half_layout)
            _finish(
                ACTIVATION(gate) * up, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                None, False, False, False,
            )  # fmt: skip
        elif HALVED:
            left, right = _halves(sums, half_layout)
            _finish(
                left, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE,
            )  # fmt: skip
            _finish(
                right, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column + BLOCK_N // 2, base, M, N,
                ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE,
            )  # fmt: skip
        else:
            _finish(
                sums, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE,
            )  # fmt: skip
    tma.store_wait(0)


@gluon.jit
def gemm_kernel(
    a, b, b2, y, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, splits, depth,
    A_ACROSS: gl.constexpr, B_ACROSS: gl.constexpr, PAIRED: gl.constexpr, ACTIVATION: gl.constexpr,
    BIAS: gl.constexpr, ROW_SCALE: gl.constexpr, COLUMN_SCALE: gl.constexpr, PRECISE: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
    HALVED: gl.constexpr,
):  # fmt: skip
    a_shape: gl.constexpr = [BLOCK_K, BLOCK_M] if A_ACROSS else [BLOCK_M, BLOCK_K]
    b_shape: gl.constexpr = [BLOCK_K, BLOCK_N] if B_ACROSS else [BLOCK_N, BLOCK_K]
    a_tiles = gl.allocate_shared_memory(a.dtype, [STAGES, a_shape[0], a_shape[1]], a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES, b_shape[0], b_shape[1]], b.layout)
    y_tiles = gl.allocate_shared_memory(y.dtype, [2] + y.block_type.shape, y.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_multiply, (
                y, a_tiles, b_tiles, y_tiles, ready, free, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, splits,
                depth, 0, A_ACROSS, B_ACROSS, PAIRED, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, PRECISE,
                BLOCK_M, BLOCK_N, BLOCK_K, GROUP, STAGES, HALVED,
            )),
            (_multiply, (
                y, a_tiles, b_tiles, y_tiles, ready, free, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, splits,
                depth, 1, A_ACROSS, B_ACROSS, PAIRED, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, PRECISE,
                BLOCK_M, BLOCK_N, BLOCK_K, GROUP, STAGES, HALVED,
            )),
            (_copy_tiles, (
                a, b, b2, a_tiles, b_tiles, ready, free, M, N, K, splits, depth,
                A_ACROSS, B_ACROSS, PAIRED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, STAGES,
            )),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
