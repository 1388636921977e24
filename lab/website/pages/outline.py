"""An experiment, and its published runs → their outlines: all that pages about several experiments show of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from lab.definition.asked import claim_sentence
from lab.website.data.judged import Judged
from lab.website.data.outline import Outline, Outlines, PastOutline
from lab.website.data.verdict_log import changes
from lab.website.figure import Ledger, plain_sentence
from lab.website.files.entries import history_entries
from lab.website.outputs import Gathered
from lab.website.pages.answer import answer
from lab.website.pages.established import findings
from lab.website.pages.labels import case_label
from lab.website.pages.rivals import by_rival
from lab.website.pages.search import search_answer, search_cases
from lab.website.pages.tallies import verdict_counts
from lab.website.wording.quoted import quoted

MACHINE = ("device", "gpu", "gpu_id")


def outlines(gathered: Gathered) -> Outlines:
    """Those that came with what was gathered; else they are made of it."""
    if gathered.outlines is not None:
        return gathered.outlines
    names = dict.fromkeys(item.plan.name for item in gathered.published)
    past = {(each.name, each.digest): each for name in names for each in past_outlines(gathered.history(name))}
    return Outlines(
        current=tuple(outline(item, gathered.history(item.plan.name)) for item in gathered.current),
        published=tuple(past[item.plan.name, item.digest] for item in gathered.published),
    )


def outline(item: Judged, history: Sequence[Judged] = ()) -> Outline:
    """`history`: its published runs."""
    ledger, plan, said = Ledger(item.data), item.plan, quoted(item)
    shown = search_answer(item, ledger) if search_cases(item, ledger) else answer(item, ledger)
    return Outline(
        name=plan.name,
        title=plan.title,
        question=plan.question,
        self_test=plan.self_test,
        digest=item.digest,
        gpu=item.machine["gpu"] if item.evidence and not item.on_cpu else "",
        on_cpu=item.on_cpu,
        machine_name=item.machine_name,
        measured_utc=item.measured_utc,
        finished_utc=item.finished_utc,
        counts=verdict_counts(item),
        rivals=by_rival(item),
        answer=plain_sentence(shown),
        findings=findings(item, history),
        claims=[(claim.name, claim_sentence(claim)) for claim in plan.claims],
        cases=[(case.name, case_label(case)) for case in plan.cases],
        profiles=[(profile.name, profile.title, profile.technique) for profile in plan.profiles],
        phrases=said.phrases,
        machine_phrases=said.machine,
    )


def past_outlines(history: Sequence[Judged]) -> Iterator[PastOutline]:
    """`history`: the published runs of one experiment, oldest first."""
    log = changes(history)
    turned = [change for change in log if change.was]
    entries = history_entries(history, log)
    for item in history:
        texts, said = {claim.name: claim_sentence(claim) for claim in item.plan.claims}, quoted(item)
        yield PastOutline(
            name=item.plan.name,
            title=item.plan.title,
            digest=item.digest,
            run_id=item.evidence["run_id"],
            finished_utc=item.finished_utc,
            cut_short=bool(item.evidence["cut_short"]),
            machine={name: item.machine[name] for name in MACHINE},
            machine_name=item.machine_name,
            counts=verdict_counts(item),
            turned=[(c.claim, texts[c.claim], c.was, c.now) for c in turned if c.digest == item.digest],
            entries=[asdict(entry) for entry in entries[item.digest]],
            phrases=said.phrases,
            machine_phrases=said.machine,
        )
