"""How far the lab itself can be trusted: repeats, known answers, the threat model, as a page and data."""

from collections.abc import Iterator, Mapping
from typing import Any

from lab.verdict.statistics import per_cent
from lab.verdict.widening import DRAW_SPREAD
from lab.website import format
from lab.website.data.judged import json_text
from lab.website.data.publication_log import LOG, gone, head, text_of
from lab.website.figure import DataView, Sentence, sentence
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.trust_error_rates import power_part, same_part, self_comparison_errors
from lab.website.pages.trust_instruments import canaries_part, flush_part, instruments_part, turned_claims
from lab.website.pages.trust_repeatability import missed_goals, repeatability_part
from lab.website.pages.trust_reproducibility import changed_csv, changed_part, moved_times, repeats_part
from lab.website.table import csv_file


def trust_pages(context: SiteContext) -> Iterator[Output]:
    """trust/index.html, its data and its tables as CSV; a preview of one run has none."""
    if context.trust:
        page = trust_page(context.trust)
        yield Document(path="trust/index.html", template="trust.html", view={**page, "log": _log(context)})
        yield Attachment(path="trust/data.json", content=json_text(context.trust))
        parts = (*page["face"], *page["folded"])
        yield from (csv_file(part["csv"], f"trust/{part['anchor']}.csv") for part in parts)
        if page["changed"]:
            yield changed_csv(context.trust)
    if context.log:
        yield Attachment(path=LOG, content=text_of(context.log))


def trust_page(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data`: of lab.website.data.published_trust."""
    view = DataView(data)
    face = (repeatability_part, power_part)
    folded = (same_part, repeats_part, instruments_part, flush_part, canaries_part)
    return {
        "lede": _lede(view), "missed": missed_goals(view), "errors": self_comparison_errors(view),
        "moved": moved_times(view), "clocks": turned_claims(view), "changed": changed_part(view),
        "face": tuple(part for make in face if (part := make(view))["table"].rows),
        "folded": tuple(part for make in folded if (part := make(view))["table"].rows),
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
        "Over all runs of an experiment, changed kernels included, {repeated/flip_count} of {repeated/comparisons} "
        "claims at a case went from “holds” to “does not hold” or back. " if repeated else "",
        "Of {same/comparisons} comparisons of a function with itself, {same/supported} called one side faster."
        if compared else "",
    )  # fmt: skip
    return sentence(view, "".join(told) or "No run that tests the lab itself has been published yet.")
