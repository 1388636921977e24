"""RMSNorm and softmax of rows in CUDA C++: the same results as `rmsnorm` and `softmax`, by kernels that nvcc compiles.

A row stays in the registers of a part of a warp, of a block, or of up to sixteen blocks of a cluster, which exchange
their sums through distributed shared memory. The sources are `cuda/rmsnorm.cu` and `cuda/softmax.cu`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton
from torch import Tensor

from lab.kernels.checks import check_rows, check_vector, checked_eps
from lab.kernels.cuda_launch import CudaLaunch, check_on_gpu, is_float_beside, vector_width
from lab.kernels.launch import Launches, as_rows, nothing, result_like

WARP = 32
MOST_BLOCKS = 16  # of a cluster
# The fastest limits on an H200.
WARP_ROW_BYTES = 2048  # up to here a warp, or a part of one, takes a row
TWO_LOADS_BYTES = 16_384  # up to here a block takes a row with two loads a thread; not for softmax
FOUR_LOADS_BYTES = 32_768  # up to here with four loads a thread
BLOCK_BYTES = 65_536  # of a wider row, for one block of a cluster with eight loads: two blocks fit a multiprocessor
UNVECTORED_BLOCK = 4_096  # up to so many columns a block of 512 threads loads them one by one
MAXIMUM_COLUMNS = 262_144  # what the registers of MOST_BLOCKS hold of float32, or of any dtype loaded one by one


@dataclass(frozen=True, slots=True)
class RowShape:
    """How a row is divided.

    vectors: of 16 bytes in a thread. threads: of a block, for one row. rows_per_block. cluster: blocks for one row.
    """

    vectors: int
    threads: int
    rows_per_block: int = 1
    cluster: int = 1

    @property
    def block_threads(self) -> int:
        return self.threads * self.rows_per_block


class _RowPlan(ctypes.Structure):
    """The same fields, in the same order, as `RowPlan` in cuda/rows.cuh."""

    _fields_ = (
        ("rows", ctypes.c_int64), ("stride", ctypes.c_int64), ("columns", ctypes.c_int32), ("width", ctypes.c_int32),
        ("vectors", ctypes.c_int32), ("threads", ctypes.c_int32), ("rows_per_block", ctypes.c_int32),
        ("cluster", ctypes.c_int32), ("weight_is_float", ctypes.c_int32), ("share", ctypes.c_float),
    )  # fmt: skip


def rmsnorm_cuda(x: Tensor, weight: Tensor, eps: float = 1e-6, *, shape: RowShape | None = None) -> Tensor:
    """RMSNorm of the rows of `x`, in one launch of a CUDA C++ kernel.

    x: (..., N) on a GPU, any distance between rows, N from 1 to 262,144. weight: (N,), contiguous, of the dtype of x or
    float32. shape: how rows are divided among threads; if None, by rule. Returns a new contiguous tensor of the shape
    and dtype of `x`. Raises as `rmsnorm` does, and CompilerMissing or CompilerFailed if nvcc cannot compile it.
    """
    launch = _RMSNORM(x, weight, options=(shape,))
    y = result_like(x)
    launch(as_rows(x), weight, y, checked_eps("rmsnorm_cuda", eps))
    return y


def softmax_cuda(x: Tensor, *, shape: RowShape | None = None) -> Tensor:
    """Softmax over the last axis of `x`, in one launch of a CUDA C++ kernel; otherwise as `rmsnorm_cuda`."""
    launch = _SOFTMAX(x, options=(shape,))
    y = result_like(x)
    launch(as_rows(x), y)
    return y


def _settle_rmsnorm(x: Tensor, weight: Tensor, shape: RowShape | None) -> Callable[..., Any]:
    check_rows("rmsnorm_cuda", x, MAXIMUM_COLUMNS)
    check_vector("rmsnorm_cuda", "weight", weight, x)
    check_on_gpu("rmsnorm_cuda", x=x, weight=weight)
    weight_is_float = is_float_beside("rmsnorm_cuda", "weight", weight, x)
    if x.numel() == 0:
        return nothing
    plan, spread = _plan(x, shape, weight)
    plan.weight_is_float = weight_is_float
    return CudaLaunch("rmsnorm", plan, spread, spread.block_threads, x, tensors=3, numbers=1)


def _settle_softmax(x: Tensor, shape: RowShape | None) -> Callable[..., Any]:
    check_rows("softmax_cuda", x, MAXIMUM_COLUMNS)
    check_on_gpu("softmax_cuda", x=x)
    if x.numel() == 0:
        return nothing
    plan, spread = _plan(x, shape, two_loads_bytes=0)
    return CudaLaunch("softmax", plan, spread, spread.block_threads, x, tensors=2)


_RMSNORM = Launches(_settle_rmsnorm)
_SOFTMAX = Launches(_settle_softmax)


def row_shape(N: int, itemsize: int, *, vectored: bool, two_loads_bytes: int = TWO_LOADS_BYTES) -> RowShape:
    """The rule for rows of N elements of `itemsize` bytes.

    vectored: whether 16 bytes can be read at once. two_loads_bytes: the widest row that a block takes with two loads a
    thread, in bytes.
    """
    if not vectored:
        return _unvectored(N)
    count = triton.cdiv(N * itemsize, 16)  # vectors of a row
    if N * itemsize <= WARP_ROW_BYTES:
        vectors = 4 if count > 2 * WARP else 2 if count > WARP else 1
        threads = triton.next_power_of_2(triton.cdiv(count, vectors))
        return RowShape(vectors=vectors, threads=threads, rows_per_block=4 * WARP // threads)
    if N * itemsize <= FOUR_LOADS_BYTES:
        vectors = 2 if N * itemsize <= two_loads_bytes else 4
        return RowShape(vectors=vectors, threads=_whole_warps(triton.cdiv(count, vectors)))
    cluster = triton.next_power_of_2(triton.cdiv(N * itemsize, BLOCK_BYTES))
    return RowShape(vectors=8, threads=_whole_warps(triton.cdiv(count, 8 * cluster)), cluster=cluster)


def _unvectored(N: int) -> RowShape:
    if N <= 4 * WARP:
        threads = triton.next_power_of_2(triton.cdiv(N, 4))
        return RowShape(vectors=4, threads=threads, rows_per_block=4 * WARP // threads)
    if N <= UNVECTORED_BLOCK:
        return RowShape(vectors=8, threads=_whole_warps(triton.cdiv(N, 8)))
    cluster = min(MOST_BLOCKS, max(2, triton.next_power_of_2(triton.cdiv(N, 32 * 512))))
    return RowShape(vectors=32, threads=_whole_warps(triton.cdiv(N, 32 * cluster)), cluster=cluster)


def _whole_warps(threads: int) -> int:
    warps: int = triton.cdiv(threads, WARP)
    return warps * WARP


def _plan(
    x: Tensor, shape: RowShape | None, *others: Tensor, two_loads_bytes: int = TWO_LOADS_BYTES
) -> tuple[_RowPlan, RowShape]:
    rows = x.reshape(-1, x.shape[-1])
    M, N = rows.shape
    aligned = all(other.data_ptr() % 16 == 0 for other in others)
    width = vector_width(rows, sizes=(N, rows.stride(0) if M > 1 else 0)) if aligned else 1
    chosen = shape or row_shape(N, x.element_size(), vectored=width > 1, two_loads_bytes=two_loads_bytes)
    if chosen.vectors * chosen.threads * chosen.cluster * width < N:
        raise ValueError(f"shape: {chosen} holds fewer than the {N} columns of a row")
    plan = _RowPlan(
        rows=M, stride=rows.stride(0), columns=N, width=width, vectors=chosen.vectors, threads=chosen.threads,
        rows_per_block=chosen.rows_per_block, cluster=chosen.cluster, share=1 / N,
    )  # fmt: skip
    return plan, chosen
