"""An experiment as one run has it: verdicts at an address that stays, whatever is measured later."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace as View

from lab.definition.catalogue import ZOO
from lab.definition.claim_words import claim_sentence
from lab.definition.search import is_search
from lab.website import format
from lab.website.addresses import verdict_folder
from lab.website.data.differences import PROVENANCE
from lab.website.data.judged import Judged, verdict_data
from lab.website.data.verdict_log import VerdictChange, changes
from lab.website.figure import DataView
from lab.website.files.csv_tables import csv_files
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.answer import answer
from lab.website.pages.boundary import boundary
from lab.website.pages.claims import by_case, claim_view, claims_table
from lab.website.pages.labels import evidence_facts
from lab.website.pages.measure_again import live_command
from lab.website.pages.run_links import compare_link, named_run
from lab.website.pages.times import times_table
from lab.website.pages.tuning import search_answer
from lab.website.table import Link, Words
from lab.website.verdict_words import samples_taken, status_counts, verdict_counts


def verdict_pages(context: SiteContext) -> Iterator[Output]:
    shown = {item.plan.name: item for item in context.current}
    for name, history in context.histories().items():
        log = changes(history)
        for place, item in enumerate(history):
            around = (history[place - 1] if place else None, history[place + 1] if place + 1 < len(history) else None)
            changed = [_change(each, item, history) for each in log if each.was and each.digest == item.digest]
            published, folder = verdict_data(item.data), verdict_folder(item.digest, name)
            page = _page(item, DataView(published), shown.get(name), around, changed)
            yield Document(path=f"{folder}/index.html", template="verdicts.html", view={"page": page})
            data = f"{folder}/data.json"
            yield Attachment(path=data, content=data_text(published, data, "verdict"))
            yield from csv_files(item, folder, ("claims",))


def _change(change: VerdictChange, item: Judged, history: Sequence[Judged]) -> Words:
    """How a claim came out in an earlier run, where otherwise, and what else changed since."""
    before = next(run for run in history if run.digest == change.before)
    link, text = compare_link(change, history), item.plan.claim(change.claim)
    compare = (" ", Link("Compare the two runs", link), ".") if link else ()
    return (
        Link(claim_sentence(text), f"#claim-{change.claim}"), f" It was “{change.was_word}” in ",
        named_run(before), ", an earlier run on this GPU model. What else "
        f"changed: {change.attribution}. Any of it may be the cause, or chance.", *compare,
    )  # fmt: skip


def _page(
    item: Judged, view: DataView, current: Judged | None, around: tuple[Judged | None, Judged | None],
    changed: Sequence[Words],
) -> View:  # fmt: skip
    """`current` is the evidence that the experiment's own page shows: None where it is this, or there is no page."""
    is_current = current is not None and current.digest == item.digest
    claims = tuple(claim_view(item, claim, view, linked=False) for claim in item.plan.claims)
    return View(
        item=item,
        answer=search_answer(item, view) if is_search(item.plan) else answer(item, view), command=live_command(item),
        defined=current is not None, of_zoo=item.name.startswith(ZOO), is_current=is_current,
        current=None if is_current or current is None else _elsewhere(current), next=_elsewhere(around[1]),
        previous=_elsewhere(around[0]), date=format.minute(item.evidence["finished_utc"]),
        samples=samples_taken(view), policy=view.figure("policy_version"),
        policy_of_run=view.figure("evidence", "policy_version_of_run"), counts=status_counts([verdict_counts(item)]),
        claims=claims_table(claims, "Claims"), changed=changed, by_case=by_case(claims), times=times_table(item, view),
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
