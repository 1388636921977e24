"""The parts that a site is built of: one for each experiment, and one for all that speaks of several.

A part's key names all that its pages may show, and the code that makes them. An experiment's pages are given nothing
but that experiment, its history and the decisions that rest on it, so that they cannot show anything else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

from lab.definition.experiment import CEILINGS
from lab.evidence.codec import digest
from lab.verdict.audit.rules import audit
from lab.website.decisions import Decision, Standing
from lab.website.incremental import Content, Memory, Part
from lab.website.outputs import Gathered, Output, Room
from lab.website.pages.methods import guarded
from lab.website.refusal import as_publication, refuse_found
from lab.website.render import Frame, Renderer, assets
from lab.website.shelf import Held, Shelf
from lab.website.sources import digest_of

MAKING = ("lab/website", "lab/verdict", "lab/definition", "lab/evidence", "experiments/audits", "site_templates")
PACKAGES = ("jinja2", "markupsafe", "markdown-it-py", "plotly")

Made = Iterator[Content | dict[str, Any]]
Decided = tuple[Decision, Sequence[Standing]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rooms:
    """What makes pages: of one experiment at a time, and of all together."""

    of_one: Sequence[Room]
    of_all: Sequence[Room]


class Parts:
    """All parts of the site that shows what was gathered."""

    def __init__(self, gathered: Gathered, rooms: Rooms, current: Sequence[Held], published: Sequence[Held]) -> None:
        """`gathered` holds nothing of `current` and `published` yet: they are put on shelves here."""
        self._rooms = rooms
        self._current = current
        self._published: dict[str, list[Held]] = {}
        for held in published:
            self._published.setdefault(held.name, []).append(held)
        self._gathered = replace(gathered, current=Shelf(current), published=Shelf(published))
        self._frame = Frame(
            label=gathered.label,
            trust=bool(gathered.trust),
            methods=not gathered.label,
            ceilings=any(held.name == CEILINGS for held in current),
        )
        self._code = digest([digest_of(*MAKING), *map(version, PACKAGES), repr(self._frame)])

    def __iter__(self) -> Iterator[Part]:
        yield Part(name="assets", key=self._code, make=lambda before: self._files(assets()))
        keys = []
        for held in self._current:
            part = self._of_one(held)
            keys.append(part.key)
            yield part
        told = [self._code, keys, [held.key for each in self._published.values() for held in each]]
        told += [self._told(self._gathered.decisions), digest(dict(self._gathered.trust))]
        yield Part(name="all", key=digest(told), make=self._make_all)

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._frame)

    def _of_one(self, held: Held) -> Part:
        history = self._published.get(held.name, [])
        decisions = [pair for pair in self._gathered.decisions if held.name in _experiments(pair[0])]
        key = digest([self._code, held.key, [each.key for each in history], self._told(decisions)])

        def make(before: Memory) -> Made:
            narrow = replace(
                self._gathered, current=Shelf([held]), published=Shelf(history), decisions=decisions, trust={}
            )
            if not narrow.label:
                page = as_publication(narrow.current[0])
                found = audit(page)
                refuse_found(page, found)
                yield guarded(page, found)
            yield from self._files(output for room in self._rooms.of_one for output in room(narrow))

        return Part(name=_part_name(held), key=key, make=make)

    def _make_all(self, before: Memory) -> Made:
        said = [before.notes[_part_name(held)] for held in self._current] if not self._gathered.label else []
        gathered = replace(self._gathered, guarded=said)
        yield from self._files(output for room in self._rooms.of_all for output in room(gathered))

    def _files(self, outputs: Iterable[Output]) -> Iterator[Content]:
        return map(self._renderer.file, outputs)

    def _told(self, decisions: Sequence[Decided]) -> list[Any]:
        """All that the standing of decisions depends on: their text, their experiments and the newest evidence."""
        if not decisions:
            return []
        names = {name for decision, _ in decisions for name in _experiments(decision)}
        keys = [held.key for held in self._current if held.name in names]
        keys += [held.key for name in sorted(names) for held in self._published.get(name, [])]
        return [[repr(decision) for decision, _ in decisions], keys, max(held.finished_utc for held in self._current)]


def _part_name(held: Held) -> str:
    return f"experiments/{held.name}"


def _experiments(decision: Decision) -> set[str]:
    return {support.experiment for support in decision.rests_on}
