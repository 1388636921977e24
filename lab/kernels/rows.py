"""How rows are spread over programs and warps. One rule, shared by the row-wise operators."""

from collections.abc import Iterator
from typing import Any

import triton
from torch import Tensor

from lab.kernels.launch import CACHED_BYTES, Configuration, Launch

MAXIMUM_COLUMNS = 262_144
WIDEST_REGISTER_ROW = 16_384  # columns that one program holds in registers; of a wider row it reads tiles, twice
WIDE_BLOCK = 8_192


def row_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """ROWS, BLOCK and warps for (M, N), M rows of N columns. BLOCK below N: the row is read in tiles."""
    _, N = shape
    if N > WIDEST_REGISTER_ROW:
        return Configuration.of(ROWS=1, BLOCK=WIDE_BLOCK, num_warps=32)
    block = triton.next_power_of_2(N)
    rows = max(1, min(16, 1024 // block))
    return Configuration.of(ROWS=rows, BLOCK=block, num_warps=max(1, min(16, rows * block // 512)))


def row_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N): whole rows where registers hold them, and tiles of wide ones."""
    _, N = shape
    block = triton.next_power_of_2(N)
    if N > WIDEST_REGISTER_ROW // 2:
        for tile in (4_096, 8_192, 16_384, 32_768):
            for num_warps in (8, 16, 32):
                if tile < N and 4 <= tile // (32 * num_warps) <= 64:
                    yield Configuration.of(ROWS=1, BLOCK=tile, num_warps=num_warps)
    if block <= 2 * WIDEST_REGISTER_ROW:
        for rows in (1, 2, 4, 8, 16):
            for num_warps in (1, 2, 4, 8, 16, 32):
                if rows * block <= max(block, 8_192) and 4 <= rows * block // (32 * num_warps) <= 64:
                    yield Configuration.of(ROWS=rows, BLOCK=block, num_warps=num_warps)


def row_launch(held: Any, tiled: Any, x: Tensor, chosen: Configuration) -> Launch:
    """The launch for the rows of `x`, (M, N): of `held`, whose programs take whole rows, or of `tiled`.

    Both kernels end in M, x_stride, N, ROWS, BLOCK, MASKED, PAST_CACHE.
    """
    M, N = x.shape
    rows, block = chosen["ROWS"], chosen["BLOCK"]
    whole = block >= N
    return Launch(
        held if whole else tiled, triton.cdiv(M, rows) if whole else M, x.get_device(), M, x.stride(0),
        num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, ROWS=rows, BLOCK=block, MASKED=N % block != 0 or (whole and M % rows != 0),
        PAST_CACHE=2 * M * N * x.itemsize > CACHED_BYTES,
    )  # fmt: skip
