"""The Atom feed: verdicts that changed from one published run to the next, first evidence, and stale decisions.

Dates are those of the evidence (of an expired decision, the day after its review was due), so that the feed changes
only when something was measured or decided. Ids are `tag:` URIs of the experiment, the claim and the evidence: they
stay the same wherever the site is published. Their authority lies under `.invalid`, where nobody can own a name, and
so nobody's tags can be the same. Atom lets links be relative, to the address that the feed was fetched from; where the
site's address is known, `xml:base` says it, for readers that keep only the text.
"""

import datetime
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.website.addresses import experiment_folder, short, verdict_folder
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import Change, changes
from lab.website.decisions import Decision, Freshness, Standing, freshness
from lab.website.outputs import Attachment, Gathered
from lab.website.wording.plain_text import plain

TAG = "tag:kernel-evidence-lab.invalid,2026:"
ATOM = "http://www.w3.org/2005/Atom"
XML = "http://www.w3.org/XML/1998/namespace"
MOST_ENTRIES = 200  # a reader comes for what is new; the pages have all that was
NEVER = "1970-01-01T00:00:00Z"  # of a feed without entries: Atom asks for a date, and nothing has one


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    about: str  # what its id ends in
    updated: str
    title: str
    summary: str
    link: str


def feed_room(gathered: Gathered) -> Iterator[Attachment]:
    """None of a preview: nothing of it is published."""
    if not gathered.label:
        yield Attachment(path="feed.atom", content=feed_text(entries(gathered), gathered.base_url))


def entries(gathered: Gathered) -> list[Entry]:
    """The newest ones, newest first."""
    experiments = dict.fromkeys(item.plan.name for item in gathered.published)
    found = [entry for experiment in experiments for entry in _of_history(gathered.history(experiment))]
    for decision, standings in gathered.decisions:
        if not decision.closed and freshness(standings) is not Freshness.FRESH:
            found.append(_of_decision(decision, standings, gathered.current))
    return sorted(found, key=lambda entry: (entry.updated, entry.about), reverse=True)[:MOST_ENTRIES]


def feed_text(found: Sequence[Entry], base_url: str) -> str:
    feed = ET.Element("feed", {"xmlns": ATOM, "xml:lang": "en"} | ({"xml:base": base_url} if base_url else {}))
    _texts(
        feed,
        id=f"{TAG}verdicts",
        title="Kernel Evidence Lab: verdicts that changed, and decisions that are stale",
        updated=max((entry.updated for entry in found), default=NEVER),
    )
    _texts(ET.SubElement(feed, "author"), name="Kernel Evidence Lab")
    ET.SubElement(feed, "link", {"rel": "self", "type": "application/atom+xml", "href": "feed.atom"})
    ET.SubElement(feed, "link", {"rel": "alternate", "type": "text/html", "href": "index.html"})
    for entry in found:
        element = ET.SubElement(feed, "entry")
        _texts(element, id=TAG + entry.about, title=entry.title, updated=entry.updated, summary=entry.summary)
        ET.SubElement(element, "link", {"rel": "alternate", "type": "text/html", "href": entry.link})
    ET.indent(feed, " ")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(feed, encoding="unicode")}\n'


def _of_history(history: Sequence[Judged]) -> Iterator[Entry]:
    """First evidence on a kind of GPU is one entry; each change of a claim's verdict after it is another."""
    runs = {item.digest: item for item in history}
    first: dict[str, list[Change]] = {}
    for change in changes(history):
        if change.was:
            yield _changed(change, runs[change.digest], runs[change.before])
        else:
            first.setdefault(change.digest, []).append(change)
    for digest, found in first.items():
        yield _first(runs[digest], found)


def _first(item: Judged, found: Sequence[Change]) -> Entry:
    claims = {claim.name: claim.text for claim in item.plan.claims}
    return Entry(
        about=f"{experiment_folder(item.plan.name)}/first/{short(item.digest)}",
        updated=_moment(item),
        title=f"{item.plan.title}: first verdicts on {item.machine_name}",
        summary=f"{item.plan.question} " + " ".join(f"{each.now}: {claims[each.claim]}" for each in found),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html",
    )


def _changed(change: Change, item: Judged, before: Judged) -> Entry:
    text = next(claim.text for claim in item.plan.claims if claim.name == change.claim)
    return Entry(
        about=f"{experiment_folder(item.plan.name)}/{experiment_folder(change.claim)}/{short(item.digest)}",
        updated=_moment(item),
        title=f"{item.plan.title}: {change.was} → {change.now}: {text}",
        summary=(
            f"Run {item.evidence['run_id']} on {item.machine_name} finds the claim {change.now}; run "
            f"{before.evidence['run_id']} before it found it {change.was}. What changed: {change.attribution}."
        ),
        link=f"{verdict_folder(item.digest, item.plan.name)}/index.html#claim-{change.claim}",
    )


def _of_decision(decision: Decision, found: Sequence[Standing], current: Sequence[Judged]) -> Entry:
    """One entry a decision and a way of being stale: newer evidence of the same updates it."""
    state = freshness(found)
    stale = [standing for standing in found if standing.freshness is state]
    shown = [standing.now.judged for standing in stale if standing.now] or list(current)
    return Entry(
        about=f"decisions/{decision.slug}/{state}",
        updated=_when(decision, state, shown, current),
        title=f"Decision {state}: {decision.title}",
        summary=" ".join(f"{each.support.experiment}/{each.support.claim} {each.why}." for each in stale),
        link=f"decisions/{decision.slug}/index.html",
    )


def _when(decision: Decision, state: Freshness, shown: Sequence[Judged], current: Sequence[Judged]) -> str:
    """When the evidence that made it stale was taken, but never before it was decided."""
    overdue = f"{decision.review_by + datetime.timedelta(days=1)}T00:00:00Z"
    if state is Freshness.EXPIRED and overdue <= max(map(_moment, current), default=NEVER):
        return overdue
    return max([f"{decision.date}T00:00:00Z", *map(_moment, shown)])


def _moment(item: Judged) -> str:
    """When the run ended. Evidence may hold any text there, and Atom only a moment."""
    try:
        said = datetime.datetime.fromisoformat(item.evidence.get("finished_utc", ""))
    except ValueError:
        return NEVER
    return said.replace(tzinfo=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _texts(parent: ET.Element, **texts: str) -> None:
    for name, text in texts.items():
        ET.SubElement(parent, name).text = plain(text)
