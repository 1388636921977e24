"""A copy of the first rows of a matrix, y = x[:rows]. Memory bandwidth limits it.

x: (rows + spare, N)   y: (rows, N), float16, bfloat16 or float32. It can also copy some of the spare rows to memory
behind y that is not returned: known extra traffic with the same result. The lab tests itself with it: does it find a
difference in time that is known?
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.traffic import Traffic

# The fixed part of a call's time, in bytes: the intercept divided by the slope of a straight line through `stream`'s
# time over its bytes at several sizes. The launch makes it larger; data that has not left the cache when the call
# ends makes it smaller. On an H100 the two nearly cancel: -0.2 µs at 3.0 TB/s. Measure it again on another GPU model.
OVERHEAD_BYTES = -640_000
SPARE_SHARE = 1 / 16
BLOCK = 2048


@triton.jit
def _stream_kernel(x_ptr, y_ptr, elements, BLOCK: tl.constexpr):
    """BLOCK elements a program. Programs are small and many, so that the time grows evenly with their number."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


def stream(x: Tensor, rows: int, extra_rows: int = 0) -> Tensor:
    """A copy of the first `rows` rows of `x`, in one kernel launch that moves `extra_rows` more than it returns.

    x: (at least rows + extra_rows, N), contiguous. Returns a new tensor (rows, N) of its dtype: with extra rows,
    a view of the first part of a larger one. Raises TypeError or ValueError naming the argument, what it was
    and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    check_tensor("stream", "x", x)
    if x.dim() != 2 or not x.is_contiguous():
        raise ValueError(f"stream: x has shape {tuple(x.shape)}; accepted is (rows, N), contiguous")
    for name, value, most in (("rows", rows, len(x)), ("extra_rows", extra_rows, len(x) - rows)):
        if not 0 <= value <= most:
            raise ValueError(f"stream: {name} is {value}; accepted are 0 to {most}, as x has {len(x)} rows")
    y = torch.empty((rows + extra_rows, x.shape[1]), dtype=x.dtype, device=x.device)
    if y.numel():
        _stream_kernel[(triton.cdiv(y.numel(), BLOCK),)](x, y, y.numel(), BLOCK=BLOCK, num_warps=4)
    return y[:rows]


def extra_rows(x: Tensor, rows: int, share: float) -> int:
    """How many extra rows lengthen a call by `share` of its whole time, at most those that `x` has to spare.

    If the matrix is so small that the fixed part dominates, `x` has too few, and the call grows by less.
    """
    row_bytes = 2 * x.shape[1] * x.itemsize
    return min(len(x) - rows, max(0, round((rows + OVERHEAD_BYTES / row_bytes) * share)))


def stream_reference(x: Tensor, rows: int) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x[:rows].double()


def stream_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, int]:
    """(x, rows) for shape (rows, N): normal data, with a sixteenth of the rows (at least one) to spare."""
    rows, N = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((rows + max(1, round(rows * SPARE_SHARE)), N), dtype=dtype, device=device, generator=generator)
    return x, rows


def stream_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (rows, N): read the rows of the result once, write them once."""
    rows, N = shape
    return Traffic(read_bytes=rows * N * itemsize, written_bytes=rows * N * itemsize, flops=0)
