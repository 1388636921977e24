"""What the feed says of the published runs of one experiment: first verdicts, verdicts that changed, and speeds."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm
from lab.website.addresses import experiment_folder, short, verdict_folder
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange, followed_cases
from lab.website.format import day, times
from lab.website.pages.labels import case_label

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
    told = (f"{each.now_word}: {claim_sentence(item.plan.claim(each.claim))}" for each in first_changes)
    return _entry(
        item, "first", f"first verdicts on {item.machine_name}", " ".join((item.plan.question, *told)),
        verdict_page(item),
    )  # fmt: skip


def _changed(change: VerdictChange, item: Judged, before: Judged) -> FeedEntry:
    return _entry(
        item, experiment_folder(change.claim),
        f"{change.was_word} → {change.now_word}: {claim_sentence(item.plan.claim(change.claim))}",
        f"On {item.machine_name}: “{change.now_word}” in run {item.evidence['run_id']}, “{change.was_word}” in run "
        f"{before.evidence['run_id']} before it. What else changed: {change.attribution}.",
        verdict_page(item, change.claim),
    )  # fmt: skip


def _alarmed(alarm: Alarm, runs: Mapping[str, Judged]) -> FeedEntry:
    confirmed, first = runs[alarm.confirmed_by], runs[alarm.first_run]
    plan, claim, case = confirmed.plan, alarm.series.claim, alarm.series.case
    return _entry(
        confirmed, f"{experiment_folder(claim)}/{case}/alarm",
        f"{alarm.direction} than before at {case_label(plan.case(case))}",
        f"{claim_sentence(plan.claim(claim))} On board {alarm.series.board[:6] or '?'}, {confirmed.machine_name}: "
        f"{times(alarm.before)} in the {alarm.past_runs} runs before, {times(alarm.after)} since run "
        f"{first.evidence['run_id']} of {day(first.measured_utc)}; run {confirmed.evidence['run_id']} confirmed it.",
        verdict_page(confirmed, claim),
    )  # fmt: skip


def _entry(item: Judged, about: str, title: str, summary: str, link: str) -> FeedEntry:
    """Of what happened in a run."""
    return FeedEntry(
        about=f"{experiment_folder(item.plan.name)}/{about}/{short(item.digest)}",
        updated=moment(item.finished_utc), title=f"{item.plan.title}: {title}", summary=summary, link=link,
    )  # fmt: skip


def verdict_page(item: Judged, claim: str = "") -> str:
    return f"{verdict_folder(item.digest, item.plan.name)}/index.html{f'#claim-{claim}' if claim else ''}"


def moment(finished_utc: str) -> str:
    """When the run ended. Evidence may hold any text there, and Atom only a moment."""
    try:
        said = datetime.datetime.fromisoformat(finished_utc)
    except ValueError:
        return NEVER
    return said.replace(tzinfo=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
