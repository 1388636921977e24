"""Conversion of float32 to float8: rounded to the nearest, ties to even, clamped to the range.

float8_e4m3fn: 3 bits of mantissa, largest 448, no infinity. float8_e5m2: 2 bits of mantissa, largest finite 57,344.
Definition: Micikevicius and others, "FP8 Formats for Deep Learning", 2022.
"""

import torch
import triton
import triton.language as tl

from lab.kernels.checks import interpreting

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57_344.0}
# The smallest scale, for a row of zeros too. Its reciprocal is finite, and so is that times any number below it.
SMALLEST_SCALE = 2.0**-126

_INTERPRETED = tl.constexpr(interpreting())
_MAGNITUDE = tl.constexpr(0x7FFFFFFF)  # a float32's bits without the sign
_INFINITY = tl.constexpr(0x7F800000)
_SMALLEST_SCALE = tl.constexpr(SMALLEST_SCALE)


@triton.jit
def magnitude_bits(x):
    """The bits of |x| as an integer. Integers order as the values do, with NaN above infinity: a maximum keeps NaN."""
    return x.to(tl.int32, bitcast=True) & _MAGNITUDE


@triton.jit
def scale_of(bits, LARGEST: tl.constexpr):
    """The scale, largest |x| / LARGEST or the smallest one, from the bits of the largest |x|; NaN stays NaN."""
    scale = tl.div_rn(bits.to(tl.float32, bitcast=True), LARGEST)
    return tl.where(scale < _SMALLEST_SCALE, _SMALLEST_SCALE, scale)


@triton.jit
def to_float8(x, DTYPE: tl.constexpr):
    """`x`, float32, converted to DTYPE. Done by hand in Triton's interpreter, which loses carries and NaN."""
    if _INTERPRETED:
        return _to_float8_by_hand(x, DTYPE)
    else:
        return x.to(DTYPE)


@triton.jit
def _to_float8_by_hand(x, DTYPE: tl.constexpr):
    MANTISSA: tl.constexpr = DTYPE.fp_mantissa_width
    BIAS: tl.constexpr = DTYPE.exponent_bias
    MOST: tl.constexpr = 0x7E if MANTISSA == 3 else 0x7B
    DROPPED: tl.constexpr = 23 - MANTISSA
    bits = magnitude_bits(x)
    # Add half of the dropped bits' range, less one if the last kept bit is even: ties go to even, carries included.
    rounded = (bits + (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1)) >> DROPPED
    normal = rounded - ((127 - BIAS) << MANTISSA)
    # For a number of this size the last place of a float32 is one step of float8's subnormals.
    ANCHOR: tl.constexpr = 2.0 ** (24 - BIAS - MANTISSA)
    below = magnitude_bits(bits.to(tl.float32, bitcast=True) + ANCHOR) - ((24 - BIAS - MANTISSA + 127) << 23)
    code = tl.where(bits < ((128 - BIAS) << 23), below, tl.minimum(normal, MOST))
    code = tl.where(bits > _INFINITY, 0x7F, code)
    sign = (x.to(tl.int32, bitcast=True) >> 24) & 0x80
    return (code | sign).to(tl.uint8).to(DTYPE, bitcast=True)
