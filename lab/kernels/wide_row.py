"""Rows too wide for a program's registers, as tiles: the first HELD stay in registers, the rest is read a second time.

A thread keeps its values packed in their own dtype: a 16-bit value takes half a register. The rest is read from L2 the
second time, as long as the rows of all running programs fit there.
"""

import triton
import triton.language as tl


@triton.jit
def read_tile(
    row_ptr, start,
    N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """BLOCK columns of the row from `start`, with the value BEYOND for columns beyond N."""
    columns = start + tl.arange(0, BLOCK)
    mask = columns < N if MASKED else None
    return tl.load(row_ptr + columns, mask=mask, other=BEYOND if MASKED else None, eviction_policy=POLICY)


@triton.jit
def write_tile(
    row_ptr, start, y,
    N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, PASSING: tl.constexpr = False,
):  # fmt: skip
    """Write BLOCK columns of the row from `start`, rounded to its dtype. PASSING: with a streaming store, which leaves
    the cache to data that is read a second time: up to 3 % faster on an H100."""
    columns = start + tl.arange(0, BLOCK)
    mask = columns < N if MASKED else None
    y = y.to(row_ptr.dtype.element_ty)
    tl.store(row_ptr + columns, y, mask=mask, cache_modifier=".cs" if PASSING else "")


@triton.jit
def read_tiles(
    row_ptr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """The first HELD tiles of the row, as a tuple."""
    tiles = ()
    for tile in tl.static_range(HELD):
        tiles = tiles + (read_tile(row_ptr, tile * BLOCK, N, BLOCK, MASKED, "", BEYOND),)  # type: ignore  # noqa: RUF005
    return tiles


@triton.jit
def lane_sums(x, LANES: tl.constexpr):
    """LANES sums of neighbouring elements: each thread adds up what it loaded together."""
    return tl.sum(tl.reshape(x, (LANES, x.shape[0] // LANES)), axis=1)


@triton.jit
def lane_maxima(x, LANES: tl.constexpr):
    """LANES maxima of neighbouring elements, as `lane_sums`."""
    return tl.max(tl.reshape(x, (LANES, x.shape[0] // LANES)), axis=1)


@triton.jit
def opaque(x, total):
    """`x` unchanged, but the compiler cannot know that it is.

    total: a sum of squares or of exponentials, or a largest magnitude, which is never below −1. If the compiler knew
    that x is unchanged, it would keep the float32 values that it computed for `total`, in twice the registers of x,
    instead of converting x again.
    """
    if x.dtype.primitive_bitwidth == 16:
        nothing = (total < -1.0).to(tl.int16)
        x = (x.to(tl.int16, bitcast=True) ^ nothing).to(x.dtype, bitcast=True)
    return x


@triton.jit
def opaque_one(x):
    """One or NaN, which the compiler cannot know: for `opaque` if there is no sum."""
    return tl.exp2(x - x)
