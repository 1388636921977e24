"""Published speed-ups beside the same cases measured here, and why they differ: a section of an experiment's page."""

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.definition.plan import PlannedCase
from lab.definition.publication import Publication
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence, Show, joined, pointer, sentence
from lab.website.pages.labels import case_label, profile_title

ROOT = "replication"
REASONS = ("reasons", "by_itself")
SIGNS = {"rival": " kernel", "formula": " formula", "warmth": " warm cache", "clock": " launches and all else"}


def replication_section(publications: Sequence[Publication], shown: Judged, view: DataView) -> View | None:
    """None where the experiment measures no publication's cases again."""
    publication = next((each for each in publications if each.slug == view.value(ROOT, "publication")), None)
    if publication is None:
        return None
    first: dict[str, str] = {}  # case → the first table that has it
    for table in publication.tables:
        for case in view.value(ROOT, "tables", table.title) or ():
            first.setdefault(case, table.title)
    tables = tuple(
        View(
            title=table.title,
            source=table.source,
            clock=table.scope,
            rows=tuple(_row(shown, table.title, shown.plan.case(case), first[case], view) for case in cases_of_table),
        )
        for table in publication.tables
        if (cases_of_table := view.value(ROOT, "tables", table.title))
    )
    return View(
        publication=publication.title, slug=publication.slug, scopes=shown.plan.scopes,
        machines=_machines(view), tables=tables,
    )  # fmt: skip


def printed_reasons(case: PlannedCase, view: DataView) -> tuple[View, ...]:
    """Of every published table that has the case; for the case's own page, as they are many words."""
    places = [(table, (ROOT, "tables", table, case.name)) for table in view.value(ROOT, "tables") or {}]
    reasons = [(table, _product(view, path), list(_reasons(view, path))) for table, path in places]
    return tuple(View(table=table, product=product, why=why) for table, product, why in reasons if why)


def _reasons(view: DataView, path: tuple[str, ...]) -> Iterator[Sentence]:
    for kind in REASONS:
        for number in range(len(view.value(*path, kind) or ())):
            yield view.sentence(*path, kind, str(number))


def _row(shown: Judged, table: str, case: PlannedCase, first: str, view: DataView) -> View:
    """One published speed-up. `ratios`: ours by scope, with intervals; `above`: the table above that has the case."""
    path, here = (ROOT, "tables", table, case.name), (ROOT, "measured", case.name)
    rival = view.value(*here, "rival", "profile")
    return View(
        at=f"{pointer(*path)}/",
        case=case_label(case),
        anchor=case.name,
        explained=any(_reasons(view, path)),
        baseline=view.figure(*path, "printed", "baseline_seconds"),
        subject=view.figure(*path, "printed", "subject_seconds"),
        printed=view.figure(*path, "printed", "ratio", show=lambda value: format.amount(value, "ratio")),
        ratios=tuple(
            (view.ratio(*here, "over_baseline", scope), view.interval(*here, "over_baseline", scope))
            for scope in shown.plan.scopes
        ),
        over_rival=(view.ratio(*here, "over_rival"), view.interval(*here, "over_rival")),
        rival=profile_title(shown, rival) if rival else "",
        loop=view.figure(*here, "loop_ratio"),
        product=_product(view, path),
        above="" if first == table else first,
        unmeasured=view.value(ROOT, "unmeasured", case.name) or "",
    )


def _product(view: DataView, path: Sequence[str]) -> Sentence:
    """'8.8× = 1.02× · 5.1× formula · …'; empty where nothing was measured."""
    factors = ((view.figure(*path, "factors", name, show=format.times), sign) for name, sign in SIGNS.items())
    product = joined(((factor, sign) for factor, sign in factors if factor), " · ")
    whole = view.figure(*path, "printed", "ratio", show=lambda value: format.amount(value, "ratio"))
    return (whole, " = ", *product) if product and whole else ()


def _machines(view: DataView) -> Sentence:
    """Times of two GPUs are not comparable: whose memory delivers what."""
    text = "The published times are of an {there/gpu} with a bandwidth of {there/bytes_per_second:speed}"
    text += "; ours are of an {here/gpu} with {here/bytes_per_second:speed}" if view.value(ROOT, "here") else ""
    speed: Show = partial(format.amount, unit="bytes_per_second")
    return sentence(view.at(ROOT), f"{text}. Compare ratios, not microseconds.", speed=speed)
