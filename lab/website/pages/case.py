"""A page for every case of every experiment: what it computes, and all that the run shown knows of it."""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence
from lab.website.files.csv_tables import tables_of
from lab.website.outputs import Document, SiteContext
from lab.website.pages.case_folds import ROOT
from lab.website.pages.case_sections import sections
from lab.website.pages.history import run_link
from lab.website.pages.labels import begun, case_label, listed, named, profile_title
from lab.website.pages.snippet import Snippet, snippet
from lab.website.table import Link, Words


def case_pages(context: SiteContext) -> Iterator[Document]:
    for item in context.current:
        view, tables = DataView(item.data), tables_of(item)
        # A preview has no pages of published runs to lead to.
        published = () if context.label else context.history(item.plan.name)
        for number, case in enumerate(item.plan.cases):
            page = _page(item, case, number, view, published, tables, context.trust)
            folder = f"experiments/{item.plan.name}/cases/{experiment_folder(case.name)}"
            yield Document(path=f"{folder}/index.html", template="case.html", view={"page": page})


def _page(
    item: Judged,
    case: PlannedCase,
    number: int,
    view: DataView,
    published: Sequence[Judged],
    tables: tuple[tuple[str, str], ...],
    trust: Mapping[str, Any],
) -> View:
    measured = case.included and bool(item.evidence)
    face, folds = sections(item, case, view, published, trust)
    return View(
        name=case.name, label=case_label(case), title=item.plan.title,
        description=case.description[:1].upper() + case.description[1:], included=measured, only_with=case.only_with,
        on_cpu=item.on_cpu, answer=_answer(item, case, view), facts=tuple(_facts(item, case, measured, view)),
        sections=face, folds=folds, snippets=tuple(_snippets(item, case)), tables=tables,
        before=_neighbour(item.plan.cases, number - 1), after=_neighbour(item.plan.cases, number + 1),
    )  # fmt: skip


def _facts(item: Judged, case: PlannedCase, measured: bool, view: DataView) -> Iterator[tuple[str, Words]]:
    yield "Least traffic", (view.figure("cases", case.name, "least_bytes"), " MB")
    yield (
        "Operations",
        (view.figure("cases", case.name, "flops", show=format.mega), " MFLOP") if case.flops else ("none",),
    )
    if tokens := view.figure("cases", case.name, "tokens"):
        yield "Tokens", (tokens, " a call")
    if case.flops and (intensity := view.figure("limits", case.name, "flops_per_byte")):
        yield "Intensity", (intensity, " FLOP/byte")
    if measured:
        yield "Measured on", (f"{item.machine_name}, {format.day(item.measured_utc)}",)
        run = item.evidence["run_id"]
        yield "Run", (Link(run, run_link(item, ROOT)) if item.digest else run,)


def _answer(item: Judged, case: PlannedCase, view: DataView) -> Sentence:
    """One sentence: who was fastest here, by how much, and how surely."""
    places = item.places(case.name, SCOPE) if case.included else {}
    if not places:
        return ("Not measured in the run that the experiment's page shows.",)
    names = {profile.name: named(profile.title) for profile in item.plan.profiles}
    first, *rest = places
    fastest = begun(profile_title(item, first))
    p50 = view.figure("cells", case.name, first, "p50_seconds", show=format.brief_microseconds) or ""
    tied = [names[name] for name in rest if places[name].level]
    behind = next((name for name in rest if not places[name].level), None)
    who: Sentence = (f"{fastest} was the fastest, with ", p50, " µs a call")
    if not rest:
        who = (f"{fastest}, the only implementation that was measured, took ", p50, " µs a call")
    elif not places[first].proven:
        who = (f"{fastest} had the shortest p50, ", p50, " µs a call, by too few sweeps to say that it is faster")
    elif tied:
        who = (f"{fastest} shared the first place with {listed(tied)}, at ", p50, " µs a call")
    path = ("against", case.name, first, behind) if behind else ()
    ratio, interval = _brief(view, *path) if path else (None, None)
    if behind and ratio and interval:
        lead: Sentence = (*who, ": ", ratio, " ", interval, f" as fast as {names[behind]}, the next")
        medians = view.figure(*path, "quotient_of_medians", show=format.times)
        return (*lead, " (", medians, " by the two medians).") if medians else (*lead, ".")
    return (*who, ".")


def _brief(view: DataView, *path: str) -> tuple[Figure | None, Figure | None]:
    """A ratio and its interval in three digits; none where the rounds of the two were not compared."""
    low, high = view.value(*path, "low"), view.value(*path, "high")
    if low is None:
        return None, None
    return (
        view.figure(*path, "ratio", show=lambda ratio: format.brief_ratio(ratio, low, high)),
        view.figure(*path, "low", show=lambda low: format.brief_interval(low, high)),
    )


def _snippets(item: Judged, case: PlannedCase) -> Iterator[tuple[str, Snippet]]:
    """How to call each implementation that was timed, the fastest first."""
    for name in item.places(case.name, SCOPE) if case.included else ():
        if call := snippet(item.plan.name, name, case.op):
            yield profile_title(item, name), call


def _neighbour(cases: Sequence[PlannedCase], number: int) -> tuple[str, str] | None:
    return (cases[number].name, case_label(cases[number])) if 0 <= number < len(cases) else None
