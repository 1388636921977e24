"""The samples of a cell in one sweep, packed: 8 bytes each instead of about 40 in a tuple of floats."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from statistics import median
from typing import Any


class PackedRounds(Sequence[tuple[float, ...]]):
    """Rounds of samples in seconds. Equal to a tuple of tuples that holds the same."""

    __slots__ = ("_bounds", "_medians", "empty", "seconds")
    empty: frozenset[int]  # the numbers of rounds without a sample
    seconds: "array[float]"  # of all rounds, one after another

    def __init__(self, rounds: Sequence[Sequence[float]]) -> None:
        # From a list, because array over-allocates for an iterator.
        self.seconds = array("d", list(chain.from_iterable(rounds)))
        self._bounds, self.empty = _bounds(tuple(map(len, rounds)))
        self._medians: array[float] | None = None

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self)[number]
        begin, end = self._bounds[number]
        return tuple(self.seconds[begin:end])

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        return (tuple(self.seconds[begin:end]) for begin, end in self._bounds)

    @property
    def medians(self) -> "array[float]":
        """Of each round, where none is empty; found once, for a profile is compared with many."""
        if self._medians is None:
            self._medians = array("d", list(map(median, self)))
        return self._medians

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Iterable) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@lru_cache(maxsize=1024)  # most cells of a run have as many samples as each other, and share these
def _bounds(lengths: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], frozenset[int]]:
    """Where each round begins and ends, and which of them are empty."""
    empty = frozenset(number for number, length in enumerate(lengths) if not length)
    return tuple(pairwise(accumulate(lengths, initial=0))), empty
