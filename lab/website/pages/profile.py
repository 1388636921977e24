"""A page for every implementation: how it works, what was expected of it, where it wins and where it loses."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.outputs import Document, Output, PageGroup, SiteContext
from lab.website.pages.answer import scope_words
from lab.website.pages.labels import TITLES, baseline_title, case_label, clocks_of, profile_title
from lab.website.pages.outline import outlines
from lab.website.table import Link, PageTable, Soft, Strong, TableRow, csv_table, numbers, shown, table_row, words
from lab.website.verdict_words import claim_word, supported_at

ROOT = "../../"  # from a profile's page to the site's root
COLUMNS = ("experiment", "case", "standing", "p50_seconds", "ratio", "interval", "against", "why_not")
HEADS = (
    *words("Case", "Standing"), *numbers("Median, µs", "Times as fast", "Interval"), *words("as the fastest other")
)  # fmt: skip
STANDINGS = ("fastest", "level with the fastest", "slower than the fastest", "without a time")


def profile_pages(context: SiteContext) -> Iterator[PageGroup]:
    """profiles/<name>/index.html, each of the experiments that have the profile."""
    having: dict[str, list[Judged]] = {}
    for item_here, item in zip(context.current, outlines(context).current, strict=True):
        for name, _, _ in item.profiles:
            having.setdefault(name, []).append(item_here)
    for name, items in having.items():
        yield PageGroup(
            name=f"profiles/{name}", shows=[item_here.key for item_here in items], make=partial(_page, name, items)
        )


def _page(name: str, items: Iterable[Judged]) -> Iterator[Output]:
    appearances = [_appearance(item, each) for item in items for each in item.plan.profiles if each.name == name]
    page = View(
        name=name,
        title=appearances[0].title,
        lede=_lede(appearances),
        clock=clocks_of(SCOPE, [each.on_cpu for each in appearances if each.machine]),
        appearances=tuple(appearances),
        measured=any(each.standings for each in appearances),  # in any published run
    )
    folder = f"profiles/{experiment_folder(name)}"
    yield Document(path=f"{folder}/index.html", template="profile.html", view={"page": page})
    if page.measured:
        rows = (row for each in page.appearances for row in each.csv)
        yield csv_table(f"{folder}/cases.csv", COLUMNS, rows)


def _lede(appearances: Sequence[View]) -> str:
    """Where it stands over all experiments, in words."""
    counts = _counts([standing for each in appearances for standing in each.standings])
    where = "one experiment" if len(appearances) == 1 else f"{len(appearances)} experiments"
    if not counts:
        return f"In {where}; no run that measured it has been published yet."
    return f"In {where}: {counts}."


def _counts(standings: Sequence[str]) -> str:
    """'fastest at 2 cases, slower than the fastest at 1'; empty where there is none."""
    numbers = [(name, standings.count(name)) for name in STANDINGS]
    nonzero = [(name, number) for name, number in numbers if number]
    return ", ".join(
        f"{name} at {number}{(' case' if number == 1 else ' cases') if not index else ''}"
        for index, (name, number) in enumerate(nonzero)
    )


def _appearance(item: Judged, profile: PlannedProfile) -> View:
    """The profile in one experiment: its table case by case, and the same for a CSV."""
    view = DataView(item.data, f"{ROOT}experiments/{item.plan.name}/data.json#")
    cases = [c for c in item.plan.included_cases if profile in item.plan.profiles_of(c) and item.evidence]
    rows = [_standing(item, case, profile, view) for case in cases]
    standings = tuple(row[0] for row in rows)
    label = f"{profile.title} in {item.plan.title}, case by case"
    cells = tuple(_cells(item.plan.name, case, *row) for case, row in zip(cases, rows, strict=True))
    table = PageTable(label=label, kind="stacks standings", heads=HEADS, rows=cells)
    return View(
        experiment=item.plan.name, experiment_title=item.plan.title, question=item.plan.question, title=profile.title,
        technique=profile.technique, hypothesis=profile.hypothesis, signal=profile.signal,
        operators=tuple(TITLES.get(op, op) for op in profile.ops), package=profile.package, in_place=profile.in_place,
        machine=item.machine_name, date=format.day(item.measured_utc), on_cpu=item.on_cpu, tally=_counts(standings),
        standings=standings, table=table if cells else None,
        csv=tuple(
            (item.plan.name, case.name, standing, p50, ratio, shown(interval), against, why_not)
            for case, (standing, p50, ratio, interval, against, why_not) in zip(cases, rows, strict=True)
        ),
        claims=tuple(_claims(item, profile, view)),
    )  # fmt: skip


def _cells(
    experiment: str, case: PlannedCase, standing: str, p50: Figure | None, ratio: Figure | None,
    interval: Figure | None, against: str, why_not: str,
) -> TableRow:  # fmt: skip
    address = f"{ROOT}experiments/{experiment}/cases/{experiment_folder(case.name)}/index.html"
    stands = Strong((standing,)) if standing == STANDINGS[0] else standing
    doubt = (Soft((why_not,)),) if why_not else ()
    return table_row(Link(case_label(case), address), (stands, *doubt), p50, ratio, interval, against or "–")


def _standing(
    item: Judged, case: PlannedCase, profile: PlannedProfile, view: DataView
) -> tuple[str, Figure | None, Figure | None, Figure | None, str, str]:
    """One of STANDINGS, p50, how many times as fast as the fastest other, the interval, who that is, and why not."""
    places = item.places(case.name, SCOPE)
    place = places.get(profile.name)
    if place is None:
        cell = item.cell(case.name, profile.name)
        reason = f"{cell['outcome']}: {cell['reason']}" if cell["reason"] else str(cell["outcome"])
        return STANDINGS[3], None, None, None, "", reason
    other = next((name for name in places if name != profile.name), "")
    path = ("against", case.name, profile.name, other)
    return (
        STANDINGS[1] if place.level else STANDINGS[2] if place.rank > 1 else STANDINGS[0],
        view.figure("cells", case.name, profile.name, "p50_seconds"),
        view.ratio(*path) if other else None, view.interval(*path) if other else None,
        profile_title(item, other) if other else "", "" if place.proven else "by too few sweeps to say",
    )  # fmt: skip


def _claims(item: Judged, profile: PlannedProfile, view: DataView) -> Iterator[View]:
    for claim in item.plan.claims:
        if profile.name in (claim.subject, claim.baseline):
            path = ("claims", claim.name)
            other = (
                f"against {baseline_title(item, claim)}"
                if claim.subject == profile.name
                else f"as the baseline of {profile_title(item, claim.subject)}"
            )
            yield View(
                name=claim.name, text=claim_sentence(claim), status=view.value(*path, "status"),
                word=claim_word(view.value(*path)), mark=view.value(*path, "mark"), role=other,
                scope=scope_words(claim, item.on_cpu),
                tally=supported_at(claim.name, view),
            )  # fmt: skip
