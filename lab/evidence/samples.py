"""The samples of a cell in one sweep, packed: 8 bytes each instead of about 40 in a tuple of floats."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any


class PackedRounds(Sequence[tuple[float, ...]]):
    """Rounds of samples in seconds. Equal to a tuple of tuples that holds the same."""

    __slots__ = ("_bounds", "_seconds")

    def __init__(self, rounds: Sequence[Sequence[float]]) -> None:
        self._seconds = array(
            "d", list(chain.from_iterable(rounds))
        )  # from a list, because array over-allocates for an iterator
        self._bounds = _bounds(tuple(map(len, rounds)))

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self)[number]
        begin, end = self._bounds[number]
        return tuple(self._seconds[begin:end])

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        return (tuple(self._seconds[begin:end]) for begin, end in self._bounds)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Iterable) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@lru_cache(maxsize=1024)  # most cells of a run have as many samples as each other, and share these
def _bounds(lengths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Where each round begins and ends."""
    return tuple(pairwise(accumulate(lengths, initial=0)))
