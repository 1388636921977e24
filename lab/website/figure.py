"""A number on a page: its text, the value behind it, and the pointer to that value in the page's data.json.

And sentences with such numbers in them: 'Of {counts/claims} claims {counts/changed} came out otherwise.'
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any

from lab.quantities import unit_of
from lab.website import format


@dataclass(slots=True, unsafe_hash=True)
class Figure:
    """`source` is a JSON pointer; the template writes it beside the text, so that a reader or a test can follow it.

    Nobody changes one. It is not frozen because a page has hundreds, and to make a frozen one takes thrice as long.
    """

    text: str
    value: float | int | str
    source: str


Sentence = tuple[Figure | str, ...]


Show = Callable[[Any], str]
PLACE = re.compile(r"\{([^{}:]+)(?::(\w+))?\}")  # of a figure in a sentence


@cache
def usual(name: str) -> Show:
    """How a datum of that name is shown where nothing else is said: a quantity in its unit, anything else as it is."""
    unit = unit_of(name)
    return unit.text if unit.symbol or unit.places is not None else str


class DataView:
    """Takes figures out of published data, so that no page shows a number that the data does not hold."""

    def __init__(self, data: Any, at: str = "") -> None:
        """`at` is the pointer to the data, where they are a part of what was published; with a file and '#' before it
        where that is not the file beside the page."""
        self._data = data
        self._at = at

    @property
    def place(self) -> str:
        """The pointer to the data."""
        return self._at

    def at(self, *path: str) -> "DataView":
        """Of what stands at `path`: figures that have the beginning of their pointers in common."""
        return DataView(self.value(*path), self._at + pointer(*path))

    def figure(self, *path: str, show: Show | None = None) -> Figure | None:
        """The value at `path`, shown as its quantity is, unless `show` is given; None where the data has none."""
        value = self.value(*path)
        if value is None:
            return None
        return Figure((show or usual(path[-1]))(value), value, self._at + pointer(*path))

    def value(self, *path: str) -> Any:
        node: Any = self._data
        try:
            for name in path:
                node = node[name]
        except KeyError:
            return None
        except TypeError:  # no object
            return self._within(path)
        return node

    def figures(self, *path: str) -> tuple[Figure, ...]:
        """Every value of the list at `path`; none where there is no list."""
        at, show = self._at + pointer(*path), usual(path[-1])
        return tuple(
            Figure(show(value), value, f"{at}/{number}") for number, value in enumerate(self.value(*path) or ())
        )

    def amount(self, *path: str) -> Figure | None:
        """The value at `path`, which has its unit beside it; None where there is none."""
        amount = self.value(*path) or {}
        return self.figure(*path, "value", show=lambda value: format.amount(value, amount["unit"]))

    def sentence(self, *path: str) -> Sentence:
        """The list at `path`, of texts and amounts."""
        words = enumerate(self.value(*path))
        return tuple(each if isinstance(each, str) else self.amount(*path, str(place)) or "–" for place, each in words)

    def _within(self, path: tuple[str, ...]) -> Any:
        """The value at a path that leads through a list."""
        node: Any = self._data
        for name in path:
            if isinstance(node, Mapping):
                node = node.get(name)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node

    def ratio(self, *path: str, brief: bool = False) -> Figure | None:
        """The ratio of a comparison at `path`, with the decimals that its interval warrants, or for running text."""
        node = self.value(*path) or {}
        if node.get("ratio") is None:
            return None
        text = format.ratio(node["ratio"], node["low"], node["high"], self._threshold(path), brief)
        return Figure(text, node["ratio"], f"{self._at}{pointer(*path)}/ratio")

    def interval(self, *path: str, brief: bool = False) -> Figure | None:
        """The interval of a comparison at `path`; its value is the lower end."""
        node = self.value(*path) or {}
        if node.get("low") is None:
            return None
        text = format.interval(node["low"], node["high"], self._threshold(path), brief)
        return Figure(text, node["low"], f"{self._at}{pointer(*path)}/low")

    def end(self, claim: str, *name: str, show: Callable[[float], str]) -> Figure | None:
        """A ratio of a claim, such as its smallest, never rounded onto its threshold or across it."""
        path = ("claims", claim, *name)
        return self.figure(*path, show=format.beside(self._threshold(path), show))

    def _threshold(self, path: tuple[str, ...]) -> float | None:
        """What the claim asks for that a figure is of; None of a figure that no claim is about."""
        threshold: float | None = self.value("claims", path[1], "threshold") if path[:1] == ("claims",) else None
        return threshold


@lru_cache(maxsize=1 << 14)  # many pages show one datum
def pointer(*path: str) -> str:
    """RFC 6901: '/claims/x/status', and '/kernels/0' for an element of a list."""
    joined = "/".join(path)
    if "~" not in joined and joined.count("/") == len(path) - 1:
        return "/" + joined
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)


def sentence(view: DataView, text: str, **shows: Show) -> Sentence:
    """Each path in braces becomes the figure of what stands there, or a dash where nothing does. `{path:name}` is shown
    in the way that is handed over under that name."""
    parts = PLACE.split(text)
    places = zip(parts[1::3], parts[2::3], strict=True)
    figures = (view.figure(*path.split("/"), show=shows.get(name)) or "–" for path, name in places)
    return tuple(part for pair in zip_longest(parts[::3], figures, fillvalue="") for part in pair if part)


def joined(parts: Iterable[Sequence[Any]], between: str) -> tuple[Any, ...]:
    """One after the other, with these words between them."""
    return tuple(word for part in parts for word in (between, *part))[1:]


def span(least: Figure | None, most: Figure | None) -> Sentence:
    """'1.18× to 1.53×'; one of the two where they read alike, or where there is one."""
    if least is None or most is None or least.text == most.text:
        return tuple(end for end in (least or most,) if end)
    return least, " to ", most


def extremes(figures: Iterable[Figure | None]) -> Sentence:
    """The span from the smallest of them to the largest."""
    known = [figure for figure in figures if figure]
    least, most = (end(known, key=lambda figure: figure.value, default=None) for end in (min, max))
    return span(least, most)
