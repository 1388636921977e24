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

from lab.website.decisions import Decision, Freshness, Standing, freshness
from lab.website.judged import Judged
from lab.website.outputs import Attachment, Gathered
from lab.website.plain_text import plain

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
    found: list[Entry] = []
    for item in gathered.current:
        found += _of_history(gathered.history(item.plan.name))
    for decision, standings in gathered.decisions:
        if freshness(standings) is not Freshness.FRESH:
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
    """Each run against the one before it on a machine of the same name: no verdict is carried from one to another."""
    before: dict[str, Judged] = {}
    for item in history:
        machine = item.machine_name
        if machine in before:
            yield from _changes(before[machine], item)
        else:
            yield _first(item)
        before[machine] = item


def _first(item: Judged) -> Entry:
    statuses = [str(claim["status"]) for claim in item.data["claims"].values()]
    tally = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return Entry(
        about=f"{item.plan.name}/first/{item.digest[:12]}",
        updated=_moment(item),
        title=f"{item.plan.title}: first evidence on {item.machine_name}",
        summary=f"{item.plan.question} Claims: {tally or 'none'}.",
        link=f"experiments/{item.plan.name}/index.html",
    )


def _changes(older: Judged, newer: Judged) -> Iterator[Entry]:
    for claim in newer.plan.claims:
        was, now = older.data["claims"].get(claim.name), newer.data["claims"][claim.name]
        if was and was["status"] != now["status"]:
            yield Entry(
                about=f"{newer.plan.name}/{claim.name}/{newer.digest[:12]}",
                updated=_moment(newer),
                title=f"{newer.plan.title}: {was['status']} → {now['status']}: {claim.text}",
                summary=(
                    f"Run {newer.evidence['run_id']} on {newer.machine_name} finds the claim {now['status']}; "
                    f"run {older.evidence['run_id']} before it found it {was['status']}."
                ),
                link=f"experiments/{newer.plan.name}/index.html#claim-{claim.name}",
            )


def _of_decision(decision: Decision, found: Sequence[Standing], current: Sequence[Judged]) -> Entry:
    """One entry a decision and a way of being stale: newer evidence of the same updates it."""
    state = freshness(found)
    stale = [standing.support for standing in found if standing.freshness is state]
    shown = {item.plan.name: item for item in current}
    return Entry(
        about=f"decisions/{decision.slug}/{state}",
        updated=_when(decision, state, [shown[s.experiment] for s in stale if s.experiment in shown]),
        title=f"Decision {state}: {decision.title}",
        summary=" ".join(_of_support(support.experiment, support.claim, support.expects, shown) for support in stale),
        link=f"decisions/{decision.slug}/index.html",
    )


def _of_support(experiment: str, claim: str, expects: str, shown: dict[str, Judged]) -> str:
    now = shown[experiment].data["claims"].get(claim, {}).get("status") if experiment in shown else None
    return f"It rests on {experiment}/{claim} being {expects}; today it is {now or 'gone'}."


def _when(decision: Decision, state: Freshness, shown: Sequence[Judged]) -> str:
    if state is Freshness.EXPIRED:
        return f"{decision.review_by + datetime.timedelta(days=1)}T00:00:00Z"
    return max([f"{decision.date}T00:00:00Z", *(_moment(item) for item in shown)])


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
