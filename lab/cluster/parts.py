"""Which GPU measures what. Parts of a sweep are whole cases, so that a ratio is of one process on one board. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.supervisor.run_state import Key

Place = tuple[str, str]  # experiment, case


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of one sweep that one process measures. `losses`: how many GPUs were lost with it."""

    sweep: int
    wanted: tuple[Key, ...]
    losses: int = 0

    @property
    def name(self) -> str:
        return f"sweep {self.sweep + 1}"

    @property
    def places(self) -> frozenset[Place]:
        return frozenset((experiment, case) for experiment, case, _ in self.wanted)


def deal(sweep: int, wanted: Sequence[Key], count: int) -> list[Part]:
    """The cells in as many parts, about as many cells in each; fewer where there are fewer cases. None is empty."""
    cells = Counter((experiment, case) for experiment, case, _ in wanted)
    shares: list[set[Place]] = [set() for _ in range(count)]
    sizes = [0] * count
    for place, size in sorted(cells.items(), key=lambda item: -item[1]):
        least = min(range(count), key=lambda number: sizes[number])
        shares[least].add(place)
        sizes[least] += size
    parts = (Part(sweep, tuple(key for key in wanted if key[:2] in share)) for share in shares)
    return [part for part in parts if part.wanted]


def next_part(waiting: Sequence[Part], measured: Mapping[Place, int]) -> Part:
    """What a GPU does next: of the first sweep, the part that it has measured least, so that boards take turns.

    `measured`: how often this GPU has measured each case.
    """
    return min(
        waiting, key=lambda part: (part.sweep, sum(measured.get(place, 0) for place in part.places) / len(part.places))
    )


def sweeps_after(part: Part, waiting: Iterable[Part]) -> list[int]:
    """The sweeps that a GPU may expect to measure parts of after this one."""
    return sorted({other.sweep for other in waiting if other.sweep > part.sweep})


def lacking_of(part: Part, lacking: Collection[Key]) -> Part:
    """What is left of a part after its GPU was lost."""
    return Part(part.sweep, tuple(key for key in part.wanted if key in lacking), part.losses + 1)
