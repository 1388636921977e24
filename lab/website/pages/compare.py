"""Two published runs side by side: what differs between their machines first, then verdicts, then times."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder, pair_folder, short, verdict_folder
from lab.website.data.comparison import (
    OF_MACHINE,
    Difference,
    comparison_data,
    differences,
    one_machine,
    redefined,
    run_pairs,
    shared,
)
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Outlines, Output, PageGroup, SiteContext
from lab.website.pages.labels import case_label, clocks_of, field_figure
from lab.website.pages.outline import outlines
from lab.website.pages.search import leaves
from lab.website.table import csv_table, shown
from lab.website.verdict_words import claim_word

# Which runs are held against one another, and the list of these pairs; the page of each is made in compare.py.
Runs = Mapping[str, Sequence[View]]  # by digest, oldest first


def compare_list(context: SiteContext) -> Iterator[Document]:
    """compare/index.html, and the pages after it."""
    outlined = outlines(context)
    pairs = pairs_of(outlined.published)
    choices = tuple(_choices(runs_of(outlined.published), pairs))
    for leaf in leaves(list(_groups(outlined, pairs)), "compare"):
        yield Document(path=leaf.path, template="compare_index.html", view={"leaf": leaf, "choices": choices})


def runs_of(published: Sequence[View]) -> Runs:
    """The experiments of each run, oldest run first."""
    runs: dict[str, list[View]] = {}
    for item in published:
        runs.setdefault(item.digest, []).append(item)
    return runs


def pairs_of(published: Sequence[View]) -> tuple[View, ...]:
    """Every pair of runs that has a page, the newest last."""
    runs = runs_of(published)
    histories: dict[str, list[View]] = {}
    for item in published:
        histories.setdefault(item.name, []).append(item)
    return tuple(_pair(runs[older], runs[newer]) for older, newer in run_pairs(histories.values()))


def _pair(older: Sequence[View], newer: Sequence[View]) -> View:
    before, after = older[0], newer[0]
    known = {item.name for item in older}
    return View(
        older=before.digest, newer=after.digest, folder=pair_folder(before.digest, after.digest),
        older_id=before.run_id, newer_id=after.run_id, older_date=format.minute(before.finished_utc),
        newer_date=format.minute(after.finished_utc), one_machine=one_machine(before.machine, after.machine),
        one_model=before.machine_name == after.machine_name, mixed=before.on_cpu != after.on_cpu,
        clock=clocks_of(SCOPE, [before.on_cpu, after.on_cpu]),
        experiments=tuple(item.title for item in newer if item.name in known),
    )  # fmt: skip


def _groups(outlined: Outlines, pairs: Sequence[View]) -> Iterator[View]:
    """By experiment, in the order of the site; then those that are no longer defined."""
    titles = {item.name: item.title for item in outlined.current} | {
        item.name: item.title for item in outlined.published
    }
    holding: dict[str, set[str]] = {}
    for item in outlined.published:
        holding.setdefault(item.name, set()).add(item.digest)
    for name, title in titles.items():
        runs = holding.get(name, set())
        mine = tuple(pair for pair in reversed(pairs) if {pair.older, pair.newer} <= runs) if len(runs) > 1 else ()
        if mine:
            by_newer = tuple(tuple(group) for _, group in groupby(mine, key=lambda pair: pair.newer))
            yield View(title=title, slug=experiment_folder(name), newer=by_newer)


def _choices(runs: Runs, pairs: Sequence[View]) -> Iterator[View]:
    newer: dict[str, list[str]] = {}
    for pair in pairs:
        newer.setdefault(pair.older, []).append(short(pair.newer))
        newer.setdefault(pair.newer, [])
    for digest, run in reversed(list(runs.items())):
        if digest in newer:
            when = format.minute(run[0].finished_utc)
            label = f"{when} {run[0].run_id}, {run[0].machine_name}"
            yield View(digest=short(digest), label=label, newer=tuple(newer[digest]))


def compare_pages(context: SiteContext) -> Iterator[PageGroup]:
    """The page of each pair, and its data."""
    published = outlines(context).published
    runs: dict[str, list[Judged]] = {}
    for item, past in zip(context.published, published, strict=True):
        runs.setdefault(past.digest, []).append(item)
    for pair in pairs_of(published):
        older, newer = runs[pair.older], runs[pair.newer]
        yield PageGroup(
            name=pair.folder,
            shows=[vars(pair), [item.key for item in (*older, *newer)]],
            make=partial(_pages, pair, older, newer),
        )


def _pages(pair: View, older: Sequence[Judged], newer: Sequence[Judged]) -> Iterator[Output]:
    runs = tuple(older), tuple(newer)
    data = comparison_data(*runs)
    page = _page(pair, *runs, DataView(data))
    yield Document(path=f"{pair.folder}/index.html", template="compare.html", view={"compare": page})
    yield from _tables(page)
    path = f"{pair.folder}/data.json"
    yield Attachment(path=path, content=data_text(data, path, "comparison"))


def _tables(page: View) -> Iterator[Attachment]:
    yield csv_table(
        f"{page.pair.folder}/verdicts.csv",
        ("experiment", "claim", "changed", "older_status", "older_smallest_ratio", "older_largest_ratio",
         "newer_status", "newer_smallest_ratio", "newer_largest_ratio"),
        [
            (
                experiment.slug, claim.text, claim.changed,
                claim.older.status, claim.older.least, claim.older.most,
                claim.newer.status, claim.newer.least, claim.newer.most,
            )
            for experiment in page.experiments
            for claim in experiment.claims
        ],
    )  # fmt: skip
    yield csv_table(
        f"{page.pair.folder}/times.csv",
        ("experiment", "case", "profile", "older_outcome", "older_p50_seconds", "newer_outcome", "newer_p50_seconds",
         "newer_over_older_ratio", "newer_over_older_interval"),
        [
            (
                experiment.slug, case.label, cell.profile,
                cell.older_outcome, cell.older, cell.newer_outcome, cell.newer, cell.ratio,
                shown(cell.interval),
            )
            for experiment in page.experiments
            for case in experiment.cases
            for cell in case.cells
        ],
    )  # fmt: skip


def _page(pair: View, older: Sequence[Judged], newer: Sequence[Judged], view: DataView) -> View:
    both = shared(older, newer)
    before, after = both[0]
    rows = [(each, _field(each, before, after)) for each in differences(before, after)]
    return View(
        pair=pair, outcome=_outcome(view, pair.one_model), older_data=_data(before), newer_data=_data(after),
        machine=tuple(row for each, row in rows if each.kind in OF_MACHINE),
        rest=tuple(row for each, row in rows if each.kind not in OF_MACHINE),
        experiments=tuple(_experiment(before, after, view) for before, after in both),
    )  # fmt: skip


def _outcome(view: DataView, one_model: bool) -> Sentence:
    """How many verdicts and times came out otherwise. Those of two models of GPU differ, and none of them changed."""
    claims, changed, cells, moved = (
        view.figure("counts", name) or "–" for name in ("claims", "changed", "cells", "moved")
    )
    said: Sentence = (
        "Of ",
        claims,
        " claims that both judged, ",
        changed,
        " came out otherwise" if one_model else " differ between the two",
    )
    if view.value("counts", "cells"):
        said = (*said, "; of ", cells, " times, ", moved, " moved")
    return (*said, ".")


def _data(item: Judged) -> str:
    return f"../../{verdict_folder(item.digest, item.plan.name)}/data.json"


def _field(difference: Difference, older: Judged, newer: Judged) -> View:
    return View(
        name=difference.name,
        older=field_figure(DataView(older.data), difference.path),
        newer=field_figure(DataView(newer.data), difference.path),
    )


def _experiment(older: Judged, newer: Judged, view: DataView) -> View:
    claims = tuple(
        _claim(older, newer, claim.name, claim_sentence(claim))
        for claim in newer.plan.claims
        if claim.name in older.data["claims"]
    )
    return View(
        slug=experiment_folder(newer.plan.name),
        title=newer.plan.title,
        older_folder=f"../../{verdict_folder(older.digest, older.plan.name)}",
        newer_folder=f"../../{verdict_folder(newer.digest, newer.plan.name)}",
        older_data=_data(older),
        newer_data=_data(newer),
        claims=tuple(sorted(claims, key=lambda claim: not claim.changed)),
        changed=sum(claim.changed for claim in claims),
        cases=tuple(compared for case in newer.plan.cases if (compared := _case(older, newer, case, view)).cells),
    )


def _claim(older: Judged, newer: Judged, name: str, text: str) -> View:
    before, after = _side(older, name), _side(newer, name)
    return View(
        text=text,
        changed=before.status != after.status,
        older=before,
        newer=after,
        redefined=redefined(older.plan, newer.plan, name),
    )


def _side(item: Judged, claim: str) -> View:
    view = DataView(item.data)
    return View(
        status=item.data["claims"][claim]["status"],
        word=claim_word(item.data["claims"][claim]),
        mark=item.data["claims"][claim]["mark"],
        least=view.end(claim, "smallest_ratio", show=format.times),
        most=view.end(claim, "largest_ratio", show=format.times),
    )


def _case(older: Judged, newer: Judged, case: PlannedCase, view: DataView) -> View:
    """The cells of a case that at least one of the runs measured, and that both know."""
    before = older.data["cells"].get(case.name, {})
    after = newer.data["cells"][case.name]
    profiles = [
        profile
        for profile in newer.plan.profiles
        if profile.name in before and "measured" in (before[profile.name]["outcome"], after[profile.name]["outcome"])
    ]
    return View(
        label=case_label(case),
        cells=tuple(_cell(older, newer, case.name, profile.name, profile.title, view) for profile in profiles),
    )


def _cell(older: Judged, newer: Judged, case: str, profile: str, title: str, view: DataView) -> View:
    path = ("cells", case, profile)
    sides = [DataView(item.data) for item in (older, newer)]
    p50s = [side.figure(*path, "p50_seconds") for side in sides]
    moved = ("experiments", newer.plan.name, "times", case, profile)
    return View(
        profile=title, older=p50s[0], newer=p50s[1], older_outcome=sides[0].value(*path, "outcome"),
        newer_outcome=sides[1].value(*path, "outcome"), ratio=view.ratio(*moved), interval=view.interval(*moved),
        moved=bool(view.value(*moved, "moved")),
    )  # fmt: skip
