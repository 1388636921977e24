"""The sum over the last axis, y = Σ x. Reading x limits it.

x: (…, N)   y: (…), float16, bfloat16 or float32. All arithmetic is in float32, in an order that depends only on the
shape, and rounded once. One program sums a row of up to WIDEST elements. A longer row is summed in parts, whose float32
sums are then summed in the same way. For the sum of a whole tensor see reduction.py.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.launch import on_device_of
from lab.kernels.traffic import Traffic

WIDEST = 16_384  # elements of a row that one program reads
TILE = 1024  # elements that one program reads at least, from several rows if they are short


@triton.jit
def _row_sum_kernel(
    x_ptr, y_ptr, M, N, row_stride, column_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One part of BLOCK elements of ROWS rows a program, read at once."""
    parts = tl.cdiv(N, BLOCK)
    tile = tl.program_id(0).to(tl.int64)
    part = tile % parts
    rows = tile // parts * ROWS + tl.arange(0, ROWS)
    columns = part * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (rows[:, None] < M) & (columns < N) if MASKED else None
    x = tl.load(x_ptr + rows[:, None] * row_stride + columns * column_stride, mask=mask, other=0.0 if MASKED else None)
    total = tl.sum(x.to(tl.float32), axis=1)
    tl.store(y_ptr + rows * parts + part, total.to(y_ptr.dtype.element_ty), mask=rows < M)


def row_sum(x: Tensor) -> Tensor:
    """The sums over the last axis of `x`, in one kernel launch for up to 16,384 elements a row, two for most longer.

    x: (..., N) of any strides. Returns a new contiguous tensor (...) of its dtype; an empty row sums to 0. Raises
    TypeError or ValueError naming the argument, what it was and what is accepted, and NotImplementedError where a
    gradient would be needed.
    """
    check_tensor("row_sum", "x", x)
    if x.dim() < 1:
        raise ValueError("row_sum: x has shape (); at least one dimension (..., N) is needed")
    if x.numel() == 0:
        return torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)
    y = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    with on_device_of(x):
        _sum_into(y.view(-1), x.reshape(-1, x.shape[-1]))
    return y


def _sum_into(y: Tensor, x: Tensor) -> None:
    """Write the sums of the rows of x, (M, N), to y, (M,)."""
    M, N = x.shape
    block = min(WIDEST, triton.next_power_of_2(N))
    rows = max(1, TILE // block)
    parts = triton.cdiv(N, block)
    sums = y if parts == 1 else torch.empty((M, parts), dtype=torch.float32, device=x.device)
    _row_sum_kernel[(triton.cdiv(M, rows) * parts,)](
        x, sums, M, N, x.stride(0), x.stride(1),
        ROWS=rows, BLOCK=block, MASKED=M % rows != 0 or N % block != 0, num_warps=min(16, rows * block // 512),
    )  # fmt: skip
    if parts > 1:
        _sum_into(y, sums)


def row_sum_reference(x: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x.double().sum(-1)


def row_sum_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def row_sum_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (..., N): read each element once, write each sum once; an addition an element."""
    elements = math.prod(shape)
    return Traffic(read_bytes=elements * itemsize, written_bytes=math.prod(shape[:-1]) * itemsize, flops=elements)
