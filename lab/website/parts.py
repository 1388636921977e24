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
from lab.website.data.shelf import Held, Shelf
from lab.website.decisions import Decision, Standing
from lab.website.files.inventory import inventory
from lab.website.files.manifest import Listed
from lab.website.files.modified import last_modified
from lab.website.incremental import Content, Memory, Part
from lab.website.outputs import Gathered, Output, Room
from lab.website.pages.methods import SHOWN, guarded, methods_pages
from lab.website.refusal import as_publication, refuse_found
from lab.website.render import Frame, Renderer, assets
from lab.website.sources import digest_of
from lab.website.wording.outside import refuse_outside, said
from lab.website.wording.quoted import Quotable

MAKING = (
    "lab/website", "lab/verdict", "lab/definition", "lab/evidence", "lab/profiler/readings.py", "experiments/audits",
    "site_templates",
)  # fmt: skip
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
        yield Part(name="assets", key=self._code, make=lambda before: self._files(assets(), Quotable(())))
        keys = []
        shown: dict[str, Held | None] = {held.name: held for held in self._current}
        for name, held in (dict.fromkeys(self._published) | shown).items():
            part = self._of_one(name, held)
            keys.append(part.key)
            yield part
        gathered = self._gathered
        told = [self._code, keys, [each.digest for each in gathered.files], gathered.base_url]
        whole = digest([*told, self._told(gathered.decisions), digest(dict(gathered.trust))])
        yield Part(name="all", key=whole, make=self._make_all)
        if not gathered.label:
            yield Part(name="methods", key=self._guarded, make=self._make_methods)
        yield Part(name="inventory", key=whole, make=self._make_inventory)

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._frame)

    def _of_one(self, name: str, held: Held | None) -> Part:
        """`held` is None of an experiment that was published once and is no longer defined."""
        current, history = [held] if held else [], self._published.get(name, [])
        decisions = [pair for pair in self._gathered.decisions if name in _experiments(pair[0])]
        keys = [each.key for each in current], [each.key for each in history]
        key = digest([self._code, *keys, self._told(decisions), self._gathered.base_url])

        def make(before: Memory) -> Made:
            shelves = Shelf(current), Shelf(history)
            narrow = replace(self._gathered, decisions=decisions, trust={}, files=())
            narrow = replace(narrow, current=shelves[0], published=shelves[1])
            for item in narrow.current if not narrow.label else ():
                page = as_publication(item)
                found = audit(page)
                refuse_found(page, found)
                yield guarded(page, found)
            quotable = Quotable(Shelf([*current, *history]))
            for output in (output for room in self._rooms.of_one for output in room(narrow)):
                if current and not narrow.label:
                    refuse_outside(narrow.current[0], said(output, name))
                yield self._renderer.file(output, quotable)

        return Part(name=_part_name(name), key=key, make=make)

    def _make_all(self, before: Memory) -> Made:
        yield from self._files((output for room in self._rooms.of_all for output in room(self._gathered)), self._all)

    def _guarded(self, before: Memory) -> str:
        """The guard may say the same of a page that changed."""
        return digest([self._code, self._said(before), [held.key for held in self._current if held.name in SHOWN]])

    def _make_methods(self, before: Memory) -> Made:
        yield from self._files(methods_pages(replace(self._gathered, guarded=self._said(before))), self._all)

    def _said(self, before: Memory) -> list[dict[str, Any]]:
        return [before.notes[_part_name(held.name)] for held in self._current]

    def _make_inventory(self, before: Memory) -> Made:
        files = {
            path: Listed(sha, before.stamps[path][0]) for part in before.files.values() for path, sha in part.items()
        }
        shown = {held.name: held.finished_utc for held in self._current}
        moment = last_modified(shown, {each.digest: each.finished_utc for each in self._gathered.files})
        yield from inventory(files, self._gathered.base_url, moment)

    def _files(self, outputs: Iterable[Output], quotable: Quotable) -> Iterator[Content]:
        return (self._renderer.file(output, quotable) for output in outputs)

    @cached_property
    def _all(self) -> Quotable:
        return Quotable(Shelf([*self._current, *(held for each in self._published.values() for held in each)]))

    def _told(self, decisions: Sequence[Decided]) -> list[Any]:
        """All that the standing of decisions depends on: their text, their experiments and the newest evidence."""
        if not decisions:
            return []
        names = {name for decision, _ in decisions for name in _experiments(decision)}
        keys = [held.key for held in self._current if held.name in names]
        keys += [held.key for name in sorted(names) for held in self._published.get(name, [])]
        return [[repr(decision) for decision, _ in decisions], keys, max(held.finished_utc for held in self._current)]


def _part_name(experiment: str) -> str:
    return f"experiments/{experiment}"


def _experiments(decision: Decision) -> set[str]:
    return {support.experiment for support in decision.rests_on}
