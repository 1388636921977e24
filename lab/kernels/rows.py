"""How row-wise operators divide rows among programs and warps: one rule for all of them."""

from collections.abc import Iterator
from typing import Any

import triton
from torch import Tensor

from lab.kernels.launch import Configuration, Launch

MAXIMUM_COLUMNS = 524_288  # tiles have no limit of their own, but wider rows are not tested
WIDEST_REGISTER_ROW = 16_384  # columns: by rule, up to here a row stays in registers; a wider row is read in tiles
LOAD_BYTES = 16  # the widest load of a thread
TILE_BYTES = 16_384
MOST_PIECES = 16  # of a row in registers
MOST_THREAD_ELEMENTS = 128  # elements of a row in the registers of a thread
LOADS = 4  # of 16 bytes that a thread has in flight
LOADS_OF_FEW = 3
FEW_ROWS = 1024  # about as many as an H100 or an H200 works on at once
FEWEST_ROWS = 256  # two for each multiprocessor of an H100 or H200
ROOMY_THREADS = 216_000  # of all rows together, with the registers of LOADS_OF_FEW: these multiprocessors hold no more
ROWS_FOR_EACH = 4096  # rows of one warp: for each so many a program takes one, rounded up to 2, 4 or 8
NARROW_ROW = 512  # columns; narrower rows share programs
WIDEST_SIMPLE_ROW = 2048  # columns: up to here a row is one piece, even if a kernel needs many registers for each
MOST_THREADS = 512  # of a row in registers
MOST_UNPACKED = 32  # elements of a row that a thread keeps as float32, besides other values
MOST_UNPACKED_ROW = 8192  # elements that a program keeps as float32: with more, too few programs share a multiprocessor
REGISTER_BYTES = 131_072  # of a wide row in 32 warps without spilling: half of a multiprocessor's registers
MOST_REGISTER_BYTES = 196_608  # of a wide row in 16 warps, with twice the registers for each thread


