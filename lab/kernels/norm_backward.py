"""Gradients of RMSNorm and LayerNorm, in one kernel for all rows and a small one that adds up what its programs leave.

With g = dy · w, x̂ the normalised row, and means over a row of N columns:

    dx = (g − mean(g) − x̂ · mean(g · x̂)) / sqrt(var(x) + eps)      dw = Σ dy · x̂      db = Σ dy

RMSNorm has no mean(g) and no db, and takes the mean square for the variance. dy, x, dx: (…, N)   w, dw, db: (N,).
Mean and variance are computed again from x, which must be read anyway, so the forward pass saves nothing else. All
arithmetic is in float32; dx is rounded once. Each program takes every n-th row and keeps its sums for dw and db in
registers. The order of all additions depends only on shapes and the launch, so that results are the same bits again.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_adjacent, check_alike, check_rows, check_tensor, check_vector, checked_eps
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import (
    Configuration,
    Launch,
    Launches,
    as_rows,
    multiprocessors,
    result_like,
    shared_memory,
)
from lab.kernels.library import registered, row_result, traced
from lab.kernels.pieces import read_piece, read_pieces, within, write_piece
from lab.kernels.rows import LOAD_BYTES, MAXIMUM_COLUMNS
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning
from lab.kernels.wide_row import read_tile

WIDE_ROW = 8192  # columns: wider rows have a rule of their own
# Columns, up to which a row, its weight and its sums in float32 fit into the registers of a program. LayerNorm has
# sums for dw and for db.
WIDEST_ROW, WIDEST_CENTRED_ROW = 16_384, 14_336
SUM_COLUMNS, SUM_ROWS = 32, 128  # of the tile that a program adds up: enough programs, all loads in flight
WIDE_COLUMNS, WIDE_ROWS = 2048, 2  # of the tile of a program that takes some columns of all rows
WIDE_SUMS_TILE, WIDE_SUMS_WARPS = 8192, 16
FEWEST_WARPS = 2
MOST_THREAD_BYTES = 80  # of a row in a thread, which keeps its sums in float32 beside it
BYTES_AT_ONCE = 16_384  # of x, and as many of dy, that the programs of a multiprocessor load at once
MOST_THREAD_ELEMENTS = 64  # that a search tries
NARROW_TILE_BYTES = 2048  # of the rows of a program, if several fit
MOST_SHARE = 8
SCRATCH_BYTES = 4096  # of shared memory that a program needs beside the rows in flight


@triton.jit
def _norm_backward_kernel(
    dy_ptr, x_ptr, w_ptr, ds_ptr, dx_ptr, sums_ptr, eps, M,
    dy_stride: tl.constexpr, x_stride: tl.constexpr, ds_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr,
    PARTIAL: tl.constexpr, CENTRED: tl.constexpr, ADDED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """ROWS rows at a time, in registers as PIECES of BLOCK columns. Loads of the next rows run ahead by STAGES.

    CENTRED: LayerNorm. ADDED: ds is added to dx. sums: (programs, N), or with CENTRED (programs, 2, N).
    """
    wait_for_previous()
    program = tl.program_id(0)
    w_ptrs = w_ptr + tl.zeros((ROWS, 1), tl.int32)  # one for each row, so that w gets the layout of x
    w = read_pieces(w_ptrs, True, N, PIECES, BLOCK, False, "")
    dw = ()
    db = ()
    for _ in tl.static_range(PIECES):
        dw = dw + (tl.zeros((ROWS, BLOCK), tl.float32),)  # type: ignore[assignment]  # noqa: RUF005
        if CENTRED:
            db = db + (tl.zeros((ROWS, BLOCK), tl.float32),)  # type: ignore[assignment]  # noqa: RUF005
    for tile in tl.range(program, tl.cdiv(M, ROWS), tl.num_programs(0), num_stages=STAGES):
        rows = (tile * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        inside = rows < M
        x = read_pieces(x_ptr + rows * x_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
        dy = read_pieces(dy_ptr + rows * dy_stride, inside, N, PIECES, BLOCK, PARTIAL, "")
        mean = 0.0
        if CENTRED:
            total = tl.zeros((ROWS, BLOCK), tl.float32)
            for piece in tl.static_range(PIECES):
                total += x[piece].to(tl.float32)
            mean = tl.sum(total, axis=1, keep_dims=True) / N
        squares = tl.zeros((ROWS, BLOCK), tl.float32)
        products = tl.zeros((ROWS, BLOCK), tl.float32)
        gradients = tl.zeros((ROWS, BLOCK), tl.float32)
        for piece in tl.static_range(PIECES):
            g = dy[piece].to(tl.float32) * w[piece].to(tl.float32)
            centred = x[piece].to(tl.float32)
            if CENTRED:
                # Set lanes beyond N to 0, or they would add to the variance.
                centred = within(centred - mean, piece * BLOCK, N, BLOCK)
                gradients += g
            squares += centred * centred
            products += g * centred
        if CENTRED:
            square, product, gradient = tl.reduce((squares, products, gradients), 1, _three_added, keep_dims=True)
        else:
            square, product = tl.reduce((squares, products), 1, _two_added, keep_dims=True)
        rstd = tl.where(inside, tl.rsqrt(square / N + eps), 0.0)  # rows beyond M: with eps 0 it would be infinite
        along = product / N * rstd * rstd  # mean(g · x̂), of which x − mean has the share rstd
        new_dw = ()
        new_db = ()
        for piece in tl.static_range(PIECES):
            dy_piece = dy[piece].to(tl.float32)
            centred = x[piece].to(tl.float32)
            g = dy_piece * w[piece].to(tl.float32)
            if CENTRED:
                centred -= mean
                g -= gradient / N
                new_db = new_db + (db[piece] + dy_piece,)  # type: ignore[assignment]  # noqa: RUF005
            dx = (g - centred * along) * rstd
            if ADDED:
                ds_ptrs = ds_ptr + rows * ds_stride
                dx += read_piece(ds_ptrs, inside, piece * BLOCK, N, BLOCK, PARTIAL, "").to(tl.float32)
            write_piece(dx_ptr + rows * N, inside, piece * BLOCK, dx, N, BLOCK, PARTIAL)
            new_dw = new_dw + (dw[piece] + dy_piece * (centred * rstd),)  # type: ignore[assignment]  # noqa: RUF005
        dw = new_dw
        db = new_db
    VECTORS: tl.constexpr = 2 if CENTRED else 1
    sums_ptr += program * VECTORS * N
    for piece in tl.static_range(PIECES):
        columns = piece * BLOCK + tl.arange(0, BLOCK)
        tl.store(sums_ptr + columns, tl.sum(dw[piece], axis=0), mask=columns < N)
        if CENTRED:
            tl.store(sums_ptr + N + columns, tl.sum(db[piece], axis=0), mask=columns < N)


@triton.jit
def _two_added(a, b, a_more, b_more):
    return a + a_more, b + b_more


@triton.jit
def _three_added(a, b, c, a_more, b_more, c_more):
    return a + a_more, b + b_more, c + c_more


@triton.jit
def _norm_sums_kernel(
    dy_ptr, x_ptr, w_ptr, row_ptr, eps, M, dy_stride: tl.constexpr, x_stride: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    """The numbers of one wide row a program, (4, M): mean, 1 / sqrt(var + eps), mean(g), and mean(g · x̂) · that."""
    wait_for_previous()
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    dy_ptr += row * dy_stride
    mean = 0.0
    if CENTRED:
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, N, BLOCK):
            total += read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        mean = tl.sum(total, axis=0) / N
    squares = tl.zeros((BLOCK,), tl.float32)
    products = tl.zeros((BLOCK,), tl.float32)
    gradients = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        centred = read_tile(x_ptr, start, N, BLOCK, MASKED, "").to(tl.float32) - mean
        if MASKED and CENTRED:
            centred = tl.where(start + tl.arange(0, BLOCK) < N, centred, 0.0)
        g = read_tile(dy_ptr, start, N, BLOCK, MASKED, "").to(tl.float32)
        g *= read_tile(w_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        squares += centred * centred
        products += g * centred
        gradients += g
    square, product, gradient = tl.reduce((squares, products, gradients), 0, _three_added)
    rstd = tl.rsqrt(square / N + eps)
    tl.store(row_ptr + row, mean)
    tl.store(row_ptr + M + row, rstd)
    tl.store(row_ptr + 2 * M + row, gradient / N)
    tl.store(row_ptr + 3 * M + row, product / N * rstd * rstd)


@triton.jit
def _norm_columns_kernel(
    dy_ptr, x_ptr, w_ptr, row_ptr, ds_ptr, dx_ptr, sums_ptr, M,
    dy_stride: tl.constexpr, x_stride: tl.constexpr, ds_stride: tl.constexpr,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
    CENTRED: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """BLOCK columns of every n-th ROWS rows a program, for rows whose numbers `_norm_sums_kernel` has computed."""
    wait_for_previous()
    TILES: tl.constexpr = (N + BLOCK - 1) // BLOCK
    VECTORS: tl.constexpr = 2 if CENTRED else 1
    part = tl.program_id(0) // TILES
    parts = tl.num_programs(0) // TILES
    columns = tl.program_id(0) % TILES * BLOCK + tl.arange(0, BLOCK)[None, :]
    w = tl.load(w_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dw = tl.zeros((ROWS, BLOCK), tl.float32)
    db = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in range(part, tl.cdiv(M, ROWS), parts):
        row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        rstd = tl.load(row_ptr + M + row, mask=row < M, other=0.0)[:, None]
        along = tl.load(row_ptr + 3 * M + row, mask=row < M, other=0.0)[:, None]
        rows = row[:, None]
        mask = (rows < M) & (columns < N) if MASKED else rows < M
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=mask, other=0.0).to(tl.float32)
        centred = tl.load(x_ptr + rows * x_stride + columns, mask=mask, other=0.0).to(tl.float32)
        g = dy * w
        if CENTRED:
            centred -= tl.load(row_ptr + row, mask=row < M, other=0.0)[:, None]
            g -= tl.load(row_ptr + 2 * M + row, mask=row < M, other=0.0)[:, None]
            db += dy
        dx = (g - centred * along) * rstd
        if ADDED:
            dx += tl.load(ds_ptr + rows * ds_stride + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + rows * N + columns, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += dy * (centred * rstd)
    sums_ptr += part * VECTORS * N
    columns_of_sums = tl.program_id(0) % TILES * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums_ptr + columns_of_sums, tl.sum(dw, axis=0), mask=columns_of_sums < N)
    if CENTRED:
        tl.store(sums_ptr + N + columns_of_sums, tl.sum(db, axis=0), mask=columns_of_sums < N)


@triton.jit
def _column_sums_kernel(
    sums_ptr, dw_ptr, db_ptr,
    N: tl.constexpr, PARTS: tl.constexpr, VECTORS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK columns of dw or db a program: the sums over PARTS of (PARTS, VECTORS, N), rounded once."""
    wait_for_previous()
    TILES: tl.constexpr = (N + BLOCK - 1) // BLOCK
    vector = tl.program_id(0) // TILES
    columns = tl.program_id(0) % TILES * BLOCK + tl.arange(0, BLOCK)
    inside = (columns < N)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in tl.static_range(0, PARTS, ROWS):
        parts = start + tl.arange(0, ROWS)[:, None]
        places = (parts * VECTORS + vector) * N + columns[None, :]
        total += tl.load(sums_ptr + places, mask=inside & (parts < PARTS), other=0.0)
    result = tl.sum(total, axis=0)
    if vector == 0:
        tl.store(dw_ptr + columns, result.to(dw_ptr.dtype.element_ty), mask=columns < N)
    else:
        tl.store(db_ptr + columns, result.to(db_ptr.dtype.element_ty), mask=columns < N)


