"""Which runs are held against one another, and the list of these pairs; the page of each is made in compare.py."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder, pair_folder, short
from lab.website.data.comparison import run_pairs
from lab.website.data.differences import one_machine
from lab.website.data.outline import Outlines, PastOutline
from lab.website.outputs import Document, Gathered
from lab.website.pages.clocks import clocks_of
from lab.website.pages.outline import outlines
from lab.website.pages.paging import leaves

Runs = Mapping[str, Sequence[PastOutline]]  # by digest, oldest first


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two runs that have a page together, older first. `folder` is relative to the root of the site."""

    older: str
    newer: str
    folder: str
    older_id: str
    newer_id: str
    older_date: str
    newer_date: str
    one_machine: bool
    one_model: bool  # else neither's verdicts contradict the other's
    mixed: bool  # a GPU's run and a CPU's
    clock: str  # what the times of the headline scope are
    experiments: tuple[str, ...]  # titles of those that both have


@dataclass(frozen=True, kw_only=True, slots=True)
class PairGroup:
    """The comparisons that an experiment is in."""

    title: str
    slug: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A run to choose, of those that have a page with another; `newer` are the runs after it that it has one with."""

    digest: str
    label: str
    newer: tuple[str, ...]


def compare_list(gathered: Gathered) -> Iterator[Document]:
    """compare/index.html, and the pages after it."""
    held = outlines(gathered)
    pairs = pairs_of(held.published)
    choices = tuple(_choices(runs_of(held.published), pairs))
    for leaf in leaves(list(_groups(held, pairs)), "compare"):
        yield Document(path=leaf.path, template="compare_index.html", view={"leaf": leaf, "choices": choices})


def runs_of(published: Sequence[PastOutline]) -> Runs:
    """The experiments of each run, oldest run first."""
    found: dict[str, list[PastOutline]] = {}
    for item in published:
        found.setdefault(item.digest, []).append(item)
    return found


def pairs_of(published: Sequence[PastOutline]) -> tuple[Pair, ...]:
    """Every pair of runs that has a page, the newest last."""
    runs = runs_of(published)
    histories: dict[str, list[PastOutline]] = {}
    for item in published:
        histories.setdefault(item.name, []).append(item)
    return tuple(_pair(runs[older], runs[newer]) for older, newer in run_pairs(histories.values()))


def _pair(older: Sequence[PastOutline], newer: Sequence[PastOutline]) -> Pair:
    before, after = older[0], newer[0]
    known = {item.name for item in older}
    return Pair(
        older=before.digest,
        newer=after.digest,
        folder=pair_folder(before.digest, after.digest),
        older_id=before.run_id,
        newer_id=after.run_id,
        older_date=format.minute(before.finished_utc),
        newer_date=format.minute(after.finished_utc),
        one_machine=one_machine(before.machine, after.machine),
        one_model=before.machine_name == after.machine_name,
        mixed=before.on_cpu != after.on_cpu,
        clock=clocks_of(SCOPE, [before.on_cpu, after.on_cpu]),
        experiments=tuple(item.title for item in newer if item.name in known),
    )


def _groups(held: Outlines, pairs: Sequence[Pair]) -> Iterator[PairGroup]:
    """By experiment, in the order of the site; then those that are no longer defined."""
    titles = {item.name: item.title for item in held.current} | {item.name: item.title for item in held.published}
    holding: dict[str, set[str]] = {}
    for item in held.published:
        holding.setdefault(item.name, set()).add(item.digest)
    for name, title in titles.items():
        runs = holding.get(name, set())
        mine = tuple(pair for pair in reversed(pairs) if {pair.older, pair.newer} <= runs) if len(runs) > 1 else ()
        if mine:
            yield PairGroup(title=title, slug=experiment_folder(name), pairs=mine)


def _choices(runs: Runs, pairs: Sequence[Pair]) -> Iterator[Choice]:
    newer: dict[str, list[str]] = {}
    for pair in pairs:
        newer.setdefault(pair.older, []).append(short(pair.newer))
        newer.setdefault(pair.newer, [])
    for digest, run in runs.items():
        if digest in newer:
            when = format.minute(run[0].finished_utc)
            label = f"{when} {run[0].run_id}, {run[0].machine_name}"
            yield Choice(digest=short(digest), label=label, newer=tuple(newer[digest]))
