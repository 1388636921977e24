"""A page for every profile: how it works, what was expected of it, where it was measured, where it wins and loses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.data.judged import Judged
from lab.website.data.shelf import Held, Shelf, shelf
from lab.website.figure import Figure, Ledger
from lab.website.files.shown_tables import Cell, shown, shown_table
from lab.website.outputs import Document, Gathered, Output, Sheaf
from lab.website.pages.clocks import clocks_of
from lab.website.pages.labels import TITLES, baseline_title, case_label, profile_title, scope_told
from lab.website.pages.outline import outlines
from lab.website.pages.tallies import supported_at

ROOT = "../../"  # from a profile's page to the site's root
COLUMNS = ("experiment", "case", "standing", "p50_seconds", "ratio", "interval", "against", "why_not")
STANDINGS = ("fastest", "level with the fastest", "slower than the fastest", "without a time")


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The profile at one case, in the headline scope."""

    case: str
    label: str
    standing: str  # one of STANDINGS
    p50: Figure | None
    ratio: Figure | None  # how many times as fast as the fastest of the others
    interval: Figure | None
    against: str  # who that is
    why_not: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileClaim:
    name: str
    text: str
    status: str
    mark: str
    role: str  # 'subject' or 'baseline'
    scope: str
    tally: tuple[Figure | str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Appearance:
    """The profile in one experiment. `data` is the file of its figures."""

    experiment: str
    experiment_title: str
    question: str
    data: str
    title: str
    technique: str
    hypothesis: str
    signal: str
    operators: tuple[str, ...]
    package: str
    in_place: bool
    machine: str
    date: str
    on_cpu: bool
    tally: str  # 'fastest at 2 cases, slower at 1'
    standings: tuple[Standing, ...]
    claims: tuple[ProfileClaim, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfilePage:
    name: str
    title: str
    lede: str
    clock: str  # what the times of the headline scope are
    appearances: tuple[Appearance, ...]

    @property
    def measured(self) -> bool:
        """Whether a published run has the profile at any case."""
        return any(each.standings for each in self.appearances)


def profile_pages(gathered: Gathered) -> Iterator[Sheaf]:
    """profiles/<name>/index.html, each of the experiments that have the profile."""
    having: dict[str, list[Held]] = {}
    for held, item in zip(shelf(gathered.current).held, outlines(gathered).current, strict=True):
        for name, _, _ in item.profiles:
            having.setdefault(name, []).append(held)
    for name, found in having.items():
        yield Sheaf(
            name=f"profiles/{name}", shows=[held.key for held in found], make=partial(_page, name, Shelf(found))
        )


def _page(name: str, items: Iterable[Judged]) -> Iterator[Output]:
    appearances = [_appearance(item, each) for item in items for each in item.plan.profiles if each.name == name]
    page = ProfilePage(
        name=name,
        title=appearances[0].title,
        lede=_lede(appearances),
        clock=clocks_of(SCOPE, [each.on_cpu for each in appearances if each.machine]),
        appearances=tuple(appearances),
    )
    folder = f"profiles/{experiment_folder(name)}"
    yield Document(path=f"{folder}/index.html", template="profile.html", view={"page": page})
    if page.measured:
        cells = (_cells(each, row) for each in page.appearances for row in each.standings)
        yield shown_table(f"{folder}/cases.csv", COLUMNS, cells)


def _cells(each: Appearance, row: Standing) -> tuple[Cell, ...]:
    return each.experiment, row.case, row.standing, row.p50, row.ratio, shown(row.interval), row.against, row.why_not


def _lede(appearances: Sequence[Appearance]) -> str:
    """Where it stands over all experiments, in words."""
    counts = _counts([standing for each in appearances for standing in each.standings])
    where = "one experiment" if len(appearances) == 1 else f"{len(appearances)} experiments"
    if not counts:
        return f"In {where}; no run that measured it has been published yet."
    return f"In {where}: {counts}."


def _counts(standings: Sequence[Standing]) -> str:
    """'fastest at 2 cases, slower than the fastest at 1'; empty where there is none."""
    numbers = [(name, sum(each.standing == name for each in standings)) for name in STANDINGS]
    held = [(name, number) for name, number in numbers if number]
    return ", ".join(
        f"{name} at {number}{(' case' if number == 1 else ' cases') if not index else ''}"
        for index, (name, number) in enumerate(held)
    )


def _appearance(item: Judged, profile: PlannedProfile) -> Appearance:
    ledger = Ledger(item.data)
    standings = tuple(
        _standing(item, case, profile, ledger)
        for case in item.plan.included_cases
        if profile in item.plan.profiles_of(case) and item.evidence
    )
    return Appearance(
        experiment=item.plan.name,
        experiment_title=item.plan.title,
        question=item.plan.question,
        data=f"{ROOT}experiments/{item.plan.name}/data.json",
        title=profile.title,
        technique=profile.technique,
        hypothesis=profile.hypothesis,
        signal=profile.signal,
        operators=tuple(TITLES.get(op, op) for op in profile.ops),
        package=profile.package,
        in_place=profile.in_place,
        machine=item.machine_name,
        date=format.day(item.measured_utc),
        on_cpu=item.on_cpu,
        tally=_counts(standings),
        standings=standings,
        claims=tuple(_claims(item, profile, ledger)),
    )


def _standing(item: Judged, case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> Standing:
    places = item.places(case.name, SCOPE)
    place = places.get(profile.name)
    if place is None:
        cell = item.cell(case.name, profile.name)
        reason = f"{cell['outcome']}: {cell['reason']}" if cell["reason"] else str(cell["outcome"])
        return Standing(
            case=case.name, label=case_label(case), standing=STANDINGS[3], p50=None, ratio=None,
            interval=None, against="", why_not=reason,
        )  # fmt: skip
    other = next((name for name in places if name != profile.name), "")  # the fastest of the others
    path = ("against", case.name, profile.name, other)
    return Standing(
        case=case.name,
        label=case_label(case),
        standing=STANDINGS[2] if place.rank > 1 and not place.level else STANDINGS[1] if place.level else STANDINGS[0],
        p50=ledger.figure("cells", case.name, profile.name, "p50_seconds", show=format.microseconds),
        ratio=ledger.ratio(*path) if other else None,
        interval=ledger.interval(*path) if other else None,
        against=profile_title(item, other) if other else "",
        why_not="" if place.proven else "by too few sweeps to say",
    )


def _claims(item: Judged, profile: PlannedProfile, ledger: Ledger) -> Iterator[ProfileClaim]:
    for claim in item.plan.claims:
        if profile.name in (claim.subject, claim.baseline):
            path = ("claims", claim.name)
            other = (
                f"against {baseline_title(item, claim)}"
                if claim.subject == profile.name
                else f"as the baseline of {profile_title(item, claim.subject)}"
            )
            yield ProfileClaim(
                name=claim.name,
                text=claim_sentence(claim),
                status=ledger.value(*path, "status"),
                mark=ledger.value(*path, "mark"),
                role=other,
                scope=scope_told(claim.scope, item.on_cpu) if claim.measure == "speedup" else "in DRAM traffic",
                tally=supported_at(claim.name, ledger),
            )
