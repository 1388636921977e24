"""Matrix products on a Hopper GPU: tensor memory copies, warpgroup products, and separate warps for the two.

    y = epilogue(a @ b)        a: (M, K), b: (K, N), y: (M, N); in each operand either of the two axes is adjacent

Written in Gluon, which comes with Triton, because there one can assign work to warps. A program has two warps that only
copy tiles to shared memory, of one operand each, and two groups of four warps that only multiply. Each group has its
own rows of a tile. Or the groups take turns (CUTLASS calls this ping-pong): each has whole tiles, of half the size, and
one multiplies while the other writes its result. That is faster where tiles are short or numerous, because writing
takes longest there: on an H100, in float8 with scales of rows, 2048 × 18,944 × 3584 went from 0.942 of the speed of
torch._scaled_mm to 0.974, and in CUDA graphs from 0.949 to 0.978 (runs h100-matrix-2026-11-26 and h100-fp8-2026-11-26).
In trials at 34 other products it gained 1 to 6 % at some, and nothing at 8192³.

Tried on an H200 with Triton 3.6, at 8192³ in bfloat16, where cuBLAS took 1403 µs and this kernel 1373:
- plain Triton with descriptors, 8 warps that copy and multiply, tiles of 128 × 256 in 3 stages: 1440 µs;
- Triton's own warp specialisation (`tl.range(..., warp_specialize=True)` over tiles, 4 warps): it hung;
- four stages with y in two halves: 1409 µs; tiles of 256 × 128: 1406 µs; groups of 4, 8 or 16 rows: within 1 %.
Tiles have any multiple of 16 columns (any_columns.py), so that they can fill the last wave. The two programs of a
cluster can share tiles (multicast.py). How the kernel is launched, and where clusters pay: gemm_hopper_launch.py.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from lab.kernels.any_columns import only_columns
from lab.kernels.early import wait_for_previous
from lab.kernels.multicast import meet, next_copy_to_both

ROOM_COLUMNS = gl.constexpr(8)  # of b: shared memory is laid out in groups of so many
LINE_COLUMNS = gl.constexpr(64)  # of b in a line of shared memory, if columns are adjacent


@gluon.jit
def _place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles at a time, so that programs that run together read the same data."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = gl.minimum(tiles_m - first, GROUP)
    within = tile % in_group
    return first + within % height, within // height


@gluon.jit
def _begin(tile, SIZE: gl.constexpr, length):
    """The first row or column of a tile. The last tile begins before the end of the one before it, if it would reach
    beyond the last row: TMA takes long for rows that do not exist. Both write the same bits there."""
    return gl.minimum(tile * SIZE, gl.maximum(length - SIZE, 0))


@gluon.jit
def _begin_columns(tile, COLUMNS: gl.constexpr, N, COLUMNS_PER_SCALE: gl.constexpr):
    """As `_begin`, but where a scale is of a block of columns, a tile begins with such a block."""
    column = tile * COLUMNS
    if COLUMNS_PER_SCALE == 0:
        column = _begin(tile, COLUMNS, N)
    return column


@gluon.jit
def _before(stage, STAGES: gl.constexpr):
    """The stage before. Computed, because a variable for it would never change: if two variables have the same value
    before a loop, and the loop assigns one to the other, Triton takes the first for a constant."""
    return gl.where(stage == 0, STAGES - 1, stage - 1)


@gluon.jit
def _advance(stage, phase, STAGES: gl.constexpr):
    """(the next stage of the pipeline, its phase). The phase changes when the first stage follows the last."""
    stage += 1
    wrapped = stage == STAGES
    return gl.where(wrapped, 0, stage), gl.where(wrapped, phase ^ 1, phase)


@gluon.jit
def _pass_over(stage, phase, work, tiles, K, depth, BLOCK_K: gl.constexpr, STAGES: gl.constexpr):
    """(stage, phase) behind all steps of a tile that the other group of warps multiplies."""
    start = work // tiles * depth
    stage += gl.cdiv(gl.minimum(start + depth, K) - start, BLOCK_K)
    return stage % STAGES, phase ^ (stage // STAGES & 1)


@gluon.jit
def _copy_rows(
    a, a_tiles, ready, free, M, N, K, splits, depth,
    A_ACROSS: gl.constexpr, COLUMNS: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr, CLUSTER: gl.constexpr,
):  # fmt: skip
    """Copy the tiles of a for every step of every tile of y. If a has few rows, only these are copied: the others of
    the tile keep whatever is there, and their results are not stored."""
    meet(CLUSTER)
    wait_for_previous()
    ROWS: gl.constexpr = a.block_type.shape[1 if A_ACROSS else 0]
    rank = gl.program_id(0) % CLUSTER
    tiles_m, tiles_n = gl.cdiv(gl.cdiv(M, BLOCK_M), CLUSTER), gl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    stage = 0
    phase = 1
    for work in range(gl.program_id(0) // CLUSTER, tiles * splits, gl.num_programs(0) // CLUSTER):
        tile_m, _ = _place(work % tiles, tiles_m, tiles_n, GROUP)
        row = _begin(tile_m * CLUSTER + rank, BLOCK_M, M)
        start = work // tiles * depth
        for k in range(start, gl.minimum(start + depth, K), BLOCK_K):
            mbarrier.wait(free.index(stage), phase)
            bar = ready.index(stage)
            mbarrier.expect(bar, a.block_type.nbytes)
            if A_ACROSS:
                tma.async_copy_global_to_shared(a, [k, row], bar, a_tiles.index(stage))
            else:
                tma.async_copy_global_to_shared(a, [row, k], bar, a_tiles.index(stage).slice(0, ROWS))
            stage, phase = _advance(stage, phase, STAGES)


@gluon.constexpr_function
def _pieces(columns, piece):
    """How many pieces have so many columns."""
    return -(-columns // piece)


@gluon.constexpr_function
def _power_of_two(least):
    return triton.next_power_of_2(least)


@gluon.constexpr_function
def _largest_power_in(columns):
    """The largest power of two that divides them."""
    return columns & -columns


@gluon.jit
def _copy(b, column, k, bar, b_tiles, room, B_ACROSS: gl.constexpr):
    """Copy a block of b, (columns, K) or ACROSS (K, columns), to the rooms of b_tiles from `room` on."""
    place = b_tiles.index(room)._reinterpret(b.dtype, b.block_type.shape, b.layout)
    if B_ACROSS:
        tma.async_copy_global_to_shared(b, [k, column], bar, place)
    else:
        tma.async_copy_global_to_shared(b, [column, k], bar, place)


@gluon.jit
def _columns(b_tiles, room, first: gl.constexpr, COUNT: gl.constexpr, ROOMS: gl.constexpr, B_ACROSS: gl.constexpr):
    """(K, COUNT) of b from column `first` on, of the tile with ROOMS from `room` on. What lies behind the tile is not
    read, because products are of `only_columns`."""
    if B_ACROSS:
        WIDTH: gl.constexpr = _power_of_two(ROOMS * b_tiles.shape[2])
        tile = b_tiles.index(room)._reinterpret(b_tiles.dtype, [b_tiles.shape[1], WIDTH], b_tiles.layout)
        part = tile.slice(first, COUNT, dim=1)
    else:
        room += first // b_tiles.shape[1]
        tile = b_tiles.index(room)._reinterpret(b_tiles.dtype, [COUNT, b_tiles.shape[2]], b_tiles.layout)
        part = tile.permute([1, 0])
    return part


@gluon.jit
def _copy_columns(
    b, b2, b_more, b_tiles, ready, free, M, N, K, splits, depth,
    B_ACROSS: gl.constexpr, PAIRED: gl.constexpr, COLUMNS: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr,
    MORE_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
    B_AHEAD: gl.constexpr, COLUMNS_PER_SCALE: gl.constexpr, CLUSTER: gl.constexpr,
):  # fmt: skip
    """Copy the tiles of b, and of b2, for every step of every tile of y: BLOCK_N columns with one copy, the others in
    pieces. In a cluster, each program copies its part of each to all."""
    meet(CLUSTER)
    gl.static_assert(CLUSTER == 1 or not (PAIRED or B_ACROSS), "only b with adjacent k can be shared")
    PIECE: gl.constexpr = b_more.block_type.shape[1 if B_ACROSS else 0] * CLUSTER if MORE_N > 0 else 1
    PIECES: gl.constexpr = _pieces(MORE_N, PIECE)
    LINE: gl.constexpr = b.block_type.shape[0 if B_ACROSS else 1]  # of K in a copy
    LINES: gl.constexpr = BLOCK_K // LINE
    ROOMS: gl.constexpr = b_tiles.shape[0] // STAGES // LINES  # of columns in a line
    WIDE: gl.constexpr = b_tiles.shape[2 if B_ACROSS else 1]  # columns in a room
    PART: gl.constexpr = BLOCK_N // CLUSTER // WIDE  # rooms
    MORE_PART: gl.constexpr = PIECE // CLUSTER // WIDE
    if not B_AHEAD:
        wait_for_previous()
    rank = gl.program_id(0) % CLUSTER
    tiles_m, tiles_n = gl.cdiv(gl.cdiv(M, BLOCK_M), CLUSTER), gl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    stage = 0
    phase = 1
    for work in range(gl.program_id(0) // CLUSTER, tiles * splits, gl.num_programs(0) // CLUSTER):
        _, tile_n = _place(work % tiles, tiles_m, tiles_n, GROUP)
        column = _begin_columns(tile_n, COLUMNS, N, COLUMNS_PER_SCALE)
        start = work // tiles * depth
        for k in range(start, gl.minimum(start + depth, K), BLOCK_K):
            mbarrier.wait(free.index(stage), phase)
            bar = ready.index(stage)
            mbarrier.expect(bar, ROOMS * WIDE * BLOCK_K * b.dtype.primitive_bitwidth // 8)
            for line in gl.static_range(LINES):
                room = (stage * LINES + line) * ROOMS
                at = k + line * LINE
                if CLUSTER > 1:
                    next_copy_to_both()
                _copy(b, column + rank * PART * WIDE, at, bar, b_tiles, room + rank * PART, B_ACROSS)
                if PAIRED:
                    _copy(b2, column, at, bar, b_tiles, room + ROOMS // 2, B_ACROSS)
                for piece in gl.static_range(PIECES):
                    first = BLOCK_N + piece * PIECE
                    if CLUSTER > 1:
                        next_copy_to_both()
                    _copy(
                        b_more, column + first + rank * MORE_PART * WIDE, at, bar, b_tiles,
                        room + first // WIDE + rank * MORE_PART, B_ACROSS,
                    )  # fmt: skip
            stage, phase = _advance(stage, phase, STAGES)
    if CLUSTER > 1:  # the barriers of a program must stay until the others have arrived at them
        for _ in range(STAGES):
            mbarrier.wait(free.index(stage), phase)
            stage, phase = _advance(stage, phase, STAGES)


@gluon.jit
def _finish(
    sums, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N, row_scale_stride,
    column_scale_stride, ACTIVATION: gl.constexpr, BIAS: gl.constexpr, ROW_SCALE: gl.constexpr,
    COLUMN_SCALE: gl.constexpr, DIRECT: gl.constexpr, SHARING: gl.constexpr = True,
):  # fmt: skip
    """Scale, add the bias, activate, and write (rows, columns) of sums at row `base + row` of y: through shared memory,
    or with DIRECT from registers, where y is a pointer to rows that TMA cannot write. SHARING: the write
    before this may still read y_tile."""
    ROWS: gl.constexpr = sums.shape[0]
    COLUMNS: gl.constexpr = sums.shape[1]
    layout: gl.constexpr = sums.type.layout
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    if ROW_SCALE:
        sums = sums * gl.load(row_scale_ptr + rows * row_scale_stride, mask=rows < M, other=0.0)[:, None]
    if COLUMN_SCALE:
        sums = sums * gl.load(column_scale_ptr + columns * column_scale_stride, mask=columns < N, other=0.0)[None, :]
    if BIAS:
        sums = sums + gl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(gl.float32)[None, :]
    if ACTIVATION is not None:
        sums = ACTIVATION(sums)
    if DIRECT:
        places = (base + rows).to(gl.int64)[:, None] * N + columns[None, :]
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        gl.store(y + places, sums.to(y.dtype.element_ty), mask=inside)
    else:
        rounded = sums.to(y.dtype)
        if SHARING:
            tma.store_wait(0)
        y_tile.store(rounded)
        fence_async_shared()
        tma.async_copy_shared_to_global(y, [base + row, column], y_tile)


@gluon.jit
def _halves(sums):
    """(left columns, right columns) of an accumulator; both halves are in the same threads."""
    ROWS: gl.constexpr = sums.shape[0]
    COLUMNS: gl.constexpr = sums.shape[1] // 2
    whole: gl.constexpr = sums.type.layout
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, whole.instr_shape[2]])
    left, right = sums.reshape([ROWS, 2, COLUMNS]).permute([0, 2, 1]).split()
    return gl.convert_layout(left, layout, assert_trivial=True), gl.convert_layout(right, layout, assert_trivial=True)


@gluon.jit
def _part(sums, first: gl.constexpr, COUNT: gl.constexpr):
    """COUNT columns of an accumulator from `first` on."""
    if sums.shape[1] == COUNT:
        part = sums
    else:
        left, right = _halves(sums)
        HALF: gl.constexpr = left.shape[1]
        part = _part(left, first, COUNT) if first < HALF else _part(right, first - HALF, COUNT)
    return part


@gluon.jit
def _begin_step(
    a_tiles, b_tiles, ready, stage, phase, nothing, first_row: gl.constexpr, first_column: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Start the product of one step's tiles. Returns it with the next stage and phase."""
    mbarrier.wait(ready.index(stage), phase)
    a_tile = a_tiles.index(stage).slice(first_row, nothing.shape[0])
    ROOMS: gl.constexpr = b_tiles.shape[0] // STAGES
    b_tile = _columns(b_tiles, stage * ROOMS, first_column, nothing.shape[1], ROOMS, False)
    part = warpgroup_mma(a_tile, b_tile, nothing, use_acc=False, is_async=True)
    stage, phase = _advance(stage, phase, STAGES)
    return part, stage, phase


