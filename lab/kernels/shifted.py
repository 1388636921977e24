"""Reads and writes rows that begin at any address 16 bytes at a time.

Rows of 50,257 16-bit columns begin at addresses that are not multiples of 16, with another remainder for each row. A
tile of such a row begins at the multiple of 16 before it, `shift` elements earlier, so lane l of a tile is column
start + l − shift. The first and the last 16 bytes of a row may include elements of neighbouring rows, or up to 14 bytes
beyond the tensor. These are read, which is safe because memory is allocated in multiples of 16 bytes, but never used or
written.
"""

import triton
import triton.language as tl


@triton.jit
def aligned_row(ptr, start):
    """(pointer to the multiple of 16 bytes at or before element `start` of an aligned `ptr`, elements in between)."""
    AT_ONCE: tl.constexpr = 128 // ptr.dtype.element_ty.primitive_bitwidth
    shift = (start % AT_ONCE).to(tl.int32)
    return tl.multiple_of(ptr + (start - shift), 16), shift


@triton.jit
def read_shifted(
    row_ptr, shift, start,
    N: tl.constexpr, BLOCK: tl.constexpr, INTERIOR: tl.constexpr, POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """BLOCK lanes from `start`; lanes that are no column of the row get the value BEYOND. INTERIOR: all are columns."""
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
    """Write BLOCK lanes from `start`, rounded to the row's dtype: 16 bytes at once, single elements at its ends."""
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
