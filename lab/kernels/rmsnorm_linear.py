"""RMSNorm and the linear layer after it (prototype while launches are being tuned)."""

import triton
import triton.language as tl


@triton.jit
def _vector_kernel(
    x_ptr, g_ptr, w_ptr, y_ptr, N, w_stride, eps,
    K: tl.constexpr, NORM_WEIGHT: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """One row of x against ROWS rows of the weight a program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, BLOCK_K)
    places = tl.where(rows < N, rows, 0).to(tl.int64)[:, None] * w_stride + inner[None, :]
    sums = tl.zeros((ROWS, BLOCK_K), tl.float32)
    squares = tl.zeros((BLOCK_K,), tl.float32)
    WHOLE: tl.constexpr = K % BLOCK_K == 0
    if UNROLL:
        for step in tl.static_range((K + BLOCK_K - 1) // BLOCK_K):
            mask = None if WHOLE else step * BLOCK_K + inner < K
            x = tl.load(x_ptr + step * BLOCK_K + inner, mask=mask, other=None if WHOLE else 0.0).to(tl.float32)
            w = tl.load(w_ptr + step * BLOCK_K + places, mask=None if WHOLE else mask[None, :], other=None if WHOLE else 0.0, eviction_policy="evict_first")
            squares += x * x
            if NORM_WEIGHT:
                x *= tl.load(g_ptr + step * BLOCK_K + inner, mask=mask, other=None if WHOLE else 0.0).to(tl.float32)
            sums += w.to(tl.float32) * x[None, :]
    else:
        for start in range(0, K, BLOCK_K):
            mask = None if WHOLE else start + inner < K
            x = tl.load(x_ptr + start + inner, mask=mask, other=None if WHOLE else 0.0).to(tl.float32)
            w = tl.load(w_ptr + start + places, mask=None if WHOLE else mask[None, :], other=None if WHOLE else 0.0, eviction_policy="evict_first")
            squares += x * x
            if NORM_WEIGHT:
                x *= tl.load(g_ptr + start + inner, mask=mask, other=None if WHOLE else 0.0).to(tl.float32)
            sums += w.to(tl.float32) * x[None, :]
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / K + eps)
    tl.store(y_ptr + rows, (tl.sum(sums, axis=1) * rstd).to(y_ptr.dtype.element_ty), mask=rows < N)


@triton.jit
def _skinny_kernel(
    x_ptr, g_ptr, w_ptr, y_ptr, M, N, K, x_stride, w_stride, depth, eps,
    NORM_WEIGHT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLITS: tl.constexpr, WHOLE_K: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """A few rows of x against BLOCK_N rows of the weight a program; the rows' squares are summed as they pass.

    TURNED: the weight's rows are those of the product, so that they fill the matrix units and x need not.
    """
    work = tl.program_id(0)
    tile, split = work // SPLITS, work % SPLITS
    rows = tl.arange(0, BLOCK_M)
    columns = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    start = split * depth
    end = tl.minimum(start + depth, K)
    x_ptrs = x_ptr + tl.where(rows < M, rows, 0).to(tl.int64)[:, None] * x_stride + (start + inner)[None, :]
    w_ptrs = w_ptr + tl.where(columns < N, columns, 0).to(tl.int64)[:, None] * w_stride + (start + inner)[None, :]
    g_ptrs = g_ptr + start + inner
    if TURNED:
        sums = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for k in range(start, end, BLOCK_K):
        if WHOLE_K:
            x = tl.load(x_ptrs)
            w = tl.load(w_ptrs, eviction_policy="evict_first")
        else:
            x = tl.load(x_ptrs, mask=(k + inner)[None, :] < end, other=0.0)
            w = tl.load(w_ptrs, mask=(k + inner)[None, :] < end, other=0.0, eviction_policy="evict_first")
        wide = x.to(tl.float32)
        squares += tl.sum(wide * wide, axis=1)
        if NORM_WEIGHT:
            g = tl.load(g_ptrs) if WHOLE_K else tl.load(g_ptrs, mask=k + inner < end, other=0.0)
            x = (wide * g.to(tl.float32)[None, :]).to(w.dtype)
        if TURNED:
            sums = tl.dot(w, x.T, sums)
        else:
            sums = tl.dot(x, w.T, sums)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
        g_ptrs += BLOCK_K
    if TURNED:
        sums = sums.T
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    place = rows.to(tl.int64)[:, None] * N + columns[None, :]
    if SPLITS == 1:
        rstd = tl.rsqrt(squares / K + eps)
        tl.store(y_ptr + place, (sums * rstd[:, None]).to(y_ptr.dtype.element_ty), mask=inside)
    else:
        tl.store(y_ptr + split.to(tl.int64) * M * N + place, sums, mask=inside)


@triton.jit
def _join_kernel(
    x_ptr, part_ptr, y_ptr, M, N, K, x_stride, eps,
    SPLITS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The sum of SPLITS shares and the norm of the row: BLOCK_N columns of one row a program."""
    row = tl.program_id(0) % M
    columns = tl.program_id(0) // M * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    x = tl.load(x_ptr + row * x_stride + inner, mask=inner < K, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / K + eps)
    sums = tl.zeros((BLOCK_N,), tl.float32)
    for split in tl.static_range(SPLITS):
        sums += tl.load(part_ptr + (split * M + row) * N + columns, mask=columns < N, other=0.0)
    tl.store(y_ptr + row * N + columns, (sums * rstd).to(y_ptr.dtype.element_ty), mask=columns < N)


@triton.jit
def _rstd_kernel(x_ptr, rstd_ptr, M, K, x_stride, eps, BLOCK_K: tl.constexpr, ROWS: tl.constexpr):
    """1 / √(mean of squares + eps) of each row."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, BLOCK_K)
    mask = (rows < M)[:, None] & (inner < K)[None, :]
    x = tl.load(x_ptr + rows.to(tl.int64)[:, None] * x_stride + inner[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(rstd_ptr + rows, tl.rsqrt(tl.sum(x * x, axis=1) / K + eps), mask=rows < M)
