"""What the feed says of the published runs of one experiment."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from lab.definition.asked import claim_sentence
from lab.website.addresses import experiment_folder, short, verdict_folder
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import Change

NEVER = "1970-01-01T00:00:00Z"  # Atom asks for a date, also where nothing has one


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    about: str  # what its id ends in
    updated: str
    title: str
    summary: str
    link: str


def history_entries(history: Sequence[Judged], log: Sequence[Change]) -> dict[str, list[Entry]]:
    """By the digest of its run: first evidence on a kind of GPU, and each change of a claim's verdict after it."""
    runs = {item.digest: item for item in history}
    found: dict[str, list[Entry]] = {digest: [] for digest in runs}
    first: dict[str, list[Change]] = {}
    for change in log:
        if change.was:
            found[change.digest].append(_changed(change, runs[change.digest], runs[change.before]))
        else:
            first.setdefault(change.digest, []).append(change)
    for digest, told in first.items():
        found[digest].append(_first(runs[digest], told))
    return found


def _first(item: Judged, found: Sequence[Change]) -> Entry:
    claims = {claim.name: claim_sentence(claim) for claim in item.plan.claims}
    return Entry(
        about=f"{experiment_folder(item.plan.name)}/first/{short(item.digest)}",
        updated=moment(item.finished_utc),
        title=f"{item.plan.title}: first verdicts on {item.machine_name}",
        summary=f"{item.plan.question} " + " ".join(f"{each.now}: {claims[each.claim]}" for each in found),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html",
    )


def _changed(change: Change, item: Judged, before: Judged) -> Entry:
    text = next(claim_sentence(claim) for claim in item.plan.claims if claim.name == change.claim)
    return Entry(
        about=f"{experiment_folder(item.plan.name)}/{experiment_folder(change.claim)}/{short(item.digest)}",
        updated=moment(item.finished_utc),
        title=f"{item.plan.title}: {change.was} → {change.now}: {text}",
        summary=(
            f"Run {item.evidence['run_id']} on {item.machine_name} finds the claim {change.now}; run "
            f"{before.evidence['run_id']} before it found it {change.was}. What changed: {change.attribution}."
        ),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html#claim-{change.claim}",
    )


def moment(finished_utc: str) -> str:
    """When the run ended. Evidence may hold any text there, and Atom only a moment."""
    try:
        said = datetime.datetime.fromisoformat(finished_utc)
    except ValueError:
        return NEVER
    return said.replace(tzinfo=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
