"""The exponential, as softmax and the sigmoid need it."""

import math

import triton
import triton.language as tl

LOG2_E = tl.constexpr(math.log2(math.e))
# Ln 2 in two parts: the first has so few digits that its product with a whole number is exact. The number that rounds
# to a whole one when it is added holds the bias of float32's exponent too.
LN_2_HIGH = tl.constexpr(0.693359375)
LN_2_LOW = tl.constexpr(math.log(2) - 0.693359375)
ROUNDING = tl.constexpr(1.5 * 2**23 + 127)
LARGEST_POWER = tl.constexpr(1.5 * 2**23 + 127 + 127)  # of 2 in float32, as it stands in the exponent
SMALLEST_POWER = tl.constexpr(1.5 * 2**23 + 127 - 126)


@triton.jit
def exponential(z, EXACT: tl.constexpr):
    """e^z in float32; −inf gives 0.

    The GPU's 2^z is exact to two epsilons, but a product with log₂e is rounded: the error grows with the distance of z
    from 0, to dozens of epsilons at −87. EXACT: 2^n · e^r with |r| ≤ ½ ln 2, which stays within a few wherever the
    result is a normal number. Results of 16 bits do not need it.
    """
    if not EXACT:
        return tl.exp2(z * LOG2_E)
    biased = tl.minimum(tl.maximum(z * LOG2_E + ROUNDING, SMALLEST_POWER), LARGEST_POWER)
    whole = biased - ROUNDING
    rest = (z - whole * LN_2_HIGH) - whole * LN_2_LOW
    scale = (biased.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return tl.exp2(rest * LOG2_E) * scale