def rmsnorm_backward(
    dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-6, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    """(dx, dw): the gradients of x and of the weight of `rmsnorm(x, weight, eps)`, for the gradient dy of its result.

    dy, x: (..., N) of one dtype, any distance between rows, N from 1 to 524,288. weight: (N,), contiguous, of any
    accepted dtype. configuration: how to launch, one of `norm_backward_choices`; if None, by rule:
    `lab tune` cannot tune it yet. Returns new contiguous tensors, dx of the shape and dtype of `x` and dw of those of
    `weight`, in two kernel launches (three for rows too wide for registers). Zero rows give an empty dx and a dw of
    zeros. Raises TypeError or ValueError naming the argument, what it was and what is accepted, and NotImplementedError
    where a gradient would be needed.
    """
    if configuration is None and traced(x):
        both: tuple[Tensor, Tensor] = _registered_rmsnorm(dy, x, weight, checked_eps("rmsnorm_backward", eps))
        return both
    dx, dw, _ = _gradients("rmsnorm_backward", dy, x, weight, dy, eps, configuration)
    return dx, dw


def add_rmsnorm_backward(
    dy: Tensor, ds: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-6, *,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(dx, dw) of `add_rmsnorm`, whose results are y and the sum s, for their gradients dy and ds.

    x: the sum s. dx: the gradient of both of its terms. Otherwise as `rmsnorm_backward`.
    """
    if configuration is None and traced(x):
        both: tuple[Tensor, Tensor] = _registered_add(dy, ds, x, weight, checked_eps("add_rmsnorm_backward", eps))
        return both
    dx, dw, _ = _gradients("add_rmsnorm_backward", dy, x, weight, ds, eps, configuration)
    return dx, dw


def layernorm_backward(
    dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-5, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dw, db) of `layernorm(x, weight, bias, eps)` for the gradient dy of its result; db has the dtype of
    `weight`. Otherwise as `rmsnorm_backward`."""
    if configuration is None and traced(x):
        all_three: tuple[Tensor, Tensor, Tensor]
        all_three = _registered_layernorm(dy, x, weight, checked_eps("layernorm_backward", eps))
        return all_three
    return _gradients("layernorm_backward", dy, x, weight, dy, eps, configuration)


def _empty(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return row_result(x), torch.empty_like(weight)


@registered("rmsnorm_backward", _empty)
def _registered_rmsnorm(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return _gradients("rmsnorm_backward", dy, x, weight, dy, eps, None)[:2]


@registered("add_rmsnorm_backward", lambda dy, ds, *rest: _empty(dy, *rest))
def _registered_add(dy: Tensor, ds: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return _gradients("add_rmsnorm_backward", dy, x, weight, ds, eps, None)[:2]


@registered("layernorm_backward", lambda *inputs: (*_empty(*inputs), torch.empty_like(inputs[2])))
def _registered_layernorm(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return _gradients("layernorm_backward", dy, x, weight, dy, eps, None)


def _gradients(
    op: str, dy: Tensor, x: Tensor, weight: Tensor, ds: Tensor, eps: float, configuration: Configuration | None
) -> tuple[Tensor, Tensor, Tensor]:
    launch = _LAUNCHES(dy, x, weight, ds, options=(op, configuration))
    dx, dw = result_like(x), torch.empty_like(weight)
    db = torch.empty_like(weight) if op == "layernorm_backward" else dw
    launch(as_rows(dy), as_rows(x), weight, as_rows(ds), dx, dw, db, checked_eps(op, eps))
    return dx, dw, db


def _prepare(
    dy: Tensor, x: Tensor, weight: Tensor, ds: Tensor, op: str, configuration: Configuration | None
) -> Callable[..., Any]:
    check_rows(op, x, MAXIMUM_COLUMNS)
    for name, gradient in (("dy", dy), ("ds", ds)):
        check_tensor(op, name, gradient)
        check_alike(op, name, gradient, "x", x)
        check_adjacent(op, name, gradient)
    check_vector(op, "weight", weight, x)
    if x.numel() == 0:
        return _zeros
    dy, x, ds = (each.reshape(-1, each.shape[-1]) for each in (dy, x, ds))
    chosen = configuration or TUNINGS[op].choose(tuple(x.shape), x)
    centred, added = op == "layernorm_backward", op == "add_rmsnorm_backward"
    steps = dy.stride(0), x.stride(0), ds.stride(0)
    return (_by_columns if "COLUMNS" in dict(chosen.constants) else _by_rows)(x, chosen, steps, centred, added)


def _zeros(dy: Tensor, x: Tensor, w: Tensor, ds: Tensor, dx: Tensor, dw: Tensor, db: Tensor, eps: float) -> None:
    dw.zero_()
    db.zero_()


def _by_rows(
    x: Tensor, chosen: Configuration, steps: tuple[int, int, int], centred: bool, added: bool
) -> Callable[..., None]:
    M, N = x.shape
    tiles = triton.cdiv(M, chosen["ROWS"])
    parts = min(tiles, chosen["SHARE"] * multiprocessors(x.get_device()))
    stages = min(chosen.num_stages, _most_stages(x, chosen["ROWS"], 3 if added else 2))
    gradients = Launch(
        _norm_backward_kernel, parts, x.get_device(), M, *steps,
        early=True, num_warps=chosen.num_warps, num_stages=stages,
        N=N, ROWS=chosen["ROWS"], BLOCK=chosen["BLOCK"], PIECES=triton.cdiv(N, chosen["BLOCK"]),
        PARTIAL=M % chosen["ROWS"] != 0, CENTRED=centred, ADDED=added, STAGES=stages,
    )  # fmt: skip
    sums_of = _column_sums(x, parts, centred)

    def launch(dy: Tensor, x: Tensor, w: Tensor, ds: Tensor, dx: Tensor, dw: Tensor, db: Tensor, eps: float) -> None:
        sums = torch.empty(parts * (1 + centred) * N, dtype=torch.float32, device=x.device)
        gradients(dy, x, w, ds, dx, sums, eps)
        sums_of(sums, dw, db)

    return launch


def _most_stages(x: Tensor, rows: int, inputs: int) -> int:
    """How many steps of a program's loads fit into the shared memory of this GPU: that many rows of each input."""
    free = shared_memory(x.get_device()) - SCRATCH_BYTES
    return max(1, free // (inputs * rows * x.shape[1] * x.itemsize))


def _by_columns(
    x: Tensor, chosen: Configuration, steps: tuple[int, int, int], centred: bool, added: bool
) -> Callable[..., None]:
    M, N = x.shape
    device = x.get_device()
    tile = min(WIDE_SUMS_TILE, triton.next_power_of_2(N))
    of_rows = Launch(
        _norm_sums_kernel, M, device, M, *steps[:2], early=True, num_warps=WIDE_SUMS_WARPS,
        N=N, BLOCK=tile, MASKED=N % tile != 0, CENTRED=centred,
    )  # fmt: skip
    tiles = triton.cdiv(N, chosen["COLUMNS"])
    parts = min(triton.cdiv(M, chosen["ROWS"]), triton.cdiv(chosen["SHARE"] * multiprocessors(device), tiles))
    gradients = Launch(
        _norm_columns_kernel, parts * tiles, device, M, *steps,
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, ROWS=chosen["ROWS"], BLOCK=chosen["COLUMNS"], MASKED=N % chosen["COLUMNS"] != 0,
        CENTRED=centred, ADDED=added,
    )  # fmt: skip
    sums_of = _column_sums(x, parts, centred)

    def launch(dy: Tensor, x: Tensor, w: Tensor, ds: Tensor, dx: Tensor, dw: Tensor, db: Tensor, eps: float) -> None:
        numbers = torch.empty(4 * M, dtype=torch.float32, device=x.device)
        sums = torch.empty(parts * (1 + centred) * N, dtype=torch.float32, device=x.device)
        of_rows(dy, x, w, numbers, eps)
        gradients(dy, x, w, numbers, ds, dx, sums)
        sums_of(sums, dw, db)

    return launch


def _column_sums(x: Tensor, parts: int, centred: bool) -> Launch:
    """The launch that adds up what `parts` programs have left: called with their sums, dw and db."""
    N = x.shape[1]
    vectors = 1 + centred
    return Launch(
        _column_sums_kernel, vectors * triton.cdiv(N, SUM_COLUMNS), x.get_device(), early=True, num_warps=8,
        N=N, PARTS=parts, VECTORS=vectors, ROWS=min(SUM_ROWS, triton.next_power_of_2(parts)), BLOCK=SUM_COLUMNS,
    )  # fmt: skip


_LAUNCHES = Launches(_prepare)


def norm_backward_rule(
    shape: tuple[int, ...], itemsize: int, *, centred: bool = False, added: bool = False
) -> Configuration:
    """ROWS, BLOCK, SHARE, warps and stages for (M, N): one row a program where it is wide enough for two warps, as few
    warps as its sums allow, and as many programs a multiprocessor as keep BYTES_AT_ONCE of rows in flight.

    centred: LayerNorm. added: another gradient is added to dx. Measured on an H200. More rows a program instead of more
    programs gained up to 2 % for RMSNorm and lost 4 to 20 % for LayerNorm, which keeps twice the sums.
    """
    _, N = shape
    widest = WIDEST_CENTRED_ROW if centred else WIDEST_ROW
    if widest < N:
        return Configuration.of(ROWS=WIDE_ROWS, COLUMNS=WIDE_COLUMNS, SHARE=4, num_warps=8)
    if N > WIDE_ROW:
        return _wide_row_rule(N, itemsize, centred, added)
    num_warps = FEWEST_WARPS
    while N * itemsize > num_warps * 32 * MOST_THREAD_BYTES:
        num_warps *= 2
    whole = triton.next_power_of_2(N)
    block = whole if whole == N else min(whole, num_warps * 32 * LOAD_BYTES // itemsize)
    rows = max(1, NARROW_TILE_BYTES // (triton.cdiv(N, block) * block * itemsize))
    share = max(1, min(MOST_SHARE, round(BYTES_AT_ONCE / (rows * N * itemsize))))
    return Configuration.of(ROWS=rows, BLOCK=block, SHARE=share, num_warps=num_warps, num_stages=3)


def _wide_row_rule(N: int, itemsize: int, centred: bool, added: bool) -> Configuration:
    """For rows of more than WIDE_ROW columns that stay in registers: the fastest of a sweep on an H200, at 9216 to
    16,384 columns. They are read once, where `_norm_columns_kernel` reads them twice: 4096 rows of 10,240 in bfloat16
    took 67 µs for RMSNorm (159 by columns), 86 with ds (179), 69 for LayerNorm (194). Loads ahead of the next row need
    registers too, which rows of more than 12,288 columns do not have."""
    num_warps = 8 if N <= WIDEST_CENTRED_ROW and (itemsize == 2 or centred) else 16
    block = 4096 if num_warps == 16 and (itemsize == 4 or added) else 2048
    stages = 3 if N <= 12_288 or added else 1
    return Configuration.of(ROWS=1, BLOCK=block, SHARE=1, num_warps=num_warps, num_stages=stages)


def norm_backward_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N)."""
    _, N = shape
    rules = (tuning.rule(shape, itemsize) for tuning in TUNINGS.values())
    seen = dict.fromkeys(rules)  # a dict, which keeps the order
    if N > WIDE_ROW:
        for rows, columns, num_warps in ((2, 2048, 8), (4, 512, 4), (4, 1024, 8), (8, 512, 8)):
            for share in (4, 8):
                seen[Configuration.of(ROWS=rows, COLUMNS=columns, SHARE=share, num_warps=num_warps)] = None
    for rows in (1, 2, 4, 8, 16):
        for num_warps in (2, 4, 8, 16):
            block = min(triton.next_power_of_2(N), 32 * num_warps * LOAD_BYTES // itemsize // min(rows, 2))
            per_thread = rows * triton.cdiv(N, block) * block // (32 * num_warps)
            if not LOAD_BYTES // itemsize <= per_thread <= min(MOST_THREAD_ELEMENTS, 512 // num_warps):
                continue
            for share in (1, 2, 4, 8):
                for stages in (1, 2, 3):
                    if share * num_warps <= 32:
                        seen[
                            Configuration.of(
                                ROWS=rows, BLOCK=block, SHARE=share, num_warps=num_warps, num_stages=stages
                            )
                        ] = None
    yield from seen


TUNINGS = {
    f"{op}_backward": Tuning(
        f"{op.replace('_', '-')}-backward", __name__,
        partial(norm_backward_rule, centred=op == "layernorm", added=op == "add_rmsnorm"), norm_backward_choices,
    )
    for op in ("rmsnorm", "add_rmsnorm", "layernorm")
}  # fmt: skip


def norm_backward_traffic(
    shape: tuple[int, ...], itemsize: int, *, biased: bool = False, added: bool = False
) -> Traffic:
    """Least work for (M, N): read dy, x, w, and with `added` ds; write dx, dw, and with `biased` db; ten operations an
    element, one more with `biased` or `added`."""
    M, N = shape
    return Traffic(
        read_bytes=((2 + added) * M * N + N) * itemsize,
        written_bytes=(M * N + (1 + biased) * N) * itemsize,
        flops=(10 + biased + added) * M * N,
    )


def rmsnorm_backward_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(dy, x, weight, rstd) for shape (M, N): normal data, and what a forward pass with an eps of 1e-6 may save of x,
    1 / sqrt(mean(x²) + eps) in float32, (M, 1)."""
    dy, x, weight = _drawn(2, shape, dtype, device, seed)
    return dy, x, weight, torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)


def add_rmsnorm_backward_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(dy, ds, x, weight, rstd): as `rmsnorm_backward_inputs`, with the gradient ds of the sum x."""
    dy, ds, x, weight = _drawn(3, shape, dtype, device, seed)
    return dy, ds, x, weight, torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)


def layernorm_backward_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(dy, x, weight, bias, mean, rstd): as `rmsnorm_backward_inputs`, of a forward pass with an eps of 1e-5."""
    dy, x, weight = _drawn(2, shape, dtype, device, seed)
    mean = x.float().mean(-1, keepdim=True)
    rstd = torch.rsqrt((x.float() - mean).square().mean(-1, keepdim=True) + 1e-5)
    return dy, x, weight, torch.zeros_like(weight), mean, rstd


def _drawn(count: int, shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(seed)
    rows = [torch.randn(shape, dtype=dtype, device=device, generator=generator) for _ in range(count)]
    return *rows, 1 + 0.5 * torch.randn(shape[-1:], dtype=dtype, device=device, generator=generator)


def rmsnorm_backward_reference(dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """(dx, dw) in float64, on the device of `x`, by autograd."""
    dx, dw = _by_autograd(lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, eps), dy, x, weight)
    return dx, dw


def add_rmsnorm_backward_reference(
    dy: Tensor, ds: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """(dx, dw) in float64, on the device of `x`, by autograd."""
    dx, dw = rmsnorm_backward_reference(dy, x, weight, eps)
    return dx + ds.double(), dw


def layernorm_backward_reference(
    dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dw, db) in float64, on the device of `x`, by autograd."""
    bias = torch.zeros_like(weight)
    dx, dw, db = _by_autograd(
        lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, eps), dy, x, weight, bias
    )
    return dx, dw, db


def _by_autograd(norm: Callable[..., Tensor], dy: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        leaves = tuple(tensor.detach().double().requires_grad_() for tensor in inputs)
        return torch.autograd.grad(norm(*leaves), leaves, dy.double())
