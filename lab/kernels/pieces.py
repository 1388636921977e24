"""Rows in registers, in pieces whose width is a power of two, so that other widths of rows need few masks.

A row of 5120 columns is five pieces of 1024, one of 7168 is seven: no lane is idle. Only the last piece of a row is
masked, and only if the width of the pieces does not divide the row.
"""

import triton
import triton.language as tl


@triton.jit
def read_piece(
    row_ptrs, inside, START: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr, PARTIAL: tl.constexpr,
    POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """Columns START to START + BLOCK of each row, (ROWS, BLOCK), with the value BEYOND for columns beyond N.

    row_ptrs: (ROWS, 1), where the rows begin. inside: (ROWS, 1), which rows exist; used only if PARTIAL.
    """
    columns = START + tl.arange(0, BLOCK)[None, :]
    RAGGED: tl.constexpr = START + BLOCK > N
    if RAGGED:
        mask = inside & (columns < N) if PARTIAL else columns < N
        return tl.load(row_ptrs + columns, mask=mask, other=BEYOND, eviction_policy=POLICY)
    return tl.load(
        row_ptrs + columns,
        mask=inside if PARTIAL else None, other=BEYOND if PARTIAL else None, eviction_policy=POLICY,
    )  # fmt: skip


@triton.jit
def write_piece(
    row_ptrs, inside, START: tl.constexpr, y, N: tl.constexpr, BLOCK: tl.constexpr, PARTIAL: tl.constexpr,
):  # fmt: skip
    """Write a piece, rounded to the rows' dtype. Arguments as in `read_piece`."""
    columns = START + tl.arange(0, BLOCK)[None, :]
    RAGGED: tl.constexpr = START + BLOCK > N
    y = y.to(row_ptrs.dtype.element_ty)
    if RAGGED:
        mask = inside & (columns < N) if PARTIAL else columns < N
        tl.store(row_ptrs + columns, y, mask=mask)
    else:
        tl.store(row_ptrs + columns, y, mask=inside if PARTIAL else None)


@triton.jit
def read_pieces(
    row_ptrs, inside,
    N: tl.constexpr, PIECES: tl.constexpr, BLOCK: tl.constexpr, PARTIAL: tl.constexpr,
    POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """All columns of each row, as a tuple of PIECES."""
    pieces = ()
    for piece in tl.static_range(PIECES):
        pieces = pieces + (read_piece(row_ptrs, inside, piece * BLOCK, N, BLOCK, PARTIAL, POLICY, BEYOND),)  # type: ignore  # noqa: RUF005
    return pieces


@triton.jit
def within(x, START: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    """`x`, (ROWS, BLOCK), with zeros beyond N."""
    if START + BLOCK > N:
        x = tl.where(START + tl.arange(0, BLOCK)[None, :] < N, x, 0.0)
    return x
