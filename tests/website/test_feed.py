"""The Atom feed: what changed between published runs, and what went stale; dated by evidence alone."""

import dataclasses
import datetime
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from factory import LARGE, SMALL, machine, plan_of, records_of, small_experiment

from lab.evidence.record import RunFinish
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.decisions import ClaimEvidence, Decision, Freshness, Support, SupportStanding
from lab.website.outputs import SiteContext
from lab.website.pages.feed import MOST_ENTRIES, entries, feed_file, feed_text
from lab.website.pages.feed_entries import NEVER, FeedEntry

ATOM = "{http://www.w3.org/2005/Atom}"
FASTER = {
    (case.name, profile): time for case in (SMALL, LARGE) for profile, time in (("plain", 60e-6), ("fast", 40e-6))
}
SLOWER = FASTER | {(SMALL.name, "fast"): 70e-6, (LARGE.name, "fast"): 70e-6}


def run_of(name: str, times, finished: str, gpu: str = "NVIDIA H100 80GB HBM3") -> Judged:
    plan = plan_of(name, experiments=[small_experiment()], include=("large-sweep",))
    records = [
        dataclasses.replace(record, finished_utc=finished) if isinstance(record, RunFinish) else record
        for record in records_of(plan, times, noise=0.001, on=machine(gpu=gpu))
    ]
    digest = name.encode().hex().ljust(64, "0")[:64]
    return judged_run(judge_run(plan, records), digest=digest)[0]


def context(*history: Judged, decisions=(), base_url: str = "") -> SiteContext:
    return SiteContext(
        label="", current=history[-1:], published=history, decisions=tuple(decisions), files=(), base_url=base_url
    )


FIRST = run_of("first", FASTER, "2026-01-02T03:30:00Z")
SECOND = run_of("second", SLOWER, "2026-02-02T03:30:00Z")
THIRD = run_of("third", SLOWER, "2026-03-02T03:30:00Z")
ELSEWHERE = run_of("elsewhere", FASTER, "2026-04-02T03:30:00Z", gpu="NVIDIA A10G")


def test_first_evidence_and_every_change_have_an_entry_and_what_stayed_has_none() -> None:
    change, first = entries(context(FIRST, SECOND, THIRD))
    assert first.title == "Doubling: first verdicts on NVIDIA H100 80GB HBM3"
    assert (first.updated, first.about) == ("2026-01-02T03:30:00Z", f"doubling/first/{FIRST.digest[:12]}")
    assert change.title == "Doubling: faster → slower: Fast is faster than plain, by 2 % or more."
    assert change.updated == "2026-02-02T03:30:00Z"
    assert change.about == f"doubling/fast-beats-plain/{SECOND.digest[:12]}"
    assert "“faster” in run first before it" in change.summary
    assert "What else changed: nothing on record" in change.summary
    assert change.link == f"runs/{SECOND.digest[:12]}/doubling/index.html#claim-fast-beats-plain"


def test_no_verdict_is_carried_from_one_gpu_to_another() -> None:
    newest, *_ = entries(context(FIRST, SECOND, ELSEWHERE))
    assert newest.title == "Doubling: first verdicts on NVIDIA A10G"


def test_what_was_said_keeps_its_id_and_its_date_when_more_is_published() -> None:
    before = entries(context(FIRST, SECOND))
    after = entries(context(FIRST, SECOND, THIRD, ELSEWHERE))
    assert after[1:] == before
    texts = [feed_text(before, address) for address in ("", "https://example.org/lab/")]
    ids = [[element.text for element in ET.fromstring(text).iter(f"{ATOM}id")] for text in texts]
    assert ids[0] == ids[1]


def decided(now: Judged, state: Freshness, **changes: Any) -> tuple[Decision, tuple[SupportStanding, ...]]:
    support = Support(experiment="doubling", claim="fast-beats-plain", expects=Status.SUPPORTED, evidence="")
    decision = Decision(
        slug="0001-use-it", title="Use it", status="accepted", date=datetime.date(2026, 1, 1),
        review_by=datetime.date(2026, 1, 15), rests_on=(support,), acknowledged="", body="",
    )  # fmt: skip
    claim = ClaimEvidence(judged=now, claim="fast-beats-plain")
    standing = SupportStanding(
        support=support, now=claim, then=None, freshness=state, why="now “tie”, expected “holds”"
    )
    return dataclasses.replace(decision, **changes), (standing,)


