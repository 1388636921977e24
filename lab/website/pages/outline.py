"""An experiment, and its published runs → their outlines: all that pages about several experiments show of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange, changes
from lab.website.data.winners import winners
from lab.website.outputs import Outlines, SiteContext
from lab.website.pages.feed_entries import history_entries, verdict_page
from lab.website.pages.labels import case_label
from lab.website.verdict_words import verdict_counts
from lab.website.wording.lint import quoted

MACHINE = ("device", "gpu", "gpu_id")


def outlines(context: SiteContext) -> Outlines:
    """Those that came with the context; else they are made of it."""
    if context.outlines is not None:
        return context.outlines
    names = dict.fromkeys(item.name for item in context.published)
    past = {(each.name, each.digest): each for name in names for each in past_outlines(context.history(name))}
    return Outlines(
        current=tuple(outline(item, context.history(item.plan.name)) for item in context.current),
        published=tuple(past[item.plan.name, item.digest] for item in context.published),
    )


def outline(item: Judged, history: Sequence[Judged] = ()) -> View:
    """What lists and counts show of an experiment; of one that was not measured, texts are empty.
    `phrases` are what a page may quote though a figure is in it. `history`: its published runs."""
    plan = item.plan
    return View(
        name=plan.name, title=plan.title, question=plan.question, self_test=plan.self_test, digest=item.digest,
        on_cpu=item.on_cpu, machine_name=item.machine_name, measured_utc=item.measured_utc,
        finished_utc=item.finished_utc, counts=verdict_counts(item), winners=winners(item, history),
        isolated=_isolated(item),
        claims=[(claim.name, claim_sentence(claim)) for claim in plan.claims],
        cases=[(case.name, case_label(case)) for case in plan.cases],
        phrases=quoted(item),
    )  # fmt: skip


def _isolated(item: Judged) -> bool:
    """Whether the host waited for each timed call; of what was not measured nothing has to be said."""
    return bool(item.evidence.get("isolated", True))


def past_outlines(history: Sequence[Judged]) -> Iterator[View]:
    """The same of an experiment as each published run has it. `turned`: claims with another verdict than before.
    `history`: the published runs, oldest first."""
    log = changes(history)
    entries = history_entries(history, log)
    for item in history:
        turned = [each for each in log if each.was and each.digest == item.digest]
        yield View(
            name=item.plan.name, title=item.plan.title, digest=item.digest, run_id=item.evidence["run_id"],
            finished_utc=item.finished_utc, cut_short=bool(item.evidence["cut_short"]),
            machine={name: item.machine[name] for name in MACHINE}, machine_name=item.machine_name,
            on_cpu=item.on_cpu, isolated=_isolated(item), sweeps=item.evidence["sweeps"], counts=verdict_counts(item),
            turned=[_turned(item, each) for each in turned],
            entries=[asdict(entry) for entry in entries[item.digest]],
            phrases=quoted(item),
        )  # fmt: skip


def _turned(item: Judged, change: VerdictChange) -> dict[str, str]:
    return {
        "title": item.plan.title, "text": claim_sentence(item.plan.claim(change.claim)),
        "was": change.was, "was_word": change.was_word, "now": change.now, "now_word": change.now_word,
        "href": verdict_page(item, change.claim),
    }  # fmt: skip
