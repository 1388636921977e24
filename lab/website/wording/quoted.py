"""What a page may quote word for word: names and texts of a plan, and sentences that are data themselves."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from lab.definition.plan import PlannedExperiment
from lab.website.data.judged import Judged
from lab.website.wording.figures_said import FIGURE

FOLDER = "experiments"


class Quotable:
    """Looked up as far as a page needs it: a page of an experiment quotes that one, any other page any of them."""

    def __init__(self, experiments: Collection[Judged]) -> None:
        self._experiments = experiments  # gone through more than once, and not all of them kept
        self._by_name: dict[str, tuple[str, ...]] = {}

    def without(self, page: str, text: str) -> str:
        """What is left of a text when everything that it quotes is taken away."""
        for phrases in self._candidates(page):
            for phrase in phrases:
                if phrase in text:
                    text = text.replace(phrase, " ")
            if not FIGURE.search(text):
                break
        return text

    def _candidates(self, page: str) -> Iterator[Sequence[str]]:
        yield self._machines
        folder, _, rest = page.partition("/")
        name = rest.partition("/")[0]
        if folder == FOLDER and name:
            yield self._of(name)
        else:
            yield self._all

    @cached_property
    def _machines(self) -> tuple[str, ...]:
        names = {name for item in self._experiments for name in _machine(item)}
        return _longest_first(names)

    @cached_property
    def _all(self) -> tuple[str, ...]:
        return _longest_first(phrase for item in self._experiments for phrase in _phrases(item))

    def _of(self, name: str) -> tuple[str, ...]:
        if name not in self._by_name:
            held = (item for item in self._experiments if item.plan.name == name)
            self._by_name[name] = _longest_first(phrase for item in held for phrase in _phrases(item))
        return self._by_name[name]


def _longest_first(phrases: Iterable[str]) -> tuple[str, ...]:
    """Those that hold a figure; a shorter one may be part of a longer one. Without line breaks, as on pages."""
    held = {" ".join(phrase.split()) for phrase in phrases if FIGURE.search(phrase)}
    return tuple(sorted(held, key=lambda phrase: (-len(phrase), phrase)))


def _machine(item: Judged) -> Iterator[str]:
    yield from (value for value in item.machine.values() if isinstance(value, str))
    yield from ("{}={}".format(*pair) for pair in (item.machine.get("environment") or {}).items())


def _phrases(item: Judged) -> Iterator[str]:
    yield from _registered(item.plan)
    yield str(item.evidence.get("cut_short", ""))
    yield str(item.evidence.get("run_id", ""))
    yield from (item.evidence.get("damages") or {}).values()
    for claim in item.data["claims"].values():
        yield from (verdict["reason"] for verdict in claim["cases"].values())
    for case in item.data["cells"].values():
        for cell in case.values():
            yield cell["reason"]
            yield from (cell.get("unmeasured") or {}).values()
            yield from (cell[part].get("reason") or "" for part in ("traffic", "counters") if part in cell)
    for rows in item.data["explained"].values():
        yield from (reason for row in rows.values() for reason in row["others"])


def _registered(plan: PlannedExperiment) -> Iterator[str]:
    yield from (plan.title, plan.question, plan.importance, plan.focus, *plan.does_not_show)
    for case in plan.cases:
        yield from (case.description, case.description[1:])  # a page may begin a sentence with it
    for profile in plan.profiles:
        yield from (profile.title, profile.technique, profile.hypothesis, profile.signal)
    yield from (claim.text for claim in plan.claims)
    yield from (name for names in plan.metrics.values() for name in names)