def row_rule(shape: tuple[int, ...], itemsize: int, *, most_loads: int = LOADS) -> Configuration:
    """ROWS, BLOCK and warps for (M, N), M rows of N columns that fit into registers.

    A row whose width is not a power of two is divided into pieces, each of one load of 16 bytes a thread. With many
    rows there are LOADS pieces, and up to `most_loads` from four warps on; with few rows there are fewer, because a
    multiprocessor waits for each, unless the multiprocessors could then not hold all rows at once: a second round takes
    longer. Measured on an H200, for widths of powers of two on an H100 too. The fewest rows of 16 bits are one piece if
    they are wide: on both, 16 to 256 rows of 9216 to 13,824 columns took 3 to 25 % less than in pieces. Rows of one
    warp share a program: on an H100 4096 rows of 768 in float8 took 4.2 µs in pairs, 5.5 one by one.
    """
    M, N = shape
    block = triton.next_power_of_2(N)
    if itemsize == 2 and M <= FEWEST_ROWS and block == WIDEST_REGISTER_ROW:
        return Configuration.of(ROWS=1, BLOCK=block, num_warps=16)
    even = _even_rule(M, block, itemsize)
    widest = WIDEST_REGISTER_ROW if most_loads == LOADS else WIDEST_SIMPLE_ROW
    simple = block == N <= widest
    # Two loads of float32 take half the registers of two of 16 bits, which are unpacked.
    if N <= NARROW_ROW or (simple and not _crowded(M, 32 * even.num_warps * 2 // itemsize)):
        return even
    at_once = LOAD_BYTES // itemsize
    threads = 32
    while threads < MOST_THREADS and triton.cdiv(N, threads * at_once) > _loads(M, threads, itemsize, most_loads):
        threads *= 2
    several = threads == 32 and M > FEW_ROWS
    rows = max(2, min(8, triton.next_power_of_2(M // ROWS_FOR_EACH))) if several else 1
    return Configuration.of(ROWS=rows, BLOCK=threads * at_once, num_warps=rows * threads // 32)


def _loads(M: int, threads: int, itemsize: int, most_loads: int) -> int:
    """How many loads a thread may have. 1024 rows are launched as more are: on an H100 rows of 896 in 16 bits were 8 %
    slower with three loads than with four. A kernel that needs many registers, whose `most_loads` are more than LOADS,
    has more loads and fewer threads where rows are few, too; 256 rows of 7168 or 8192 in 16 bits were slower so."""
    if M >= FEW_ROWS:
        return most_loads if threads >= 128 else LOADS
    many_registers = most_loads > LOADS
    if _crowded(M, 2 * threads):  # more loads, rather than more threads
        if many_registers:
            return most_loads
        return LOADS if itemsize == 2 else LOADS * 3 // 2  # float32 need not be unpacked into more registers
    return LOADS if many_registers and (itemsize == 4 or M < FEWEST_ROWS) else LOADS_OF_FEW


def _crowded(M: int, threads: int) -> bool:
    """Whether few rows, with so many threads each, would be too many for the multiprocessors at once."""
    return M <= FEW_ROWS and M * threads > ROOMY_THREADS


def _even_rule(M: int, block: int, itemsize: int) -> Configuration:
    """The rule for rows that are one piece of `block` columns: two loads a thread if a program has four warps or more,
    and several short rows a program as long as every multiprocessor has work. Of 512 and 1024 rows of 1024, one alone
    was 1 to 9 % faster than two on an H100, in graphs, in every operator but one."""
    most_rows = 1 if M <= FEW_ROWS and block > NARROW_ROW else 2048 // block
    rows = max(1, min(16, most_rows, triton.next_power_of_2(M // 256 + 1) // 2))
    num_warps = rows * block * itemsize // (32 * LOAD_BYTES * 2)
    return Configuration.of(ROWS=rows, BLOCK=block, num_warps=max(min(4, rows * block // 128), min(16, num_warps), 1))


def row_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N): whole rows, if they fit into registers.

    A piece is what the threads of a row load at once, 16 bytes each. So only the rows and the warps of a program vary.
    """
    _, N = shape
    at_once = LOAD_BYTES // itemsize
    seen = set()
    for rows in (1, 2, 4, 8, 16):
        for num_warps in (1, 2, 4, 8, 16, 32):
            lanes = 32 * num_warps * at_once // rows
            block = min(triton.next_power_of_2(N), lanes)
            pieces = triton.cdiv(N, block)
            per_thread = rows * pieces * block // (32 * num_warps)
            fills = rows * block >= 32 * num_warps * at_once or (rows == 1 and num_warps == 1)
            if fills and pieces <= MOST_PIECES and per_thread <= MOST_THREAD_ELEMENTS and (rows == 1 or num_warps <= 8):
                choice = Configuration.of(ROWS=rows, BLOCK=block, num_warps=num_warps)
                if choice not in seen:
                    seen.add(choice)
                    yield choice


def norm_rule(shape: tuple[int, ...], itemsize: int, *, most_loads: int = LOADS) -> Configuration:
    """As `row_rule`, but wide rows are tiles of BLOCK columns, of which the first HELD stay in registers.

    The widest rows have larger tiles and so fewer barriers, which gained 6 % on an H100 at 131,072 columns.
    """
    _, N = shape
    if N <= WIDEST_REGISTER_ROW:
        return row_rule(shape, itemsize, most_loads=most_loads)
    return tiled_rule(N, itemsize, (2 if N * itemsize > REGISTER_BYTES else 1) * TILE_BYTES)


def tiled_rule(N: int, itemsize: int, tile_bytes: int) -> Configuration:
    """HELD, BLOCK and warps for wide rows of N columns: as many tiles in registers as fit there."""
    tile = tile_bytes // itemsize
    return Configuration.of(HELD=min(triton.cdiv(N, tile), REGISTER_BYTES // tile_bytes), BLOCK=tile, num_warps=32)


def norm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N): the rule's, whole rows, and tiles of wide rows."""
    rule = norm_rule(shape, itemsize)
    yield from dict.fromkeys((rule, *row_choices(shape, itemsize), *_tiled_choices(shape[1], itemsize)))


def _tiled_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    if N <= WIDEST_REGISTER_ROW // 2:
        return
    for tile, num_warps in ((4_096, 16), (8_192, 16), (8_192, 32), (16_384, 32), (32_768, 32)):
        most = REGISTER_BYTES if num_warps == 32 else MOST_REGISTER_BYTES
        for tiles in sorted({1, *(columns // tile for columns in (32_768, 65_536, 98_304)), triton.cdiv(N, tile)}):
            if tiles * tile * itemsize <= most and tiles * tile < N + tile:
                yield Configuration.of(HELD=tiles, BLOCK=tile, num_warps=num_warps)
    for tile, num_warps in ((4_096, 8), (8_192, 8), (16_384, 16)):  # several programs a multiprocessor
        yield Configuration.of(HELD=1, BLOCK=tile, num_warps=num_warps)


def shifted_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for rows of N columns that begin at any address: all of a row in
    registers, in tiles of 16 bytes a thread, or as much as fits there."""
    at_once = LOAD_BYTES // itemsize
    if N % at_once == 0:
        return
    for num_warps in (1, 2, 4, 8, 16, 32):
        tile = 32 * num_warps * at_once
        tiles = triton.cdiv(N + at_once - 1, tile)
        most = 8 if num_warps == 32 else 12
        if tiles <= most or num_warps == 32:
            yield Configuration.of(HELD=min(tiles, most), BLOCK=tile, num_warps=num_warps)


def check_tiles(chosen: Configuration, N: int) -> None:
    """ValueError if a configuration would write past a row of N columns: HELD is more tiles than the row has, and they
    are not masked because their width divides N."""
    constants = dict(chosen.constants)
    tiles, block = constants.get("HELD", 1), constants["BLOCK"]
    if tiles < 1 or (N % block == 0 and tiles > N // block):
        raise ValueError(
            f"configuration: HELD is {tiles}; accepted are 1 to {triton.cdiv(N, block)}, the tiles of {block} columns "
            f"in a row of {N}"
        )


def row_launch(whole: Any, tiled: Any, x: Tensor, chosen: Configuration, *strides: int) -> Launch:
    """The launch for the rows of `x`, (M, N): of the kernel `whole`, whose programs take whole rows, or of `tiled`.

    The last parameters of both kernels are M, x_stride, the other `strides`, N and constants: those of
    `piece_constants` for `whole`; HELD, BLOCK and MASKED for `tiled`.
    """
    M, N = x.shape
    check_tiles(chosen, N)
    constants = dict(chosen.constants)
    how = {"num_warps": chosen.num_warps, "num_stages": chosen.num_stages, "N": N}
    if "HELD" in constants:
        return Launch(
            tiled, M, x.get_device(), M, x.stride(0), *strides,
            early=True, **how, **constants, MASKED=N % constants["BLOCK"] != 0,
        )  # fmt: skip
    rows = constants["ROWS"]
    return Launch(
        whole, triton.cdiv(M, rows), x.get_device(), M, x.stride(0), *strides,
        early=True, **how, **constants, **piece_constants(chosen, M, N, x.itemsize),
    )  # fmt: skip


def piece_constants(chosen: Configuration, M: int, N: int, itemsize: int) -> dict[str, int]:
    """The other constants of a kernel with whole rows in registers: the PIECES of a row, whether the last program has
    fewer rows (PARTIAL), and whether a thread has so many elements that they must stay PACKED in their own dtype."""
    rows, block = chosen["ROWS"], chosen["BLOCK"]
    pieces = triton.cdiv(N, block)
    elements = rows * pieces * block
    packed = pieces > 1 and itemsize == 2 and elements > min(MOST_UNPACKED_ROW, MOST_UNPACKED * 32 * chosen.num_warps)
    return {"PIECES": pieces, "PARTIAL": M % rows != 0, "PACKED": packed}


def shifted_alike(x: Tensor, x_stride: int) -> bool:
    """Whether `shifted.py` is needed and can be used: rows of `x` begin at addresses that are not multiples of 16
    bytes, each with the same remainder as the row of a new contiguous result."""
    at_once = LOAD_BYTES // x.itemsize
    N = x.shape[-1]
    return N % at_once != 0 and (x_stride - N) % at_once == 0 and x.data_ptr() % LOAD_BYTES == 0


def shifted_launch(kernel: Any, x: Tensor, chosen: Configuration) -> Launch:
    """The launch of `kernel` for the shifted rows of `x`, (M, N)."""
    M, N = x.shape
    block = chosen["BLOCK"]
    tiles = triton.cdiv(N + LOAD_BYTES // x.itemsize - 1, block)
    return Launch(
        kernel, M, x.get_device(), M, x.stride(0),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, HELD=min(chosen["HELD"], tiles), BLOCK=block, TILES=tiles,
    )  # fmt: skip
