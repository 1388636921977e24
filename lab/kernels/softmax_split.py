"""Softmax of few wide rows, each divided among programs: with one program a row most multiprocessors had no work.

Two launches. The first finds the maximum and the sum of every part of a row, the second puts them together and writes.
It reads x again, but from L2, where so few rows stay.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.early import wait_for_previous
from lab.kernels.exponential import exponential
from lab.kernels.launch import Configuration, Launch


@triton.jit
def _softmax_parts_kernel(
    x_ptr, tops_ptr, sums_ptr, x_stride: tl.constexpr,
    N: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """The maximum of PART columns of a row, and the sum relative to it."""
    wait_for_previous()
    x = _read(x_ptr, x_stride, N, PARTS, PART)
    top = tl.max(x, axis=0)
    # If all values are −inf there is nothing to add, and −inf − (−inf) would be NaN.
    anchor = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(exponential(x - anchor, x_ptr.dtype.element_ty == tl.float32), axis=0)
    tl.store(tops_ptr + tl.program_id(0), top)
    tl.store(sums_ptr + tl.program_id(0), total)


@triton.jit
def _softmax_join_kernel(
    x_ptr, y_ptr, tops_ptr, sums_ptr, x_stride: tl.constexpr,
    N: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """PART columns of a row's softmax, from all of the row's maxima and sums; it reads x before those exist."""
    EXACT: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    PADDED: tl.constexpr = triton.next_power_of_2(PARTS)
    x = _read(x_ptr, x_stride, N, PARTS, PART)
    wait_for_previous()
    row, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    parts = tl.arange(0, PADDED)
    tops = tl.load(tops_ptr + row * PARTS + parts, mask=parts < PARTS, other=float("-inf"))
    sums = tl.load(sums_ptr + row * PARTS + parts, mask=parts < PARTS, other=0.0)
    top = tl.max(tops, axis=0)
    shares = tl.where(tops == float("-inf"), 0.0, exponential(tops - top, EXACT))
    scale = 1 / tl.sum(sums * shares, axis=0)
    columns = part * PART + tl.arange(0, PART)
    y = exponential(x - top, EXACT) * scale
    tl.store(y_ptr + row.to(tl.int64) * N + columns, y.to(y_ptr.dtype.element_ty), mask=columns < N)


@triton.jit
def _read(x_ptr, x_stride, N: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr):
    row, part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    columns = part * PART + tl.arange(0, PART)
    return tl.load(x_ptr + row.to(tl.int64) * x_stride + columns, mask=columns < N, other=float("-inf")).to(tl.float32)


def split_launch(x: Tensor, chosen: Configuration) -> Callable[[Tensor, Tensor], None]:
    """Both launches for the rows of `x`, (M, N), PART columns a program: call it with x and y."""
    M, N = x.shape
    parts = triton.cdiv(N, chosen["PART"])
    constants: dict[str, Any] = {
        "x_stride": x.stride(0), "N": N, "PARTS": parts, "PART": chosen["PART"],
    }  # fmt: skip
    first, second = (
        Launch(kernel, M * parts, x.get_device(), num_warps=chosen.num_warps, early=True, **constants)
        for kernel in (_softmax_parts_kernel, _softmax_join_kernel)
    )

    def launch(x: Tensor, y: Tensor) -> None:
        tops = torch.empty(M * parts, dtype=torch.float32, device=x.device)
        sums = torch.empty(M * parts, dtype=torch.float32, device=x.device)
        first(x, tops, sums)
        second(x, y, tops, sums)

    return launch
