"""Which timed calls are checked: drawn after each has run, so that no call can know whether it will be."""

from collections.abc import Callable
from os import urandom  # the kernel's: a built-in function, bound before any profile is loaded
from typing import Generic, TypeVar

Sample = TypeVar("Sample")


def below(limit: int) -> int:
    """A number from 0 that is less than `limit`, which nothing in this process decides."""
    return int.from_bytes(urandom(8), "little") % limit


class Reservoir(Generic[Sample]):
    """The call of a block that is checked. `one_in` calls is kept, if any; where that is 0, one that is equally
    likely to be any of them: call number n, from 0, replaces what was kept with a chance of 1 / (n + 1)."""

    def __init__(self, one_in: int) -> None:
        self.kept: Sample | None = None
        self._one_in = one_in
        self._calls = 0

    def offer(self, copy: Callable[[], Sample]) -> bool:
        """A call has run; `copy` tells what is to be known of it. Whether it was asked to."""
        self._calls += 1
        drawn = below(self._one_in or self._calls) == 0
        if drawn:
            self.kept = copy()
        return drawn
