"""How far the lab itself can be trusted: repeats, known answers, the threat model, as a page and data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace as View
from typing import Any

from lab.verdict.statistics import per_cent
from lab.verdict.validity import EXPERIMENT, SESSION_SWEEPS
from lab.verdict.widening import DRAW_SPREAD
from lab.website import format
from lab.website.data.judged import json_text
from lab.website.data.publication_log import LOG, gone, head, text_of
from lab.website.figure import DataView, Sentence, sentence
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.labels import listed
from lab.website.pages.outline import outlines
from lab.website.pages.trust_error_rates import power_part, same_part, self_comparison_errors
from lab.website.pages.trust_instruments import canaries_part, flush_part, instruments_part, turned_claims
from lab.website.pages.trust_neighbours import neighbours_part
from lab.website.pages.trust_part import Part
from lab.website.pages.trust_repeatability import how_many_changed, missed_goals, repeatability_part
from lab.website.pages.trust_reproducibility import changed_csv, changed_part, moved_times, repeats_part
from lab.website.table import csv_file

KNOWN = ("power", "same")  # parts of tests whose right answers are known


def trust_pages(context: SiteContext) -> Iterator[Output]:
    """trust/index.html, its data and its tables as CSV; a preview of one run has none."""
    if context.trust:
        page = trust_page(context.trust, runs_with_known_answers(context.trust, outlines(context).published))
        yield Document(
            path="trust/index.html",
            template="trust.html",
            view={**page, "log": _log(context), "experiments": {item.name for item in context.current}},
        )
        yield Attachment(path="trust/data.json", content=json_text(context.trust))
        parts = (*page["face"], *page["folded"])
        yield from (csv_file(part["csv"], f"trust/{part['anchor']}.csv") for part in parts)
        if page["changed"]:
            yield changed_csv(context.trust)
    if context.log:
        yield Attachment(path=LOG, content=text_of(context.log))


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownAnswers:
    """When the runs were made whose right answers are known, and which they were, as a sentence."""

    dates: str
    told: str


def runs_with_known_answers(data: Mapping[str, Any], published: Sequence[View]) -> KnownAnswers | None:
    """`published`: lab.website.pages.outline.past_outlines. A run that is too short for a session tells nothing."""
    runs = [each for each in published if each.name == EXPERIMENT and each.sweeps >= SESSION_SWEEPS and not each.on_cpu]
    if not runs:
        return None
    protocols = {
        f"sweeps × rounds × samples: {each['protocol']}"
        for each in data["repeats"].values()
        if each["experiment"] == EXPERIMENT
    }
    went_on = [each.run_id for each in runs if not each.isolated]
    later = "not isolated: the host went on enqueuing while a call was timed, as it no longer does" if went_on else ""
    how = "; ".join(filter(None, (*sorted(protocols), later)))
    return KnownAnswers(
        dates=listed(sorted({format.day(each.finished_utc) for each in runs})),
        told=f"From {listed([each.run_id for each in runs])}{f' ({how})' if how else ''}. ",
    )


def _dated(part: Part, tests: KnownAnswers | None) -> Part:
    if tests is None or part["anchor"] not in KNOWN:
        return part
    return part | {"title": f"{part['title']} Runs of {tests.dates}", "about": tests.told + part["about"]}


def trust_page(data: Mapping[str, Any], tests: KnownAnswers | None = None) -> dict[str, Any]:
    """`data`: of lab.website.data.published_trust."""
    view = DataView(data)
    face = (repeatability_part, power_part)
    folded = (same_part, repeats_part, neighbours_part, instruments_part, flush_part, canaries_part)
    return {
        "lede": _lede(view), "missed": missed_goals(view), "repeated": bool(view.value("repeatability")),
        "errors": self_comparison_errors(view),
        "moved": moved_times(view), "clocks": turned_claims(view), "changed": changed_part(view),
        "face": tuple(_dated(part, tests) for make in face if (part := make(view))["table"].rows),
        "folded": tuple(_dated(part, tests) for make in folded if (part := make(view))["table"].rows),
        "draw_spread": per_cent(DRAW_SPREAD),
    }  # fmt: skip


def _log(context: SiteContext) -> dict[str, Any] | None:
    """The log of publications, and which of them are no longer there; None where no log was kept."""
    if not context.log:
        return None
    missing = gone(context.log, {each.digest for each in context.files})
    dated = tuple((each.run_id, format.minute(each.published_utc), each.digest) for each in missing)
    return {"path": LOG, "head": head(context.log), "gone": dated}


def _lede(view: DataView) -> Sentence:
    repeated, compared = view.value("repeated", "comparisons"), view.value("same", "comparisons")
    told = (
        "Over all runs of an experiment, changed kernels included and screenings of the zoo left out, "
        "{repeated/changed_count} of {repeated/comparisons} claims at a case changed their verdict, "
        "{repeated/flip_count} of them from “holds” to “does not hold” or back. " if repeated else "",
        "Of {same/comparisons} comparisons of a function with itself, {same/supported} called one side faster."
        if compared else "",
    )  # fmt: skip
    repeats = how_many_changed(view)
    whole = "".join(told) or ("" if repeats else "No run that tests the lab itself has been published yet.")
    return (*repeats, *sentence(view, whole))
