"""Verdicts, their marks and the freshness of decisions in plain words; data and CSV files keep the rules' own."""

from collections.abc import Mapping
from typing import Any

from lab.verdict import plain_words
from lab.verdict.judge import Status
from lab.verdict.plain_words import FAILS, INSTEAD, MIXED, SLOWER, TIE

MARKS = {
    "one draw": "one draw of the compiler",
    "one pass": "one pass of the profiler",
}
FRESHNESS = {
    "fresh": "evidence holds",
    "drifted": "holds, values moved",
    "expired": "review due",
    "challenged": "challenged",
    "orphaned": "claim removed",
}
# Words that look like another verdict than their status: they take the colour of what they say.
LOOKS = {TIE: "tie", SLOWER: "refuted", MIXED: "refuted", FAILS: "refuted"}


def verdict_word(status: str, mark: str = "", reason: str = "") -> str:
    """The word for a status alone: of a count of claims, say, or of a decision's freshness."""
    if status not in tuple(Status):
        return FRESHNESS.get(status, status)
    return plain_words.case_word(Status(status), mark=mark, reason=reason)


def case_word(verdict: Mapping[str, Any], measure: str = "speedup") -> str:
    """The word for a claim at a case, of published data."""
    low, high = (verdict.get("low"), verdict.get("high")) if measure == "speedup" else (None, None)
    return plain_words.case_word(Status(verdict["status"]), low, high, verdict["mark"], verdict["reason"])


def claim_word(claim: Mapping[str, Any]) -> str:
    """The word for a claim over all its cases, of published data."""
    cases = [(Status(each["status"]), case_word(each, claim["measure"])) for each in claim["cases"].values()]
    return plain_words.claim_word(Status(claim["status"]), cases)


def look(word: str, status: str) -> str:
    """The class by which a page colours a verdict."""
    return LOOKS.get(word, status)


def mark_words(mark: str) -> str:
    """The marks beside a verdict, without those that its word tells already."""
    return ", ".join(MARKS.get(each, each) for each in mark.split(", ") if each and each not in INSTEAD)