@gluon.jit
def _scales(row_scales, column_scales, group, row_inside, column_inside, ONE_SCALE: gl.constexpr):
    """(factors of rows, factors of columns) for a group of K; with ONE_SCALE all columns have the same factor."""
    rows = gl.load(row_scales + group, mask=row_inside, other=0.0)
    if ONE_SCALE:
        columns = gl.load(column_scales + group)
    else:
        columns = gl.load(column_scales + group, mask=column_inside, other=0.0)
    return rows, columns


@gluon.jit
def _added(sums, part, rows, columns, ONE_SCALE: gl.constexpr):
    if ONE_SCALE:
        sums += part * (rows * columns)[:, None]
    else:
        sums += part * rows[:, None] * columns[None, :]
    return sums


@gluon.jit
def _precise_sums(
    a_tiles, b_tiles, ready, free, stage, phase, row_scale_ptr, column_scale_ptr, row, column, start, end, M, N, K,
    row_scale_stride, column_scale_stride, nothing, first_row: gl.constexpr, first_column: gl.constexpr,
    COLUMNS_PER_SCALE: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The sums of the matrix unit over each BLOCK_K from `start` to `end`, scaled and added up by the ordinary units.

    Each iteration has two steps: the first is added while the second is multiplied. No product runs from one iteration
    into the next, because the assembler would then wait for each product separately (its remark C7514). On an H100, in
    blocks at 4096³: 121 µs, with one step an iteration 144 µs, without the scales 104 µs.
    """
    ROWS: gl.constexpr = nothing.shape[0]
    WIDTH: gl.constexpr = nothing.shape[1]
    layout: gl.constexpr = nothing.type.layout
    SCALED: gl.constexpr = COLUMNS_PER_SCALE > 0
    ONE_SCALE: gl.constexpr = COLUMNS_PER_SCALE >= WIDTH and COLUMNS_PER_SCALE % WIDTH == 0
    sums = nothing
    steps = gl.cdiv(end - start, BLOCK_K)
    group = start // BLOCK_K
    if SCALED:
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        columns = column + gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
        row_inside = rows < M
        column_inside = columns < N
        row_scales = row_scale_ptr + rows * row_scale_stride
        if ONE_SCALE:
            column_scales = column_scale_ptr + gl.minimum(column, N - 1) // COLUMNS_PER_SCALE * column_scale_stride
        else:
            column_scales = column_scale_ptr + columns // COLUMNS_PER_SCALE * column_scale_stride
    for _ in range(steps // 2):
        if SCALED:
            row_1, column_1 = _scales(row_scales, column_scales, group, row_inside, column_inside, ONE_SCALE)
        part_1, stage, phase = _begin_step(
            a_tiles, b_tiles, ready, stage, phase, nothing, first_row, first_column, STAGES
        )
        if SCALED:
            row_2, column_2 = _scales(row_scales, column_scales, group + 1, row_inside, column_inside, ONE_SCALE)
        part_2, stage, phase = _begin_step(
            a_tiles, b_tiles, ready, stage, phase, nothing, first_row, first_column, STAGES
        )
        sum_1, part_2 = warpgroup_mma_wait(1, (part_1, part_2))
        mbarrier.arrive(free.index(_before(_before(stage, STAGES), STAGES)), count=1)
        if SCALED:
            sums = _added(sums, sum_1, row_1, column_1, ONE_SCALE)
        else:
            sums += sum_1
        sum_2 = warpgroup_mma_wait(0, (part_2,))
        mbarrier.arrive(free.index(_before(stage, STAGES)), count=1)
        if SCALED:
            sums = _added(sums, sum_2, row_2, column_2, ONE_SCALE)
        else:
            sums += sum_2
        group += 2
    for _ in range(steps % 2):
        if SCALED:
            row_1, column_1 = _scales(row_scales, column_scales, group, row_inside, column_inside, ONE_SCALE)
        part, stage, phase = _begin_step(
            a_tiles, b_tiles, ready, stage, phase, nothing, first_row, first_column, STAGES
        )
        sum_last = warpgroup_mma_wait(0, (part,))
        mbarrier.arrive(free.index(_before(stage, STAGES)), count=1)
        if SCALED:
            sums = _added(sums, sum_last, row_1, column_1, ONE_SCALE)
        else:
            sums += sum_last
    return sums, stage, phase


@gluon.jit
def _multiply(
    y, y_more, a_tiles, b_tiles, y_tiles, y_more_tiles, ready, free, turn, bias_ptr, row_scale_ptr,
    column_scale_ptr, M, N, K, splits, depth, row_scale_stride, column_scale_stride,
    WHICH: gl.constexpr, A_ACROSS: gl.constexpr, B_ACROSS: gl.constexpr, PAIRED: gl.constexpr,
    ACTIVATION: gl.constexpr, BIAS: gl.constexpr, ROW_SCALE: gl.constexpr, COLUMN_SCALE: gl.constexpr,
    PRECISE: gl.constexpr, COLUMNS_PER_SCALE: gl.constexpr, DIRECT: gl.constexpr, HALVED: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, MORE_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr, CLUSTER: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """The group of warps WHICH, 0 or 1: its half of the rows of every tile of this program, or of the columns if a tile
    has 64 rows. With TURNS it has every second tile, all of it: one group multiplies while the other writes."""
    meet(CLUSTER)
    wait_for_previous()
    ACROSS: gl.constexpr = BLOCK_M == 64 and not TURNS
    ROWS: gl.constexpr = BLOCK_M if ACROSS or TURNS else BLOCK_M // 2
    COLUMNS: gl.constexpr = BLOCK_N // 2 if PAIRED else BLOCK_N + MORE_N
    FIRST: gl.constexpr = BLOCK_N // 2 if ACROSS else BLOCK_N  # columns that are written at once, and the others
    MORE: gl.constexpr = MORE_N // 2 if ACROSS else MORE_N
    WIDTH: gl.constexpr = _power_of_two(FIRST + MORE)
    DEPTH: gl.constexpr = 256 // a_tiles.dtype.primitive_bitwidth
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, DEPTH])
    first_row: gl.constexpr = 0 if ACROSS or TURNS else WHICH * ROWS
    first_column: gl.constexpr = WHICH * (FIRST + MORE) if ACROSS else 0
    LINE: gl.constexpr = BLOCK_K if B_ACROSS else b_tiles.shape[2]
    LINES: gl.constexpr = BLOCK_K // LINE
    ROOMS: gl.constexpr = b_tiles.shape[0] // STAGES // LINES
    if MORE > 0:
        PIECE: gl.constexpr = _largest_power_in(MORE)  # of the others that are written at once
        PIECES: gl.constexpr = MORE // PIECE
        only_columns(FIRST + MORE, WIDTH)
    rank = gl.program_id(0) % CLUSTER
    tiles_m, tiles_n = gl.cdiv(gl.cdiv(M, BLOCK_M), CLUSTER), gl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    y_tile = y_tiles.index(WHICH)
    stage = 0
    phase = 0
    first = gl.program_id(0) // CLUSTER
    apart = gl.num_programs(0) // CLUSTER
    other = 1 - WHICH
    turn_phase = other  # the first group need not wait for the first tile
    if TURNS:
        if WHICH == 1:
            stage, phase = _pass_over(stage, phase, first, tiles, K, depth, BLOCK_K, STAGES)
            first += apart
        apart *= 2
    for work in range(first, tiles * splits, apart):
        tile_m, tile_n = _place(work % tiles, tiles_m, tiles_n, GROUP)
        tile_row = _begin(tile_m * CLUSTER + rank, BLOCK_M, M)
        tile_column = _begin_columns(tile_n, COLUMNS, N, COLUMNS_PER_SCALE)
        row, column = tile_row + first_row, tile_column + first_column
        start = work // tiles * depth
        end = gl.minimum(start + depth, K)
        sums = gl.zeros([ROWS, WIDTH], gl.float32, layout)
        if TURNS:
            # A wait for a stage ends at the next change of its phase, so a group may not wait for a later one.
            mbarrier.wait(turn.index(WHICH), turn_phase)
            turn_phase ^= 1
        if PRECISE:
            sums, stage, phase = _precise_sums(
                a_tiles, b_tiles, ready, free, stage, phase, row_scale_ptr, column_scale_ptr, row, column, start, end,
                M, N, K, row_scale_stride, column_scale_stride, sums, first_row, first_column,
                COLUMNS_PER_SCALE, BLOCK_K, STAGES,
            )  # fmt: skip
        else:
            for k in range(start, end, BLOCK_K):
                mbarrier.wait(ready.index(stage), phase)
                for line in gl.static_range(LINES):
                    if A_ACROSS:
                        a_line = a_tiles.index(stage).slice(line * LINE, LINE, dim=0)
                        a_tile = a_line.slice(first_row, ROWS, dim=1).permute([1, 0])
                    else:
                        a_line = a_tiles.index(stage).slice(line * LINE, LINE, dim=1)
                        a_tile = a_line.slice(first_row, ROWS)
                    room = (stage * LINES + line) * ROOMS
                    b_tile = _columns(b_tiles, room, first_column, WIDTH, ROOMS, B_ACROSS)
                    sums = warpgroup_mma(a_tile, b_tile, sums, use_acc=k + line > start, is_async=True)
                sums = warpgroup_mma_wait(LINES, (sums,))
                mbarrier.arrive(free.index(_before(stage, STAGES)), count=1, pred=k > start)
                stage, phase = _advance(stage, phase, STAGES)
            if TURNS:
                mbarrier.arrive(turn.index(other), count=1)
            sums = warpgroup_mma_wait(0, (sums,))
            mbarrier.arrive(free.index(_before(stage, STAGES)), count=1)
        if TURNS:
            stage, phase = _pass_over(stage, phase, work + apart // 2, tiles, K, depth, BLOCK_K, STAGES)
        base = work // tiles * tiles_m * CLUSTER * BLOCK_M
        if MORE > 0:
            sums, more = _halves(sums)
        if PAIRED:
            gate, up = _halves(sums)
            _finish(
                ACTIVATION(gate) * up, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                row_scale_stride, column_scale_stride, None, False, False, False, DIRECT,
            )  # fmt: skip
        elif HALVED:
            left, right = _halves(sums)
            _finish(
                left, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                row_scale_stride, column_scale_stride, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, DIRECT,
            )  # fmt: skip
            _finish(
                right, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column + FIRST // 2, base, M, N,
                row_scale_stride, column_scale_stride, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, DIRECT,
            )  # fmt: skip
        else:
            _finish(
                sums, y, y_tile, bias_ptr, row_scale_ptr, column_scale_ptr, row, column, base, M, N,
                row_scale_stride, column_scale_stride, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, DIRECT,
            )  # fmt: skip
        if MORE > 0:
            for piece in gl.static_range(PIECES):
                _finish(
                    _part(more, piece * PIECE, PIECE), y_more,
                    y_more_tiles.index(0 if DIRECT else WHICH * PIECES + piece), bias_ptr, row_scale_ptr,
                    column_scale_ptr, row, column + FIRST + piece * PIECE, base, M, N, row_scale_stride,
                    column_scale_stride, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, DIRECT, False,
                )  # fmt: skip
    tma.store_wait(0)


@gluon.jit
def _hopper_gemm_kernel(
    a, b, b2, b_more, y, y_more, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, splits, depth,
    row_scale_stride, column_scale_stride,
    A_ACROSS: gl.constexpr, B_ACROSS: gl.constexpr, PAIRED: gl.constexpr,
    ACTIVATION: gl.constexpr, BIAS: gl.constexpr, ROW_SCALE: gl.constexpr, COLUMN_SCALE: gl.constexpr,
    PRECISE: gl.constexpr, COLUMNS_PER_SCALE: gl.constexpr, DIRECT: gl.constexpr, HALVED: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, MORE_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP: gl.constexpr,
    STAGES: gl.constexpr, B_AHEAD: gl.constexpr, CLUSTER: gl.constexpr, TURNS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Each program takes tiles of y one after another, or with `splits` partial sums of them, in float32.

    a, b, b2: descriptors; ACROSS: of (K, rows) in memory, else of (rows, K). y: a descriptor, or with DIRECT a pointer.
    A tile has BLOCK_N columns, a power of two, and MORE_N more, any multiple of 16; b_more and y_more are descriptors
    of b and y for pieces of these, because a tensor here has a power of two of columns.
    PAIRED: the tile's left columns are of b, its right ones of b2, and y = ACTIVATION(left) · right. ROW_SCALE and
    COLUMN_SCALE: float32 factors of rows and columns. COLUMNS_PER_SCALE above 0: there are such factors for each
    BLOCK_K of K, (M, groups) and (N / COLUMNS_PER_SCALE, groups), and PRECISE is set. PRECISE: the ordinary units add
    up in float32 what the matrix unit has summed over BLOCK_K. B_AHEAD: the
    first tiles of b are copied before the kernel before this one has finished. CLUSTER: so many neighbouring programs
    have tiles below each other and share the tiles of b; b and b_more are descriptors of one program's part.
    TURNS: the two groups of warps multiply whole tiles in turn, in place of a half of each. REGISTERS: of a thread that
    multiplies.
    """
    COLUMNS: gl.constexpr = BLOCK_N // 2 if PAIRED else BLOCK_N + MORE_N
    a_shape: gl.constexpr = [BLOCK_K, BLOCK_M] if A_ACROSS else [BLOCK_M, BLOCK_K]
    a_tiles = gl.allocate_shared_memory(a.dtype, [STAGES, a_shape[0], a_shape[1]], a.layout)
    # Rooms of a few columns and at most a line of K, so that a tile may have any number of them.
    if B_ACROSS:
        WIDE: gl.constexpr = LINE_COLUMNS if BLOCK_N > LINE_COLUMNS else BLOCK_N
        GROUPS: gl.constexpr = _pieces(BLOCK_N + MORE_N, WIDE)
        b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES * GROUPS, BLOCK_K, WIDE], b.layout)
    else:
        LINE: gl.constexpr = b.block_type.shape[1]
        ROOMS: gl.constexpr = BLOCK_K // LINE * (BLOCK_N + MORE_N) // ROOM_COLUMNS
        b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES * ROOMS, ROOM_COLUMNS, LINE], b.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turn = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    # DIRECT needs no buffer for y, so `free` takes its place.
    y_shape: gl.constexpr = [1, 1] if DIRECT else y.block_type.shape
    y_tiles = free if DIRECT else gl.allocate_shared_memory(y.dtype, [2, y_shape[0], y_shape[1]], y.layout)
    y_more_tiles = free
    if MORE_N > 0 and not DIRECT:
        y_more_shape: gl.constexpr = y_more.block_type.shape
        PIECES: gl.constexpr = _pieces(MORE_N, _largest_power_in(MORE_N))
        y_more_tiles = gl.allocate_shared_memory(y.dtype, [2 * PIECES, y_more_shape[0], y_more_shape[1]], y_more.layout)
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=2)
        mbarrier.init(free.index(stage), count=(1 if TURNS else 2) * CLUSTER)
    for group in gl.static_range(2):
        mbarrier.init(turn.index(group), count=CLUSTER)  # since both programs of a cluster arrive at it
    fence_async_shared()
    gl.warp_specialize(
        [
            (_multiply, (
                y, y_more, a_tiles, b_tiles, y_tiles, y_more_tiles, ready, free, turn, bias_ptr,
                row_scale_ptr, column_scale_ptr, M, N, K, splits, depth, row_scale_stride, column_scale_stride, 0,
                A_ACROSS, B_ACROSS, PAIRED, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, PRECISE, COLUMNS_PER_SCALE,
                DIRECT, HALVED, BLOCK_M, BLOCK_N, MORE_N, BLOCK_K, GROUP, STAGES, CLUSTER, TURNS,
            )),
            (_multiply, (
                y, y_more, a_tiles, b_tiles, y_tiles, y_more_tiles, ready, free, turn, bias_ptr,
                row_scale_ptr, column_scale_ptr, M, N, K, splits, depth, row_scale_stride, column_scale_stride, 1,
                A_ACROSS, B_ACROSS, PAIRED, ACTIVATION, BIAS, ROW_SCALE, COLUMN_SCALE, PRECISE, COLUMNS_PER_SCALE,
                DIRECT, HALVED, BLOCK_M, BLOCK_N, MORE_N, BLOCK_K, GROUP, STAGES, CLUSTER, TURNS,
            )),
            (_copy_rows, (
                a, a_tiles, ready, free, M, N, K, splits, depth, A_ACROSS, COLUMNS, BLOCK_M, BLOCK_K, GROUP, STAGES,
                CLUSTER,
            )),
            (_copy_columns, (
                b, b2, b_more, b_tiles, ready, free, M, N, K, splits, depth, B_ACROSS, PAIRED, COLUMNS,
                BLOCK_M, BLOCK_N, MORE_N, BLOCK_K, GROUP, STAGES, B_AHEAD, COLUMNS_PER_SCALE, CLUSTER,
            )),
            (meet, (CLUSTER,)),  # the warps that fill the last group of four, since all must meet
        ],
        [4, 1, 1, 2],
        [REGISTERS, 24, 24, 24],
    )  # fmt: skip
