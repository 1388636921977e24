"""An experiment, and its published runs → their outlines: all that pages about several experiments show of it."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import changes
from lab.website.data.winners import winners
from lab.website.outputs import Outlines, SiteContext
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
    plan, said = item.plan, quoted(item)
    return View(
        name=plan.name, title=plan.title, question=plan.question, self_test=plan.self_test, digest=item.digest,
        on_cpu=item.on_cpu, machine_name=item.machine_name, measured_utc=item.measured_utc,
        finished_utc=item.finished_utc, counts=verdict_counts(item), winners=winners(item, history),
        claims=[(claim.name, claim_sentence(claim)) for claim in plan.claims],
        cases=[(case.name, case_label(case)) for case in plan.cases],
        phrases=said.phrases, machine_phrases=said.machine,
    )  # fmt: skip


def past_outlines(history: Sequence[Judged]) -> Iterator[View]:
    """The same of an experiment as each published run has it. `turned`: claims with another verdict than before, by
    name, text, status and word before and now. `history`: the published runs, oldest first."""
    turned = [change for change in changes(history) if change.was]
    for item in history:
        texts, said = {claim.name: claim_sentence(claim) for claim in item.plan.claims}, quoted(item)
        yield View(
            name=item.plan.name,
            title=item.plan.title,
            digest=item.digest,
            run_id=item.evidence["run_id"],
            finished_utc=item.finished_utc,
            cut_short=bool(item.evidence["cut_short"]),
            machine={name: item.machine[name] for name in MACHINE},
            machine_name=item.machine_name,
            on_cpu=item.on_cpu,
            counts=verdict_counts(item),
            turned=[
                (c.claim, texts[c.claim], c.was, c.was_word, c.now, c.now_word)
                for c in turned
                if c.digest == item.digest
            ],
            phrases=said.phrases,
            machine_phrases=said.machine,
        )
