"""Verdicts and their marks in words that need no glossary; the data keep the rules' own."""

from collections.abc import Mapping
from typing import Any

from lab.verdict.judge import Status

TIE, SLOWER = "tie", "slower"
# A mark of a refuted claim that says what is so instead.
INSTEAD = {"equivalent": TIE, "regressed": SLOWER}
WORDS = {
    Status.RERUN_NOISE: "too noisy to call",
    Status.NO_EVIDENCE: "not measured",
    Status.REJECTED: "rejected",
}
WRONG = "wrong result"
MARKS = {
    "one draw": "one draw of the compiler",
    "size imprecise": "size imprecise",
    "noisy": "noisy",
    "one pass": "one pass of the profiler",
}


def verdict_word(status: str, mark: str = "", reason: str = "") -> str:
    """'tie' of what is refuted because nothing tells the two apart, 'too noisy to call', or the verdict itself."""
    if status == Status.REFUTED:
        return next((word for each, word in INSTEAD.items() if each in mark.split(", ")), status)
    if status == Status.REJECTED and reason.startswith(WRONG):
        return WRONG
    return WORDS.get(status, status)  # type: ignore[call-overload, no-any-return]


def mark_words(mark: str) -> str:
    """The marks beside a verdict, without those that its word tells already."""
    return ", ".join(MARKS.get(each, each) for each in mark.split(", ") if each and each not in INSTEAD)


def claim_mark(claim: Mapping[str, Any]) -> str:
    """The marks of a claim, of published data: 'one draw', and of a refuted one what is so instead."""
    return ", ".join(filter(None, (_instead(claim), claim["mark"])))


def _instead(claim: Mapping[str, Any]) -> str:
    """'equivalent', or 'regressed', of a refuted claim whose refuted cases are all so.

    Not where another case is supported, or could not be judged: then one word does not tell it.
    """
    cases = claim["cases"].values()
    if not {verdict["status"] for verdict in cases} <= {Status.REFUTED, Status.INCONCLUSIVE}:
        return ""
    marks = [verdict["mark"].split(", ") for verdict in cases if verdict["status"] == Status.REFUTED]
    return next((mark for mark in INSTEAD if marks and all(mark in held for held in marks)), "")
