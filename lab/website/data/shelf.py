"""Judged experiments that are read when asked for, and forgotten again: thousands do not fit into memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

from lab.evidence.codec import digest, to_data
from lab.website.data.judged import Judged

AT_HAND = 128  # experiments that stay in memory, a third of a megabyte each


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """An experiment that can be loaded. Of two with one `key`, everything is the same."""

    name: str
    key: str
    finished_utc: str
    fullness: tuple[Any, ...]  # the larger, the fuller its evidence
    cites: bool  # whether its registered prose refers to results
    load: Callable[[], Judged]


def held(item: Judged) -> Held:
    """One that is in memory."""
    key = digest([to_data(item.plan), item.as_json()])
    return Held(
        name=item.plan.name, key=key, finished_utc=item.finished_utc, fullness=item.fullness, cites=item.cites,
        load=lambda: item,
    )  # fmt: skip


@lru_cache(maxsize=AT_HAND)
def _load(held: Held) -> Judged:
    return held.load()


def shelf(items: Sequence[Judged]) -> "Shelf":
    return items if isinstance(items, Shelf) else Shelf(tuple(map(held, items)))


def named(items: Sequence[Judged], name: str) -> Sequence[Judged]:
    """Those of one experiment, without loading the others where they are on a shelf."""
    if isinstance(items, Shelf):
        return Shelf(items.by_name().get(name, ()))
    return tuple(item for item in items if item.plan.name == name)


class DataByName(Mapping[str, Mapping[str, Any]]):
    """The data of experiments, by name; of one only that somebody asks for."""

    def __init__(self, held: Sequence[Held]) -> None:
        self._held = {each.name: each for each in held}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return _load(self._held[name]).data

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Shelf(Sequence[Judged]):
    """Looks like the experiments themselves."""

    def __init__(self, held: Sequence[Held]) -> None:
        self.held = tuple(held)
        self._by_name: dict[str, list[Held]] = {}

    def by_name(self) -> Mapping[str, Sequence[Held]]:
        if not self._by_name:
            for held in self.held:
                self._by_name.setdefault(held.name, []).append(held)
        return self._by_name

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Judged]:
        return map(_load, self.held)

    @overload
    def __getitem__(self, index: int) -> Judged: ...
    @overload
    def __getitem__(self, index: slice) -> "Shelf": ...
    def __getitem__(self, index: int | slice) -> "Judged | Shelf":
        return Shelf(self.held[index]) if isinstance(index, slice) else _load(self.held[index])
