"""Rows that begin anywhere, read and written 16 bytes at a time all the same.

A row of 50,257 16-bit columns begins at an address that no 16 bytes divide, another one for each row. Such a row is
taken from the last address before it that they do divide: `shift` elements earlier. So lane l of a tile stands for
column start + l − shift. The first and the last 16 bytes of a row may hold elements of its neighbours, or up to 14
bytes beyond the tensor's last: these are read, since memory is handed out by 16 bytes and more, but never written or
used.
"""

import triton
import triton.language as tl


@triton.jit
def aligned_row(ptr, start):
    """(pointer to the aligned address at or before element `start` of an aligned `ptr`, elements in between)."""
    AT_ONCE: tl.constexpr = 128 // ptr.dtype.element_ty.primitive_bitwidth
    shift = (start % AT_ONCE).to(tl.int32)
    return tl.multiple_of(ptr + (start - shift), 16), shift


@triton.jit
def read_shifted(
    row_ptr, shift, start,
    N: tl.constexpr, BLOCK: tl.constexpr, INTERIOR: tl.constexpr, POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """BLOCK lanes from `start`, BEYOND where they stand for no column. INTERIOR: all of them do, whatever the shift."""
    AT_ONCE: tl.constexpr = 128 // row_ptr.dtype.element_ty.primitive_bitwidth
    lanes = start + tl.arange(0, BLOCK)
    if INTERIOR:
        return tl.load(row_ptr + lanes, eviction_policy=POLICY)
    x = tl.load(row_ptr + lanes, mask=lanes // AT_ONCE * AT_ONCE < N + shift, other=BEYOND, eviction_policy=POLICY)
    beyond = tl.full((BLOCK,), BEYOND, tl.float32).to(x.dtype)
    return tl.where((lanes >= shift) & (lanes < N + shift), x, beyond)


@triton.jit
def write_shifted(
    row_ptr, shift, start, y,
    N: tl.constexpr, BLOCK: tl.constexpr, INTERIOR: tl.constexpr, PASSING: tl.constexpr = False,
):  # fmt: skip
    """As `read_shifted` reads, rounded to the row's dtype: 16 bytes at once, but the row's ends element by element."""
    AT_ONCE: tl.constexpr = 128 // row_ptr.dtype.element_ty.primitive_bitwidth
    MODIFIER: tl.constexpr = ".cs" if PASSING else ""
    lanes = start + tl.arange(0, BLOCK)
    y = y.to(row_ptr.dtype.element_ty)
    if INTERIOR:
        tl.store(row_ptr + lanes, y, cache_modifier=MODIFIER)
    else:
        first = lanes // AT_ONCE * AT_ONCE
        whole = (first >= shift) & (first + AT_ONCE <= N + shift)
        tl.store(row_ptr + lanes, y, mask=whole, cache_modifier=MODIFIER)
        tl.store(row_ptr + lanes, y, mask=(lanes >= shift) & (lanes < N + shift) & (whole == 0))
