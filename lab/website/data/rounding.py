"""The digits of published data: enough for any reader, few enough that every machine computes the same ones."""

import math
from typing import Any

DIGITS = 7


def rounded(value: Any) -> Any:
    """A float with so many digits, None where it is not finite; anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
