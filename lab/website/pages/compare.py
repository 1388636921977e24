"""Two published runs side by side: what differs between their machines first, then verdicts, then times."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.addresses import experiment_folder, verdict_folder
from lab.website.data.comparison import comparison_data, shared
from lab.website.data.differences import OF_MACHINE, Difference, differences, redefined
from lab.website.data.judged import Judged
from lab.website.data.shelf import Held, Shelf, shelf
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.schemas import data_text
from lab.website.files.shown_tables import shown, shown_table
from lab.website.outputs import Attachment, Document, Gathered, Output, Sheaf
from lab.website.pages.labels import case_label
from lab.website.pages.machine import field_figure
from lab.website.pages.outline import outlines
from lab.website.pages.pairs import Pair, pairs_of


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldRow:
    """A field that differs; each figure points into that run's data."""

    name: str
    older: Figure | None
    newer: Figure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What one run says of a claim: its verdict, the range of its speed-ups, and where its data lie."""

    status: str
    mark: str
    least: Figure | None
    most: Figure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimPair:
    text: str
    changed: bool
    older: Side
    newer: Side
    redefined: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellPair:
    """p50 of a cell in both runs; `ratio` and `interval` point into the comparison's own data, where it has any."""

    profile: str
    older: Figure | None
    newer: Figure | None
    older_outcome: str
    newer_outcome: str
    ratio: Figure | None
    interval: Figure | None
    moved: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePair:
    label: str
    cells: tuple[CellPair, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentPair:
    """`older_data` and `newer_data` are relative to the comparison's folder."""

    slug: str
    title: str
    older_folder: str
    newer_folder: str
    older_data: str
    newer_data: str
    claims: tuple[ClaimPair, ...]
    changed: int
    cases: tuple[CasePair, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparePage:
    pair: Pair
    outcome: Sentence
    older_data: str
    newer_data: str
    machine: tuple[FieldRow, ...]
    rest: tuple[FieldRow, ...]
    experiments: tuple[ExperimentPair, ...]


def compare_pages(gathered: Gathered) -> Iterator[Sheaf]:
    """The page of each pair, and its data."""
    published = outlines(gathered).published
    runs: dict[str, list[Held]] = {}
    for held, past in zip(shelf(gathered.published).held, published, strict=True):
        runs.setdefault(past.digest, []).append(held)
    for pair in pairs_of(published):
        older, newer = runs[pair.older], runs[pair.newer]
        yield Sheaf(
            name=pair.folder,
            shows=[asdict(pair), [held.key for held in (*older, *newer)]],
            make=partial(_pages, pair, Shelf(older), Shelf(newer)),
        )


def _pages(pair: Pair, older: Sequence[Judged], newer: Sequence[Judged]) -> Iterator[Output]:
    runs = tuple(older), tuple(newer)
    data = comparison_data(*runs)
    page = _page(pair, *runs, Ledger(data))
    yield Document(path=f"{pair.folder}/index.html", template="compare.html", view={"compare": page})
    yield from _tables(page)
    path = f"{pair.folder}/data.json"
    yield Attachment(path=path, content=data_text(data, path, "comparison"))


def _tables(page: ComparePage) -> Iterator[Attachment]:
    yield shown_table(
        f"{page.pair.folder}/verdicts.csv",
        ("experiment", "claim", "changed", "older status", "older:", "older:", "newer status", "newer:", "newer:"),
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
    yield shown_table(
        f"{page.pair.folder}/times.csv",
        ("experiment", "case", "profile", "older outcome", "older:", "newer outcome", "newer:",
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


def _page(pair: Pair, older: Sequence[Judged], newer: Sequence[Judged], ledger: Ledger) -> ComparePage:
    both = shared(older, newer)
    before, after = both[0]
    rows = [(each, _field(each, before, after)) for each in differences(before, after)]
    return ComparePage(
        pair=pair,
        outcome=_outcome(ledger, pair.one_model),
        older_data=_data(before),
        newer_data=_data(after),
        machine=tuple(row for each, row in rows if each.kind in OF_MACHINE),
        rest=tuple(row for each, row in rows if each.kind not in OF_MACHINE),
        experiments=tuple(_experiment(before, after, ledger) for before, after in both),
    )


def _outcome(ledger: Ledger, one_model: bool) -> Sentence:
    """How many verdicts and times came out otherwise. Those of two models of GPU differ, and none of them changed."""
    claims, changed, cells, moved = (
        ledger.figure("counts", name) or "–" for name in ("claims", "changed", "cells", "moved")
    )
    said: Sentence = (
        "Of ",
        claims,
        " claims that both judged, ",
        changed,
        " came out otherwise" if one_model else " differ between the two",
    )
    if ledger.value("counts", "cells"):
        said = (*said, "; of ", cells, " times, ", moved, " moved")
    return (*said, ".")


def _data(item: Judged) -> str:
    return f"../../{verdict_folder(item.digest, item.plan.name)}/data.json"


def _field(difference: Difference, older: Judged, newer: Judged) -> FieldRow:
    return FieldRow(
        name=difference.name,
        older=field_figure(Ledger(older.data), difference.path),
        newer=field_figure(Ledger(newer.data), difference.path),
    )


def _experiment(older: Judged, newer: Judged, ledger: Ledger) -> ExperimentPair:
    claims = tuple(
        _claim(older, newer, claim.name, claim_sentence(claim))
        for claim in newer.plan.claims
        if claim.name in older.data["claims"]
    )
    return ExperimentPair(
        slug=experiment_folder(newer.plan.name),
        title=newer.plan.title,
        older_folder=f"../../{verdict_folder(older.digest, older.plan.name)}",
        newer_folder=f"../../{verdict_folder(newer.digest, newer.plan.name)}",
        older_data=_data(older),
        newer_data=_data(newer),
        claims=tuple(sorted(claims, key=lambda claim: not claim.changed)),
        changed=sum(claim.changed for claim in claims),
        cases=tuple(found for case in newer.plan.cases if (found := _case(older, newer, case, ledger)).cells),
    )


def _claim(older: Judged, newer: Judged, name: str, text: str) -> ClaimPair:
    before, after = _side(older, name), _side(newer, name)
    return ClaimPair(
        text=text,
        changed=before.status != after.status,
        older=before,
        newer=after,
        redefined=redefined(older.plan, newer.plan, name),
    )


def _side(item: Judged, claim: str) -> Side:
    ledger = Ledger(item.data)
    return Side(
        status=item.data["claims"][claim]["status"],
        mark=item.data["claims"][claim]["mark"],
        least=ledger.end(claim, "smallest_ratio", show=format.times),
        most=ledger.end(claim, "largest_ratio", show=format.times),
    )


def _case(older: Judged, newer: Judged, case: PlannedCase, ledger: Ledger) -> CasePair:
    """The cells of a case that at least one of the runs measured, and that both know."""
    before = older.data["cells"].get(case.name, {})
    after = newer.data["cells"][case.name]
    profiles = [
        profile
        for profile in newer.plan.profiles
        if profile.name in before and "measured" in (before[profile.name]["outcome"], after[profile.name]["outcome"])
    ]
    return CasePair(
        label=case_label(case),
        cells=tuple(_cell(older, newer, case.name, profile.name, profile.title, ledger) for profile in profiles),
    )


def _cell(older: Judged, newer: Judged, case: str, profile: str, title: str, ledger: Ledger) -> CellPair:
    path = ("cells", case, profile)
    sides = [Ledger(item.data) for item in (older, newer)]
    p50s = [side.figure(*path, "p50_seconds", show=format.microseconds) for side in sides]
    moved = ("experiments", newer.plan.name, "times", case, profile)
    return CellPair(
        profile=title,
        older=p50s[0],
        newer=p50s[1],
        older_outcome=sides[0].value(*path, "outcome"),
        newer_outcome=sides[1].value(*path, "outcome"),
        ratio=ledger.ratio(*moved),
        interval=ledger.interval(*moved),
        moved=bool(ledger.value(*moved, "moved")),
    )
