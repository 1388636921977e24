"""The word for where an implementation stands at a case: the same on every page, in data and in pictures. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lab.verdict.judge import is_tie

Call = Literal["best", "best?", "tie", "slower", "unproven"]
FIRST: tuple[Call, ...] = ("best", "tie", "best?")  # who shares the first place, or may


def call(*, proven: bool, level: bool, low: float, high: float) -> Call:
    """Of one that is not the fastest, by the interval of its time over the fastest's: 'tie' where all of it is within
    2 %, 'slower', or 'unproven' where it may or may not be within 2 %."""
    if proven and not level:
        return "slower"
    return "tie" if proven and is_tie(low, high) else "unproven"


def call_of(place: Mapping[str, Any]) -> Call:
    """The same of a place as data have it; of one without an interval by the medians."""
    low, high = (place.get(end) or place["times_fastest"] for end in ("low", "high"))
    return call(proven=place["proven"], level=place["level"], low=low, high=high)


def call_of_fastest(others: Iterable[Call]) -> Call:
    """Of the one with the lowest median, by the calls of the others: 'best?' where none is shown to be as fast, but
    some may be."""
    present = set(others)
    return "tie" if "tie" in present else "best?" if "unproven" in present else "best"
