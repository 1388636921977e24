"""The word for where an implementation stands at a case: the same on every page, in data and in pictures. Pure.

Data files have it under the key `call`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lab.verdict.judge import is_tie

StandingWord = Literal["best", "best?", "tie", "slower", "unproven"]
SHARES_FIRST: tuple[StandingWord, ...] = ("best", "tie", "best?")  # who shares the first place, or may


def standing_word(*, proven: bool, level: bool, low: float, high: float) -> StandingWord:
    """Of one that is not the fastest, by the interval of its time over the fastest's: 'tie' where all of it is within
    2 %, 'slower', or 'unproven' where it may or may not be within 2 %."""
    if proven and not level:
        return "slower"
    return "tie" if proven and is_tie(low, high) else "unproven"


def standing_word_of(place: Mapping[str, Any]) -> StandingWord:
    """The same of a place as data have it; of one without an interval by the medians."""
    low, high = (place.get(end) or place["times_fastest"] for end in ("low", "high"))
    return standing_word(proven=place["proven"], level=place["level"], low=low, high=high)


def word_of_fastest(others: Iterable[StandingWord]) -> StandingWord:
    """Of the one with the lowest median, by the words of the others: 'best?' where none is shown to be as fast, but
    some may be."""
    present = set(others)
    return "tie" if "tie" in present else "best?" if "unproven" in present else "best"


def doubt(*, ahead: bool) -> str:
    """What to add to the name of a 'best?'. `ahead`: whether each other that may be as fast is shown to be slower."""
    return "perhaps a tie" if ahead else "not shown to be fastest"
