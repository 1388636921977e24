"""Numbers of eight bits, and how a float32 becomes one: rounded to the nearest, ties to even, held within the range.

float8_e4m3fn: 3 bits of mantissa, largest 448, no infinity. float8_e5m2: 2 bits of mantissa, largest finite 57,344.
Definition: Micikevicius and others, "FP8 Formats for Deep Learning", 2022.
"""

import torch
import triton
import triton.language as tl

from lab.kernels.checks import interpreting

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57_344.0}
# The smallest scale: its reciprocal is finite, and so is what it makes of any smaller number. A row of zeros has it.
SMALLEST_SCALE = 2.0**-126

_INTERPRETED = tl.constexpr(interpreting())
_MAGNITUDE = tl.constexpr(0x7FFFFFFF)  # a float32's bits without the sign
_INFINITY = tl.constexpr(0x7F800000)
_SMALLEST_SCALE = tl.constexpr(SMALLEST_SCALE)


@triton.jit
def magnitude_bits(x):
    """The bits of |x|, which are ordered as the values are, NaN above infinity: their maximum forgets no NaN."""
    return x.to(tl.int32, bitcast=True) & _MAGNITUDE


@triton.jit
def scale_of(bits, LARGEST: tl.constexpr):
    """What `LARGEST` stands for where these are the bits of the largest |x|; NaN stays NaN."""
    scale = tl.div_rn(bits.to(tl.float32, bitcast=True), LARGEST)
    return tl.where(scale < _SMALLEST_SCALE, _SMALLEST_SCALE, scale)


@triton.jit
def to_float8(x, DTYPE: tl.constexpr):
    """`x`, float32, in DTYPE. Triton's interpreter neither carries into the exponent nor keeps NaN: there by hand."""
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
    # Half of what is dropped, less one where the last bit that stays is even: so ties go to even, with the carry.
    rounded = (bits + (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1)) >> DROPPED
    normal = rounded - ((127 - BIAS) << MANTISSA)
    # Beside this number a float32's last place is one step of the subnormals.
    ANCHOR: tl.constexpr = 2.0 ** (24 - BIAS - MANTISSA)
    below = magnitude_bits(bits.to(tl.float32, bitcast=True) + ANCHOR) - ((24 - BIAS - MANTISSA + 127) << 23)
    code = tl.where(bits < ((128 - BIAS) << 23), below, tl.minimum(normal, MOST))
    code = tl.where(bits > _INFINITY, 0x7F, code)
    sign = (x.to(tl.int32, bitcast=True) >> 24) & 0x80
    return (code | sign).to(tl.uint8).to(DTYPE, bitcast=True)
