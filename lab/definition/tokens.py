"""How many tokens one call of an operator reads or makes, so that its times can be shown as tokens a second.

The project names them in `experiments/tokens.py`. They are no part of a plan: they change no measurement, and hold for
runs that were measured before they were named.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """`axes` of a case's shape, whose product is the number of tokens."""

    operator: str
    axes: tuple[int, ...]

    def of(self, shape: Sequence[int]) -> int:
        return math.prod(shape[axis] for axis in self.axes)