def of_decisions(*runs: Judged, decision: tuple[Decision, tuple[SupportStanding, ...]]) -> list[FeedEntry]:
    return [entry for entry in entries(context(*runs, decisions=[decision])) if "decisions/" in entry.about]


def test_a_stale_decision_has_one_entry_that_newer_evidence_updates() -> None:
    (old,), (new,) = (
        of_decisions(*runs, decision=decided(runs[-1], Freshness.CHALLENGED))
        for runs in ((FIRST, SECOND), (FIRST, SECOND, THIRD))
    )
    assert old.about == new.about == "decisions/0001-use-it/challenged"
    assert (old.updated, new.updated) == ("2026-02-02T03:30:00Z", "2026-03-02T03:30:00Z")
    assert old.title == "Decision challenged: Use it"
    assert old.summary == "doubling/fast-beats-plain: now “tie”, expected “holds”."
    assert old.link == "decisions/0001-use-it/index.html"


def test_a_decision_expires_the_day_after_its_review_was_due_or_when_other_software_was_measured() -> None:
    (overdue,) = of_decisions(SECOND, decision=decided(SECOND, Freshness.EXPIRED))
    assert overdue.updated == "2026-01-16T00:00:00Z"
    later = {"review_by": datetime.date(2026, 6, 1)}
    (outdated,) = of_decisions(SECOND, decision=decided(SECOND, Freshness.EXPIRED, **later))
    assert outdated.updated == "2026-02-02T03:30:00Z"


def test_what_is_fresh_and_what_nobody_follows_any_more_is_no_news() -> None:
    assert not of_decisions(SECOND, decision=decided(SECOND, Freshness.FRESH))
    assert not of_decisions(SECOND, decision=decided(SECOND, Freshness.CHALLENGED, status="superseded"))


def test_a_feed_without_entries_is_still_a_feed() -> None:
    feed = ET.fromstring(feed_text([], ""))
    assert feed.findtext(f"{ATOM}updated") == NEVER
    assert feed.find(f"{ATOM}author/{ATOM}name") is not None


def test_the_base_is_said_where_it_is_known_and_links_stay_as_they_are() -> None:
    texts = [feed_text(entries(context(FIRST)), address) for address in ("", "https://example.org/lab/")]
    base = "{http://www.w3.org/XML/1998/namespace}base"
    assert [ET.fromstring(text).get(base) for text in texts] == [None, "https://example.org/lab/"]
    links = [[link.get("href") for link in ET.fromstring(text).iter(f"{ATOM}link")] for text in texts]
    assert links[0] == links[1]


def test_only_the_newest_entries_are_kept() -> None:
    many = [dataclasses.replace(FIRST, data=_on(f"{number:03}")) for number in range(MOST_ENTRIES + 5)]
    assert len(entries(context(*many))) == MOST_ENTRIES


def _on(gpu: str) -> dict[str, Any]:
    """The first run, as if on another GPU."""
    evidence = {**FIRST.evidence, "digest": gpu.encode().hex().ljust(64, "0")}
    return {**FIRST.data, "evidence": evidence, "machine": {**FIRST.data["machine"], "gpu": gpu}}


def test_hostile_text_stays_text() -> None:
    evil = "</title><script>alert(1)</script>&\x00\x0b\u202e"
    entry = FeedEntry(about="a/b", updated=NEVER, title=evil, summary=evil, link="index.html")
    text = feed_text([entry], "")
    titles = [element.text for element in ET.fromstring(text).iter(f"{ATOM}title")]
    assert titles[1] == "</title><script>alert(1)</script>&[U+0000][U+000B][U+202E]"
    assert "<script" not in text


def test_a_time_that_is_none_is_not_passed_on() -> None:
    odd = dataclasses.replace(FIRST, data={**FIRST.data, "evidence": {**FIRST.evidence, "finished_utc": "<soon>"}})
    assert [entry.updated for entry in entries(context(odd))] == [NEVER]


def test_a_preview_has_no_feed(tmp_path: Path) -> None:
    assert not list(feed_file(dataclasses.replace(context(FIRST), label="Preview")))
