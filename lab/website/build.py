"""The parts that a site is built of: one for each experiment, and others for all that speaks of several.

A part's key names all that its pages may show, and the code that makes them. An experiment's pages are given nothing
but that experiment, its history and the decisions that rest on it, so that they cannot show anything else. What the
rest of the site shows of it goes into a note, as outlines: no list and no count reads an experiment again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from types import SimpleNamespace as View
from typing import Any

from lab.evidence.codec import digest
from lab.project import project
from lab.verdict.audit.rules import audit
from lab.website.data.lost_commits import lost_commits
from lab.website.data.publication_log import head
from lab.website.decisions import Decision, SupportStanding
from lab.website.files.inventory import FileData, inventory
from lab.website.folder import Content, NextSite, Part
from lab.website.outputs import GroupBuilder, Outlines, Output, PageBuilder, PageGroup, SiteContext
from lab.website.pages.labels import AXES, TITLES
from lab.website.pages.methods import guarded
from lab.website.pages.outline import outlines
from lab.website.pages.pooled_verdicts import pooled_of
from lab.website.refusal import as_publication, refuse_findings
from lab.website.render import Renderer, SiteInfo, assets
from lab.website.sources import digest_of
from lab.website.wording.lint import Quotable
from lab.website.wording.outside import refuse_outside, said

MAKING = (
    "lab/website", "lab/verdict", "lab/definition", "lab/evidence", "lab/quantities.py", "lab/profiler/readings.py",
    "lab/kernels/*.py", "experiments/*.py", "experiments/audits", "experiments/simulation.json", "site_templates",
)  # fmt: skip
PACKAGES = ("jinja2", "markupsafe", "markdown-it-py")

Decided = tuple[Decision, Sequence[SupportStanding]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PageBuilders:
    """What makes pages: of one experiment at a time; of all, from their outlines; of some that must be whole."""

    of_one: Sequence[PageBuilder]
    of_all: Sequence[PageBuilder]
    of_some: Sequence[GroupBuilder]


class Builder:
    """Adds the parts of a site, those of an experiment first."""

    def __init__(self, context: SiteContext, builders: PageBuilders) -> None:
        self._context, self._builders = context, builders
        self._current = {item.name: item for item in context.current}
        self._published = context.histories()
        self._resting: dict[str, list[Decided]] = {}
        for pair in context.decisions:
            for name in _experiments(pair[0]):
                self._resting.setdefault(name, []).append(pair)
        self._info = SiteInfo(
            label=context.label,
            trust=bool(context.trust),
            methods=not context.label,
            title=project().settings.title,
            base_url=context.base_url,
            lab=project().lab,
            lost_commits=lost_commits(),
        )
        self._code = digest([digest_of(*MAKING), *map(version, PACKAGES), repr(self._info), TITLES, AXES])

    def fill(self, site: NextSite) -> None:
        site.add(Part(name="assets", key=self._code, make=lambda: self._files(assets(), Quotable(()))))
        names = dict.fromkeys((*self._published, *self._current))
        for name in names:
            site.add(self._of_one(name))
        whole = self._whole([site.parts[_part_name(name)].key for name in names])
        if site.keep_others(whole):
            return
        notes = {name: json.loads(site.parts[_part_name(name)].note) for name in names}
        self._add_lists(site, whole, notes)
        site.add(Part(name="inventory", key=whole, make=lambda: self._inventory(site)))

    def _whole(self, keys: Sequence[str]) -> str:
        """Of all that any page may show, in which order, and of the files of runs."""
        context = self._context
        order = [[item.key for item in items] for items in (context.current, context.published)]
        files = [[each.digest for each in context.files], context.samples, context.base_url]
        rest = [self._told(context.decisions), digest(dict(context.trust)), head(context.log)]
        return digest([self._code, list(keys), order, files, rest])

    def _of_one(self, name: str) -> Part:
        """It may have been published once and be no longer defined."""
        current = [self._current[name]] if name in self._current else []
        history, decisions = self._published.get(name, ()), self._resting.get(name, [])
        keys = [each.key for each in current], [each.key for each in history]
        trust = pooled_of(self._context.trust, name)
        key = digest([self._code, *keys, self._told(decisions), self._context.base_url, trust])

        def make() -> Iterator[Content | str]:
            context = replace(
                self._context, decisions=decisions, trust=trust, files=(),
                current=[each.loaded for each in current], published=[each.loaded for each in history],
            )  # fmt: skip
            outlined = outlines(context)
            yield json.dumps(_note(context, outlined))
            quotable = Quotable(outlined.phrases())
            for output in (output for builder in self._builders.of_one for output in builder(context)):
                if current and not context.label:
                    refuse_outside(context.current[0], said(output))
                yield self._renderer.file(output, quotable)

        return Part(name=_part_name(name), key=key, make=make)

    def _add_lists(self, site: NextSite, whole: str, notes: dict[str, dict[str, Any]]) -> None:
        """Lists and counts are made of the outlines, all of them; pages that need more, where that is another."""
        outlined = self._outlines(notes)
        guarded = [note["guarded"] for note in notes.values() if "guarded" in note]
        context = replace(self._context, outlines=outlined, guarded=guarded)
        quotable = Quotable(outlined.phrases())
        outputs = (output for builder in self._builders.of_all for output in builder(context))
        site.add(Part(name="lists", key=whole, make=lambda: self._files(outputs, quotable)))
        for group in (group for builder in self._builders.of_some for group in builder(context)):
            site.add(self._of_some(group, quotable))

    def _of_some(self, group: PageGroup, quotable: Quotable) -> Part:
        key = digest([self._code, group.shows])
        return Part(name=group.name, key=key, make=lambda: self._files(group.make(), quotable))

    def _outlines(self, notes: dict[str, dict[str, Any]]) -> Outlines:
        past = {name: iter(note["published"]) for name, note in notes.items()}
        return Outlines(
            current=[View(**notes[item.name]["current"]) for item in self._context.current],
            published=[View(**next(past[item.name])) for item in self._context.published],
        )

    def _inventory(self, site: NextSite) -> Iterator[Content]:
        files = {
            path: FileData(bytes=site.stamps[path][0], sha256=sha)
            for part in site.parts.values()
            for path, sha in part.files.items()
        }
        return inventory(files, self._context.base_url)

    def _files(self, outputs: Iterable[Output], quotable: Quotable) -> Iterator[Content]:
        return (self._renderer.file(output, quotable) for output in outputs)

    def _told(self, decisions: Sequence[Decided]) -> list[Any]:
        """All that the standing of decisions depends on: their text, their experiments and the newest evidence."""
        if not decisions:
            return []
        names = sorted({name for decision, _ in decisions for name in _experiments(decision)})
        keys = [self._current[name].key for name in names if name in self._current]
        keys += [item.key for name in names for item in self._published.get(name, ())]
        return [[repr(decision) for decision, _ in decisions], keys, self._newest]

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._info)

    @cached_property
    def _newest(self) -> str:
        return max(item.finished_utc for item in (*self._context.current, *self._context.published))


def _note(context: SiteContext, outlined: Outlines) -> dict[str, Any]:
    """What the rest of the site shows of one experiment.

    EvidenceError where a figure of its page breaks a rule of the guard.
    """
    note: dict[str, Any] = {"published": [vars(each) for each in outlined.published]}
    for item, each in zip(context.current, outlined.current, strict=True):
        note["current"] = vars(each)
        if not context.label:
            page = as_publication(item)
            findings = audit(page)
            refuse_findings(page, findings)
            note["guarded"] = guarded(page, findings)
    return note


def _part_name(experiment: str) -> str:
    return f"experiments/{experiment}"


def _experiments(decision: Decision) -> set[str]:
    return {support.experiment for support in decision.rests_on}
