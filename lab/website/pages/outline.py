"""An experiment, and its published runs → their outlines: all that pages about several experiments show of it."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm
from lab.website.addresses import experiment_folder, short, verdict_folder
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange, changes, followed_cases
from lab.website.data.winners import winners
from lab.website.format import day, times
from lab.website.outputs import Outlines, SiteContext
from lab.website.pages.labels import case_label
from lab.website.verdict_words import verdict_counts
from lab.website.wording.lint import quoted

# What the feed says of the published runs of one experiment.
NEVER = "1970-01-01T00:00:00Z"  # Atom asks for a date, also where nothing has one


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedEntry:
    about: str  # what its id ends in
    updated: str
    title: str
    summary: str
    link: str


def history_entries(history: Sequence[Judged], log: Sequence[VerdictChange]) -> dict[str, list[FeedEntry]]:
    """By the digest of its run: first evidence on a kind of GPU, each change of a claim's verdict after it, and each
    case that became faster or slower."""
    runs = {item.digest: item for item in history}
    entries: dict[str, list[FeedEntry]] = {digest: [] for digest in runs}
    first: dict[str, list[VerdictChange]] = {}
    for change in log:
        if change.was:
            entries[change.digest].append(_changed(change, runs[change.digest], runs[change.before]))
        else:
            first.setdefault(change.digest, []).append(change)
    for digest, first_changes in first.items():
        entries[digest].append(_first(runs[digest], first_changes))
    for alarm in (alarm for each in followed_cases(history) for alarm in each.alarms):
        entries[alarm.confirmed_by].append(_alarmed(alarm, runs))
    return entries


def _first(item: Judged, first_changes: Sequence[VerdictChange]) -> FeedEntry:
    claims = {claim.name: claim_sentence(claim) for claim in item.plan.claims}
    return FeedEntry(
        about=f"{experiment_folder(item.plan.name)}/first/{short(item.digest)}",
        updated=moment(item.finished_utc),
        title=f"{item.plan.title}: first verdicts on {item.machine_name}",
        summary=f"{item.plan.question} " + " ".join(f"{each.now_word}: {claims[each.claim]}" for each in first_changes),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html",
    )


def _changed(change: VerdictChange, item: Judged, before: Judged) -> FeedEntry:
    text = next(claim_sentence(claim) for claim in item.plan.claims if claim.name == change.claim)
    return FeedEntry(
        about=f"{experiment_folder(item.plan.name)}/{experiment_folder(change.claim)}/{short(item.digest)}",
        updated=moment(item.finished_utc),
        title=f"{item.plan.title}: {change.was_word} → {change.now_word}: {text}",
        summary=(
            f"On {item.machine_name}: “{change.now_word}” in run {item.evidence['run_id']}, “{change.was_word}” in run "
            f"{before.evidence['run_id']} before it. What else changed: {change.attribution}."
        ),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html#claim-{change.claim}",
    )


def _alarmed(alarm: Alarm, runs: Mapping[str, Judged]) -> FeedEntry:
    confirmed = runs[alarm.confirmed_by]
    first = runs[alarm.first_run]
    plan, claim, case = confirmed.plan, alarm.series.claim, alarm.series.case
    text = next(claim_sentence(each) for each in plan.claims if each.name == claim)
    label = next(case_label(each) for each in plan.cases if each.name == case)
    return FeedEntry(
        about=f"{experiment_folder(plan.name)}/{experiment_folder(claim)}/{case}/alarm/{short(confirmed.digest)}",
        updated=moment(confirmed.finished_utc),
        title=f"{plan.title}: {alarm.direction} than before at {label}",
        summary=(
            f"{text} On board {alarm.series.board[:6] or '?'}, {confirmed.machine_name}: {times(alarm.before)} in the "
            f"{alarm.past_runs} runs before, {times(alarm.after)} since run {first.evidence['run_id']} of "
            f"{day(first.measured_utc)}; run {confirmed.evidence['run_id']} confirmed it."
        ),
        link=f"{verdict_folder(confirmed.digest, plan.name)}/index.html#claim-{claim}",
    )


def moment(finished_utc: str) -> str:
    """When the run ended. Evidence may hold any text there, and Atom only a moment."""
    try:
        said = datetime.datetime.fromisoformat(finished_utc)
    except ValueError:
        return NEVER
    return said.replace(tzinfo=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    log = changes(history)
    turned = [change for change in log if change.was]
    entries = history_entries(history, log)
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
            entries=[asdict(entry) for entry in entries[item.digest]],
            phrases=said.phrases,
            machine_phrases=said.machine,
        )
