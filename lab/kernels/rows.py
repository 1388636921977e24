"""How rows are spread over programs and warps. One rule, shared by the row-wise operators."""

from collections.abc import Iterator
from typing import Any

import triton
from torch import Tensor

from lab.kernels.launch import Configuration, Launch

MAXIMUM_COLUMNS = 262_144
WIDEST_REGISTER_ROW = 16_384  # columns that one program holds in registers by rule; a wider row it reads in tiles
TILE_BYTES = 16_384
HELD_BYTES = 131_072  # of a wide row that 32 warps hold without spilling: half of a multiprocessor's registers
MOST_HELD_BYTES = 196_608  # that 16 warps hold, with twice the registers for each thread


def row_rule(shape: tuple[int, ...], itemsize: int, *, loads: int = 2) -> Configuration:
    """ROWS, BLOCK and warps for (M, N), M rows of N columns that registers hold: `loads` of 16 bytes a thread where a
    program has four warps or more.

    Measured on an H100: two loads are best from rows of 2 KB to 16 KB; and several short rows a program, as long as
    every multiprocessor has work.
    """
    M, N = shape
    block = triton.next_power_of_2(N)
    rows = max(1, min(16, 2048 // block, triton.next_power_of_2(M // 256 + 1) // 2))
    num_warps = rows * block * itemsize // (32 * 16 * loads)
    return Configuration.of(ROWS=rows, BLOCK=block, num_warps=max(min(4, rows * block // 128), min(16, num_warps), 1))


def row_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N): whole rows, where registers hold them."""
    _, N = shape
    block = triton.next_power_of_2(N)
    if block <= 2 * WIDEST_REGISTER_ROW:
        for rows in (1, 2, 4, 8, 16):
            for num_warps in (1, 2, 4, 8, 16, 32):
                if rows * block <= max(block, 8_192) and 4 <= rows * block // (32 * num_warps) <= 64:
                    yield Configuration.of(ROWS=rows, BLOCK=block, num_warps=num_warps)


def norm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """As `row_rule`, but wide rows as tiles of BLOCK columns, the first HELD of which stay in registers.

    Of the widest rows the tiles are larger: fewer barriers for each, which gained 6 % on an H100 at 131,072 columns.
    """
    _, N = shape
    if N <= WIDEST_REGISTER_ROW:
        return row_rule(shape, itemsize)
    return held_rule(N, itemsize, (2 if N * itemsize > HELD_BYTES else 1) * TILE_BYTES)


def held_rule(N: int, itemsize: int, tile_bytes: int) -> Configuration:
    """HELD, BLOCK and warps for wide rows of N columns: as many tiles in registers as these hold."""
    tile = tile_bytes // itemsize
    return Configuration.of(HELD=min(triton.cdiv(N, tile), HELD_BYTES // tile_bytes), BLOCK=tile, num_warps=32)


def norm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N): the rule's, whole rows, and tiles of wide ones, some in registers."""
    _, N = shape
    rule = norm_rule(shape, itemsize)
    yield rule
    yield from (chosen for chosen in (*row_choices(shape, itemsize), *_held_choices(N, itemsize)) if chosen != rule)


def _held_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    if N <= WIDEST_REGISTER_ROW // 2:
        return
    for tile, num_warps in ((4_096, 16), (8_192, 16), (8_192, 32), (16_384, 32), (32_768, 32)):
        most = HELD_BYTES if num_warps == 32 else MOST_HELD_BYTES
        for held in sorted({1, *(columns // tile for columns in (32_768, 65_536, 98_304)), triton.cdiv(N, tile)}):
            if held * tile * itemsize <= most and held * tile < N + tile:
                yield Configuration.of(HELD=held, BLOCK=tile, num_warps=num_warps)


def check_held(chosen: Configuration, N: int) -> None:
    """ValueError where a configuration would write past a row of N columns: it holds more tiles than the row has, and
    nothing masks them because they divide it."""
    constants = dict(chosen.constants)
    held, block = constants.get("HELD", 1), constants["BLOCK"]
    if held < 1 or (N % block == 0 and held > N // block):
        raise ValueError(
            f"configuration: HELD is {held}; accepted are 1 to {triton.cdiv(N, block)}, the tiles of {block} columns "
            f"in a row of {N}"
        )


def row_launch(whole: Any, tiled: Any, x: Tensor, chosen: Configuration, *strides: int) -> Launch:
    """The launch for the rows of `x`, (M, N): of `whole`, whose programs take whole rows, or of `tiled`.

    Both kernels end in M, x_stride, the other `strides`, N, the constants of the configuration (ROWS and BLOCK, or of
    a `tiled` one that holds some of its tiles, HELD and BLOCK), MASKED.
    """
    M, N = x.shape
    check_held(chosen, N)
    constants = dict(chosen.constants)
    rows, block = constants.get("ROWS", 1), constants["BLOCK"]
    rows_whole = "HELD" not in constants and block >= N
    return Launch(
        whole if rows_whole else tiled, triton.cdiv(M, rows) if rows_whole else M, x.get_device(),
        M, x.stride(0), *strides, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, **constants, MASKED=N % block != 0 or (rows_whole and M % rows != 0),
    )  # fmt: skip
