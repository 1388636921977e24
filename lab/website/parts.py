"""The parts that a site is built of: one for each experiment, and a group for all that speaks of several.

A part's key names all that its pages may show, and the code that makes them. An experiment's pages are given nothing
but that experiment, its history and the decisions that rest on it, so that they cannot show anything else. What the
rest of the site shows of it goes into a note, as outlines: no list and no count loads an experiment again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

from lab.definition.experiment import CEILINGS
from lab.evidence.codec import digest
from lab.verdict.audit.rules import audit
from lab.website.data.outline import Outline, Outlines, PastOutline, plain
from lab.website.data.shelf import Held, Shelf
from lab.website.decisions import Decision, Standing
from lab.website.files.inventory import inventory
from lab.website.files.manifest import Listed
from lab.website.files.modified import last_modified
from lab.website.incremental import Content, Group, Memory, Part
from lab.website.outputs import Document, Gathered, Output, Room, Sheaf, SheafRoom
from lab.website.pages.methods import guarded
from lab.website.pages.outline import outlines
from lab.website.pages.pooled import pooled_of
from lab.website.refusal import as_publication, refuse_found
from lab.website.render import Frame, Renderer, assets
from lab.website.sources import digest_of
from lab.website.wording.outside import refuse_outside, said
from lab.website.wording.quoted import Quotable

MAKING = (
    "lab/website", "lab/verdict", "lab/definition", "lab/evidence", "lab/profiler/readings.py", "experiments/audits",
    "experiments/simulation.json",
    "site_templates",
)  # fmt: skip
PACKAGES = ("jinja2", "markupsafe", "markdown-it-py", "plotly")

Decided = tuple[Decision, Sequence[Standing]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rooms:
    """What makes pages: of one experiment at a time; of all, from their outlines; of some that must be whole."""

    of_one: Sequence[Room]
    of_all: Sequence[Room]
    of_some: Sequence[SheafRoom]


class Parts:
    """All parts of the site that shows what was gathered."""

    def __init__(self, gathered: Gathered, rooms: Rooms, current: Sequence[Held], published: Sequence[Held]) -> None:
        """`gathered` holds nothing of `current` and `published` yet: they are put on shelves here."""
        self._rooms = rooms
        self._current = {held.name: held for held in current}
        self._published: dict[str, list[Held]] = {}
        for held in published:
            self._published.setdefault(held.name, []).append(held)
        self._in_order = current, published
        self._gathered = replace(gathered, current=Shelf(current), published=Shelf(published))
        self._resting: dict[str, list[Decided]] = {}
        for pair in gathered.decisions:
            for name in _experiments(pair[0]):
                self._resting.setdefault(name, []).append(pair)
        self._frame = Frame(
            label=gathered.label,
            trust=bool(gathered.trust),
            methods=not gathered.label,
            ceilings=CEILINGS in self._current,
        )
        self._code = digest([digest_of(*MAKING), *map(version, PACKAGES), repr(self._frame)])

    def __iter__(self) -> Iterator[Part | Group]:
        yield Part(name="assets", key=self._code, make=lambda: self._files(assets(), Quotable(())))
        keys = []
        for name in dict.fromkeys((*self._published, *self._current)):
            part = self._of_one(name)
            keys.append(part.key)
            yield part
        gathered = self._gathered
        told = [self._code, keys, [each.digest for each in gathered.files], gathered.base_url]
        order = [[held.key for held in items] for items in self._in_order]
        whole = digest([*told, order, self._told(gathered.decisions), digest(dict(gathered.trust))])
        yield Group(name="all", key=whole, parts=partial(self._of_all, whole))

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._frame)

    def _of_one(self, name: str) -> Part:
        """It may have been published once and be no longer defined."""
        current = [self._current[name]] if name in self._current else []
        history, decisions = self._published.get(name, []), self._resting.get(name, [])
        keys = [each.key for each in current], [each.key for each in history]
        trust = pooled_of(self._gathered.trust, name)
        key = digest([self._code, *keys, self._told(decisions), self._gathered.base_url, trust])

        def make() -> Iterator[Content | str]:
            gathered = replace(
                self._gathered, decisions=decisions, trust=trust, files=(), current=Shelf(current),
                published=Shelf(history),
            )  # fmt: skip
            held = outlines(gathered)
            yield json.dumps(_note(gathered, held))
            quotable = Quotable(held.quoted())
            for output in (output for room in self._rooms.of_one for output in room(gathered)):
                if current and not gathered.label:
                    refuse_outside(gathered.current[0], said(output, name))
                yield self._renderer.file(output, quotable)

        return Part(name=_part_name(name), key=key, make=make)

    def _of_all(self, whole: str, before: Memory) -> Iterator[Part]:
        held, told = self._noted(before)
        gathered = replace(self._gathered, outlines=held, guarded=told)
        quotable = Quotable(held.quoted())
        for output in (output for room in self._rooms.of_all for output in room(gathered)):
            yield Part(name=output.path, key=self._shown(output), make=partial(self._files, (output,), quotable))
        for sheaf in (sheaf for room in self._rooms.of_some for sheaf in room(gathered)):
            key = digest([self._code, sheaf.shows])
            yield Part(name=sheaf.name, key=key, make=partial(self._bound, sheaf, quotable))
        yield Part(name="inventory", key=whole, make=partial(self._inventory, before))

    def _noted(self, before: Memory) -> tuple[Outlines, list[dict[str, Any]]]:
        """The outlines of all experiments, and what the guard said of them."""
        names = dict.fromkeys((*self._current, *self._published))
        notes = {name: json.loads(before.notes[_part_name(name)]) for name in names}
        past = {name: iter(note["published"]) for name, note in notes.items()}
        held = Outlines(
            current=[Outline(**notes[name]["current"]) for name in self._current],
            published=[PastOutline(**next(past[each.name])) for each in self._in_order[1]],
        )
        return held, [note["guarded"] for note in notes.values() if "guarded" in note]

    def _shown(self, output: Output) -> str:
        """A digest of all that a page shows, or a file holds, and of the code that writes it."""
        held = f"{output.template} {output.view!r}" if isinstance(output, Document) else output.content
        found = hashlib.sha256(f"{self._code} ".encode())
        found.update(held.encode("utf-8", "surrogatepass") if isinstance(held, str) else held)
        return found.hexdigest()

    def _bound(self, sheaf: Sheaf, quotable: Quotable) -> Iterator[Content]:
        return self._files(sheaf.make(), quotable)

    def _inventory(self, before: Memory) -> Iterator[Content]:
        files = {
            path: Listed(sha, before.stamps[path][0]) for part in before.files.values() for path, sha in part.items()
        }
        shown = {
            name: max(each.finished_utc for each in (held, *self._published.get(name, ())))
            for name, held in self._current.items()
        }
        moment = last_modified(shown, {each.digest: each.finished_utc for each in self._gathered.files})
        return inventory(files, self._gathered.base_url, moment)

    def _files(self, outputs: Iterable[Output], quotable: Quotable) -> Iterator[Content]:
        return (self._renderer.file(output, quotable) for output in outputs)

    def _told(self, decisions: Sequence[Decided]) -> list[Any]:
        """All that the standing of decisions depends on: their text, their experiments and the newest evidence."""
        if not decisions:
            return []
        names = sorted({name for decision, _ in decisions for name in _experiments(decision)})
        keys = [self._current[name].key for name in names if name in self._current]
        keys += [held.key for name in names for held in self._published.get(name, [])]
        return [[repr(decision) for decision, _ in decisions], keys, self._newest]

    @cached_property
    def _newest(self) -> str:
        return max(held.finished_utc for items in self._in_order for held in items)


def _note(gathered: Gathered, held: Outlines) -> dict[str, Any]:
    """What the rest of the site shows of one experiment.

    EvidenceError where a figure of its page breaks a rule of the guard.
    """
    note: dict[str, Any] = {"published": [plain(each) for each in held.published]}
    for item, each in zip(gathered.current, held.current, strict=True):
        note["current"] = plain(each)
        if not gathered.label:
            page = as_publication(item)
            found = audit(page)
            refuse_found(page, found)
            note["guarded"] = guarded(page, found)
    return note


def _part_name(experiment: str) -> str:
    return f"experiments/{experiment}"


def _experiments(decision: Decision) -> set[str]:
    return {support.experiment for support in decision.rests_on}
