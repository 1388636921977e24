"""Rows too wide for a program's registers, as tiles: the first HELD stay on chip, the rest is read a second time.

A thread keeps the values that it holds packed, as they came: 16-bit ones need half a register each. The rest comes from
L2 the second time, as long as what all running programs still need of their rows fits there.
"""

import triton
import triton.language as tl


@triton.jit
def read_tile(
    row_ptr, start,
    N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, POLICY: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """BLOCK columns of the row from `start`, BEYOND beyond N."""
    columns = start + tl.arange(0, BLOCK)
    mask = columns < N if MASKED else None
    return tl.load(row_ptr + columns, mask=mask, other=BEYOND if MASKED else None, eviction_policy=POLICY)


@triton.jit
def write_tile(
    row_ptr, start, y,
    N: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, PASSING: tl.constexpr = False,
):  # fmt: skip
    """BLOCK columns of the row from `start`, rounded to its dtype. PASSING: they make way in the cache for others, such
    as are still to be read a second time: up to 3 % on an H100."""
    columns = start + tl.arange(0, BLOCK)
    mask = columns < N if MASKED else None
    y = y.to(row_ptr.dtype.element_ty)
    tl.store(row_ptr + columns, y, mask=mask, cache_modifier=".cs" if PASSING else "")


@triton.jit
def read_tiles(
    row_ptr,
    N: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, BEYOND: tl.constexpr = 0.0,
):  # fmt: skip
    """The row's first HELD tiles, as a tuple."""
    tiles = ()
    for tile in tl.static_range(HELD):
        tiles = tiles + (read_tile(row_ptr, tile * BLOCK, N, BLOCK, MASKED, "", BEYOND),)  # type: ignore  # noqa: RUF005
    return tiles


@triton.jit
def lane_sums(x, LANES: tl.constexpr):
    """Sums of neighbouring elements, LANES of them: what one thread loaded together it adds up by itself."""
    return tl.sum(tl.reshape(x, (LANES, x.shape[0] // LANES)), axis=1)


@triton.jit
def lane_maxima(x, LANES: tl.constexpr):
    """As `lane_sums`, the largest of neighbouring elements."""
    return tl.max(tl.reshape(x, (LANES, x.shape[0] // LANES)), axis=1)


@triton.jit
def once_more(x, total):
    """`x` again, `total` being a sum of squares or of exponentials, or a largest magnitude: never below −1, so that
    nothing is changed.

    The compiler cannot know. If it did, it would keep the float32 values that it made for `total`, twice the registers
    of those they were made of, rather than make them again.
    """
    if x.dtype.primitive_bitwidth == 16:
        nothing = (total < -1.0).to(tl.int16)
        x = (x.to(tl.int16, bitcast=True) ^ nothing).to(x.dtype, bitcast=True)
    return x


@triton.jit
def unit(x):
    """One or NaN, which the compiler cannot know: for `once_more`, where no sum is at hand."""
    return tl.exp2(x - x)
