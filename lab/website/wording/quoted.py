"""What a page may quote word for word: names and texts of a plan, and sentences that are data themselves."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedExperiment
from lab.website.data.judged import Judged
from lab.website.wording.figures_said import FIGURE

FOLDER = "experiments"


@dataclass(frozen=True, slots=True)
class Quoted:
    """What of one experiment may be quoted, as far as it holds a figure; of its machine on every page."""

    experiment: str
    phrases: Sequence[str]
    machine: Sequence[str]


def quoted(item: Judged) -> Quoted:
    return Quoted(item.plan.name, _figures(_phrases(item)), _figures(_machine(item)))


class Quotable:
    """Looked up as far as a page needs it: a page of an experiment quotes that one, any other page any of them."""

    def __init__(self, experiments: Iterable[Quoted]) -> None:
        self._experiments: dict[str, list[Quoted]] = {}
        for each in experiments:
            self._experiments.setdefault(each.experiment, []).append(each)
        self._by_name: dict[str, Sequence[str]] = {}

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
        yield self._of(name) if folder == FOLDER and name in self._experiments else self._all

    @cached_property
    def _machines(self) -> Sequence[str]:
        return _longest_first(
            {phrase for held in self._experiments.values() for each in held for phrase in each.machine}
        )

    @cached_property
    def _all(self) -> Sequence[str]:
        return _longest_first({phrase for name in self._experiments for phrase in self._of(name)})

    def _of(self, name: str) -> Sequence[str]:
        if name not in self._by_name:
            self._by_name[name] = _longest_first(
                {phrase for each in self._experiments[name] for phrase in each.phrases}
            )
        return self._by_name[name]


def _figures(phrases: Iterable[str]) -> tuple[str, ...]:
    """Those that hold a figure, without line breaks, as on pages."""
    return tuple(dict.fromkeys(" ".join(phrase.split()) for phrase in phrases if FIGURE.search(phrase)))


def _longest_first(phrases: Iterable[str]) -> tuple[str, ...]:
    """A shorter one may be part of a longer one."""
    return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))


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
    yield from (text for claim in plan.claims for text in (claim_sentence(claim), claim.text))
    yield from (name for names in plan.metrics.values() for name in names)
