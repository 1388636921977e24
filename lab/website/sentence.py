"""Sentences with figures in them: 'Of {counts/claims} claims {counts/changed} came out otherwise.'"""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from lab.website.figure import DataView, Figure, Sentence, Show

PLACE = re.compile(r"\{([^{}:]+)(?::(\w+))?\}")


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
