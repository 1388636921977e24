"""How rows are spread over programs and warps. One rule, shared by the row-wise norms."""

from dataclasses import dataclass

import triton
from torch import Tensor

MAXIMUM_COLUMNS = 65_536
WIDEST_REGISTER_ROW = 16_384
WIDE_BLOCK = 8_192


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLaunch:
    """rows: rows a program; block: columns a tile; masked: the tile overhangs; wide: loop over tiles."""

    rows: int
    block: int
    num_warps: int
    masked: bool
    wide: bool


def row_launch(M: int, N: int) -> RowLaunch:
    """The launch for M rows of N columns."""
    if N > WIDEST_REGISTER_ROW:
        return RowLaunch(rows=1, block=WIDE_BLOCK, num_warps=32, masked=N % WIDE_BLOCK != 0, wide=True)
    block = triton.next_power_of_2(N)
    rows = max(1, min(16, 1024 // block))
    num_warps = max(1, min(16, rows * block // 512))
    return RowLaunch(rows=rows, block=block, num_warps=num_warps, masked=block != N or M % rows != 0, wide=False)


def as_rows(x: Tensor) -> Tensor:
    """`x` as (M, N): a view where its strides allow, else a contiguous copy."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
