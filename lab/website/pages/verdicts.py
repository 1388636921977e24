"""An experiment as one run has it: verdicts at an address that stays, whatever is measured later."""

from collections.abc import Iterator
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.definition.plan import PlannedClaim
from lab.definition.search import is_search
from lab.website import format
from lab.website.addresses import verdict_folder
from lab.website.data.comparison import PROVENANCE
from lab.website.data.judged import Judged, verdict_data
from lab.website.data.verdict_log import changes
from lab.website.figure import DataView, Figure
from lab.website.files.csv_tables import csv_files
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.answer import answer
from lab.website.pages.boundary import boundary, live_command
from lab.website.pages.history import compare_link, verdict_link
from lab.website.pages.labels import baseline_title, case_label, evidence_facts, profile_title
from lab.website.pages.tuning import search_answer
from lab.website.table import Link, PageTable, Soft, TableRow, VerdictChip, numbers, table_row, words
from lab.website.verdict_words import case_word, claim_word, samples_taken, status_counts, supported_at, verdict_counts

ROOT = "../../../"  # of the site, from such a page


def verdict_pages(context: SiteContext) -> Iterator[Output]:
    shown = {item.plan.name: item for item in context.current}
    for name, history in context.histories().items():
        log = changes(history)
        for place, item in enumerate(history):
            around = (history[place - 1] if place else None, history[place + 1] if place + 1 < len(history) else None)
            folder = verdict_folder(item.digest, name)
            changed = {
                change.claim: View(
                    word=change.was_word,
                    run_id=before.evidence["run_id"],
                    link=verdict_link(before, ROOT),
                    why=change.attribution,
                    compare=compare_link(change, history, ROOT),
                )
                for change in log
                if change.was and change.digest == item.digest
                for before in (next(run for run in history if run.digest == change.before),)
            }
            page = _page(item, shown.get(name), around, changed)
            yield Document(path=f"{folder}/index.html", template="verdicts.html", view={"page": page})
            data = f"{folder}/data.json"
            yield Attachment(path=data, content=data_text(verdict_data(item.data), data, "verdict", indent=None))
            yield from csv_files(item, folder, ("claims",))


def _page(
    item: Judged, current: Judged | None, around: tuple[Judged | None, Judged | None], changed: dict[str, View]
) -> View:
    """`current` is the evidence that the experiment's own page shows: None where it is this, or there is no page."""
    view, evidence = DataView(item.data), item.evidence
    is_current = current is not None and current.digest == item.digest
    return View(
        slug=item.plan.name, title=item.plan.title, question=item.plan.question,
        answer=search_answer(item, view) if is_search(item.plan) else answer(item, view), command=live_command(item),
        defined=current is not None, is_current=is_current,
        current=None if is_current or current is None else _elsewhere(current), next=_elsewhere(around[1]),
        previous=_elsewhere(around[0]), run_id=evidence["run_id"], digest=item.digest,
        finished_utc=evidence["finished_utc"], date=format.minute(evidence["finished_utc"]), gpu=item.machine_name,
        on_cpu=item.on_cpu,
        cut_short=evidence["cut_short"], samples=samples_taken(view), policy=view.figure("policy_version"),
        policy_of_run=view.figure("evidence", "policy_version_of_run"), counts=status_counts([verdict_counts(item)]),
        claims=tuple(_claim(item, claim, changed.get(claim.name), view) for claim in item.plan.claims),
        boundary=boundary(item, view), provenance=evidence_facts(view, PROVENANCE),
    )  # fmt: skip


def _elsewhere(item: Judged | None) -> View | None:
    """A run of the same experiment, by the folder of its verdicts."""
    if item is None or not item.digest:
        return None
    return View(
        run_id=item.evidence["run_id"],
        date=format.minute(item.evidence["finished_utc"]),
        folder=verdict_folder(item.digest, item.plan.name),
        machine=item.machine_name,
    )


def _claim(item: Judged, claim: PlannedClaim, change: View | None, view: DataView) -> View:
    """`change`: how it came out in the run before, where otherwise."""
    result = item.data["claims"][claim.name]
    return View(
        name=claim.name, text=claim_sentence(claim), status=result["status"], word=claim_word(result),
        mark=result["mark"], tally=supported_at(claim.name, view), change=change,
        table=_table(item, claim, view) if result["cases"] else None,
    )  # fmt: skip


def _table(item: Judged, claim: PlannedClaim, view: DataView) -> PageTable:
    """Its verdicts case by case."""
    sides = profile_title(item, claim.subject), baseline_title(item, claim)
    of = BYTES_WORDS.get(claim.measure)
    unit = of.unit if of else "p50, µs"
    scope = Link(claim.scope, f"{ROOT}glossary/index.html#{claim.scope}")
    asked = view.figure("claims", claim.name, "threshold", show=format.threshold)
    return PageTable(
        label=claim_sentence(claim),
        heads=(*words("Case"), *numbers(*(f"{side}, {unit}" for side in sides), "Ratio", "Interval"),
               *words("Verdict")),
        rows=tuple(_verdict(item, claim, case, view) for case in item.data["claims"][claim.name]["cases"]),
        caption=(f"{sides[0]} against {sides[1]} in ", scope, ". The claim asks for at least ", asked, "."),
    )  # fmt: skip


def _verdict(item: Judged, claim: PlannedClaim, case: str, view: DataView) -> TableRow:
    path, of_bytes = ("claims", claim.name, "cases", case), claim.measure in BYTES_WORDS
    result: dict[str, Any] = view.value(*path)
    chip = VerdictChip(result["status"], result["mark"], word=case_word(result, claim.measure))
    return table_row(
        next(case_label(each) for each in item.plan.cases if each.name == case),
        _side(claim, case, "subject", view),
        _side(claim, case, "baseline", view),
        view.figure(*path, "ratio") if of_bytes else view.ratio(*path),
        None if of_bytes else view.interval(*path),
        (chip, Soft((result["reason"],))) if result["reason"] else chip,
    )


def _side(claim: PlannedClaim, case: str, side: str, view: DataView) -> Figure | None:
    if claim.measure in BYTES_WORDS:
        return view.figure("claims", claim.name, "cases", case, f"{side}_bytes")
    profile = getattr(claim, side)
    return view.figure("cells", case, profile, "scopes", claim.scope, "p50_seconds")
