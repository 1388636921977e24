"""How every implementation stands at a case: by its time over the fastest's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.definition.families import families_of
from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.data.published_clocks import apart
from lab.website.data.standing_words import SHARES_FIRST, StandingWord, standing_word, word_of_fastest
from lab.website.figure import DataView, Figure, Sentence

SERIOUS = 2.0  # times the fastest's time, at some case: who never comes so near is no rival
BAND = (1.0, 1 + EQUIVALENCE_MARGIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """How one implementation stands at a case: its time over the fastest's, with the interval, and in a word."""

    ratio: Figure | None  # None of the fastest
    interval: Figure | None  # None where the run's data hold none
    medians: Figure | None  # the quotient of the two medians, where it is off the ratio
    value: float
    low: float
    high: float
    word: StandingWord


Standing = Mapping[str, Mapping[str, Rival]]  # by case and implementation


def standings(item: Judged, view: DataView, scope: str = SCOPE) -> Standing:
    """How everybody stands who was timed."""
    return {case.name: rivals(item, case, view, scope) for case in item.plan.included_cases}


def serious_rivals(item: Judged, scope: str = SCOPE) -> set[tuple[str, str]]:
    """(operator, implementation): who comes within SERIOUS times the time of the fastest at some case of it."""
    return {
        (case.op, profile)
        for case in item.plan.included_cases
        for profile, place in item.places(case.name, scope).items()
        if place.times_fastest <= SERIOUS
    }


def rivals(item: Judged, case: PlannedCase, view: DataView, scope: str = SCOPE) -> dict[str, Rival]:
    """Everybody who was timed at a case, by the ratio to the one with the lowest median, as in the grid of the front
    page: of rounds timed one after the other, and of medians where the data hold no such ratio.
    """
    places = item.places(case.name, scope)
    if not places:
        return {}
    fastest = next(iter(places))
    rivals_here = {}
    for number, (name, place) in enumerate(places.items()):
        path = _comparison(case, view, scope, fastest, name)
        speedup = view.value(*path) or {}
        medians = view.figure("places", case.name, scope, str(number), "times_fastest", show=format.times)
        ratio = None if name == fastest else view.figure(*path, "ratio") or medians
        value = float(ratio.value) if ratio else 1.0
        low, high = speedup.get("low") or value, speedup.get("high") or value
        rivals_here[name] = Rival(
            ratio=ratio, interval=view.interval(*path), medians=_if_apart(medians, ratio),
            value=value, low=low, high=high,
            word=standing_word(proven=place.proven, level=place.level, low=low, high=high),
        )  # fmt: skip
    rivals_here[fastest] = replace(rivals_here[fastest], word=_word_of_fastest(item, fastest, rivals_here))
    return dict(sorted(rivals_here.items(), key=lambda pair: pair[1].value))


def against_best(rival: Rival) -> Sentence:
    """'tie', '1.08×', and '1.34× ? (1.14×)' where it may be a tie and the two medians say another ratio; 'level ?' of
    one that is ahead round by round, though not by its median: a ratio below 1 would read as a mistake."""
    if rival.word in SHARES_FIRST or not rival.ratio:
        return (rival.word,) if rival.word in SHARES_FIRST else ()
    doubt = (" ?",) if rival.word == "unproven" else ()
    told = "level" if doubt and rival.value < 1 else rival.ratio
    return (told, *doubt, *((" (", rival.medians, ")") if rival.medians else ()))


def _if_apart(medians: Figure | None, ratio: Figure | None) -> Figure | None:
    """In tables, by more than what counts as equal; the page of a case tells more."""
    if not medians or not ratio:
        return None
    return medians if apart(float(medians.value), float(ratio.value), EQUIVALENCE_MARGIN) else None


def _comparison(case: PlannedCase, view: DataView, scope: str, fastest: str, name: str) -> tuple[str, ...]:
    """Where the data hold the speed-up of the fastest over another. Everybody is compared with everybody in
    device_cold alone; in another scope the one that leads the families is compared with those of the others.
    """
    if scope == SCOPE:
        return "against", case.name, fastest, name
    leading = [each["profile"] for each in view.value("contest", case.name, scope) or ()]
    place = leading.index(name) if name in leading and leading[0] == fastest else 0  # the first is compared with none
    return "contest", case.name, scope, str(place)


def _word_of_fastest(item: Judged, fastest: str, rivals_here: Mapping[str, Rival]) -> StandingWord:
    """By those of other families, as in the grid: a variant of its own does not contest its place."""
    families = families_of(item.plan)
    others = {name: rival.word for name, rival in rivals_here.items() if name != fastest}
    contesting = [word for name, word in others.items() if families[name] != families[fastest]]
    return word_of_fastest(contesting or others.values())
