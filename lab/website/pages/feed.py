"""The Atom feed: verdicts and speeds that changed between published runs, first evidence, and stale decisions.

Dates are those of the evidence (of an expired decision, the day after its review was due), so that the feed changes
only when something was measured or decided. Ids are `tag:` URIs of the experiment, the claim and the evidence: they
stay the same wherever the site is published. Their authority lies under `.invalid`, where nobody can own a name, and
so nobody's tags can be the same. Atom lets links be relative, to the address that the feed was fetched from; where the
site's address is known, `xml:base` says it, for readers that keep only the text.
"""

import datetime
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from lab.project import project
from lab.website.decisions import Decision, Freshness, SupportStanding, freshness
from lab.website.outputs import Attachment, SiteContext
from lab.website.pages.feed_entries import NEVER, FeedEntry, moment
from lab.website.pages.outline import outlines
from lab.website.wording.hidden import visible

TAG = "tag:kernel-evidence-lab.invalid,2026:"
ATOM = "http://www.w3.org/2005/Atom"
MOST_ENTRIES = 200  # a reader comes for what is new; the pages have all that was


def feed_file(context: SiteContext) -> Iterator[Attachment]:
    """None of a preview: nothing of it is published."""
    if not context.label:
        yield Attachment(path="feed.atom", content=feed_text(entries(context), context.base_url))


def entries(context: SiteContext) -> list[FeedEntry]:
    """The newest ones, newest first."""
    outlined = outlines(context)
    entries = [FeedEntry(**entry) for item in outlined.published for entry in item.entries]
    ended = [item.finished_utc for item in outlined.current] + [item.finished_utc for item in outlined.published]
    newest = max(map(moment, ended), default=NEVER)
    for decision, standings in context.decisions:
        if not decision.closed and freshness(standings) is not Freshness.FRESH:
            entries.append(_of_decision(decision, standings, newest))
    return sorted(entries, key=lambda entry: (entry.updated, entry.about), reverse=True)[:MOST_ENTRIES]


def feed_text(entries: Sequence[FeedEntry], base_url: str) -> str:
    title = project().settings.title
    feed = ET.Element("feed", {"xmlns": ATOM, "xml:lang": "en"} | ({"xml:base": base_url} if base_url else {}))
    _texts(
        feed,
        id=f"{TAG}verdicts",
        title=f"{title}: verdicts that changed, and decisions that are stale",
        updated=max((entry.updated for entry in entries), default=NEVER),
    )
    _texts(ET.SubElement(feed, "author"), name=title)
    ET.SubElement(feed, "link", {"rel": "self", "type": "application/atom+xml", "href": "feed.atom"})
    ET.SubElement(feed, "link", {"rel": "alternate", "type": "text/html", "href": "index.html"})
    for entry in entries:
        element = ET.SubElement(feed, "entry")
        _texts(element, id=TAG + entry.about, title=entry.title, updated=entry.updated, summary=entry.summary)
        ET.SubElement(element, "link", {"rel": "alternate", "type": "text/html", "href": entry.link})
    ET.indent(feed, " ")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(feed, encoding="unicode")}\n'


def _of_decision(decision: Decision, supports: Sequence[SupportStanding], newest: str) -> FeedEntry:
    """One entry a decision and a way of being stale: newer evidence of the same updates it. `newest`: of all."""
    state = freshness(supports)
    stale = [standing for standing in supports if standing.freshness is state]
    found_in = [each.newer or each.now for each in stale]
    taken = [moment(claim.judged.finished_utc) for claim in found_in if claim] or [newest]
    return FeedEntry(
        about=f"decisions/{decision.slug}/{state}",
        updated=_when(decision, state, taken, newest),
        title=f"Decision {state}: {decision.title}",
        summary=" ".join(f"{each.support.experiment}/{each.support.claim}: {each.why}." for each in stale),
        link=f"decisions/{decision.slug}/index.html",
    )


def _when(decision: Decision, state: Freshness, taken: Sequence[str], newest: str) -> str:
    """When the evidence that made it stale was taken, but never before it was decided."""
    overdue = f"{decision.review_by + datetime.timedelta(days=1)}T00:00:00Z"
    if state is Freshness.EXPIRED and overdue <= newest:
        return overdue
    return max([f"{decision.date}T00:00:00Z", *taken])


def _texts(parent: ET.Element, **texts: str) -> None:
    for name, text in texts.items():
        ET.SubElement(parent, name).text = visible(text)
