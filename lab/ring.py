"""The input sets that timed calls go round, each with a hidden twin that tells what its contents must be.

Before every timed call one random stretch of the call's set changes its sign, in the set and in its twin. A
result that was remembered, under whatever key, is wrong from then on; a true one costs nothing more.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from lab.tensors import copied, same

STRETCH = 256  # elements of a one-dimensional input that change together; otherwise one row

Arguments = tuple[Any, ...]


class Ring:
    """Input sets by index. Profiles see `arguments`; the twins stay here."""

    def __init__(self, sets: Sequence[Arguments], shuffler: random.Random) -> None:
        self._sets = tuple(sets)
        self._twins = tuple(copied(arguments) for arguments in sets)
        self._shuffler = shuffler
        self._stretch: slice | None = None

    def __len__(self) -> int:
        return len(self._sets)

    def arguments(self, index: int) -> Arguments:
        return self._sets[index]

    def prepare(self, index: int, restore: bool) -> None:
        """Choose what will change, and change the twin. `restore`: first undo what an in-place call did."""
        if restore:
            self.mend((index,))
        target = _target(self._twins[index])
        if target is not None:
            width = target.shape[-1] if target.dim() > 1 else min(STRETCH, target.numel())
            start = width * self._shuffler.randrange(target.numel() // width)
            self._stretch = slice(start, start + width)
            target.view(-1)[self._stretch].neg_()

    def touch(self, index: int) -> None:
        """Change the set as `prepare` changed its twin."""
        target = _target(self._sets[index])
        if target is not None:
            target.view(-1)[self._stretch].neg_()

    def pristine(self, index: int) -> Arguments:
        """A copy of what the set holds, if nobody but this ring wrote to it."""
        twin: Arguments = copied(self._twins[index])
        return twin

    def mend(self, indices: Iterable[int]) -> bool:
        """Put the sets right; whether any of them had been written to."""
        written = False
        for index in set(indices):
            for mine, twin in zip(self._sets[index], self._twins[index], strict=True):
                if isinstance(mine, Tensor) and not same(mine, twin):
                    mine.copy_(twin)
                    written = True
        return written


def copies(sets: Sequence[Arguments], count: int) -> list[Arguments]:
    """`count` sets: the given ones, then copies of them in turn, so that together they outgrow the cache."""
    return [*sets, *(copied(sets[index % len(sets)]) for index in range(len(sets), count))]


def _target(arguments: Arguments) -> Tensor | None:
    """The first floating tensor: what an operator works on."""
    return next((item for item in arguments if isinstance(item, Tensor) and item.is_floating_point()), None)
