"""Copies matrices so that TMA can read them fast: columns adjacent, rows aligned to lines of 128 bytes."""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Launch

LINE_BYTES = 128  # rows that begin at a line of memory are read fastest


@triton.jit
def _realign_kernel(
    a_ptr, b_ptr, a_to_ptr, b_to_ptr, a_rows, b_rows, K, width, a_row, a_k, b_row, b_k, a_tiles,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One tile of `a` or of `b` a program; the first `a_tiles` programs take those of `a`."""
    wait_for_previous()
    tile = tl.program_id(0)
    if tile < a_tiles:
        _copy_tile(a_ptr, a_to_ptr, tile, a_rows, K, width, a_row, a_k, ROWS, COLUMNS)
    else:
        _copy_tile(b_ptr, b_to_ptr, tile - a_tiles, b_rows, K, width, b_row, b_k, ROWS, COLUMNS)


@triton.jit
def _copy_tile(from_ptr, to_ptr, tile, rows, K, width, row_step, k_step, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    across = tl.cdiv(K, COLUMNS)
    row = (tile // across * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = (tile % across * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)[None, :]
    inside = (row < rows) & (column < K)
    values = tl.load(from_ptr + row * row_step + column * k_step, mask=inside, other=0.0)
    tl.store(to_ptr + row * width + column, values, mask=(row < rows) & (column < width))  # 16 bytes at a time


def realign(a: Tensor | None, b: Tensor | None) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A function that copies tensors like `a`, (M, K), and `b`, (N, K), in one launch. It returns the argument itself
    for the one that is None here."""
    like = a if a is not None else b
    assert like is not None
    K = like.shape[1]
    width = triton.cdiv(K * like.itemsize, LINE_BYTES) * LINE_BYTES // like.itemsize
    rows, columns = (16, 128) if like.stride(1) == 1 else (64, 64)
    across = triton.cdiv(K, columns)
    sizes = [0 if matrix is None else matrix.shape[0] for matrix in (a, b)]
    tiles = [triton.cdiv(size, rows) * across for size in sizes]
    steps = [step for matrix in (a, b) for step in ((0, 0) if matrix is None else matrix.stride())]
    launch = Launch(
        _realign_kernel, sum(tiles), like.get_device(), *sizes, K, width, *steps, tiles[0], num_warps=4,
        early=True, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip

    def call(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        to = [
            given if size == 0 else torch.empty((size, width), dtype=given.dtype, device=given.device)
            for given, size in zip((first, second), sizes, strict=True)
        ]
        launch(first, second, *to)
        return to[0] if a is None else to[0][:, :K], to[1] if b is None else to[1][:, :K]

    return call
