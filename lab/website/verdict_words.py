"""Verdicts, their marks and counts, and the freshness of decisions in plain words; data keep the rules' own."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.definition.claim_words import can_run
from lab.verdict import plain_words
from lab.verdict.judge import NOISY, PROVISIONAL, READING_ORDER, Status
from lab.verdict.plain_words import FAILS, INSTEAD, MIXED, RIVAL_WRONG, SLOWER, TIE
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence, sentence

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
WARNINGS = (NOISY, PROVISIONAL)  # that say how much a verdict rests on
COUNTED = (("sweeps", "most_sweeps"), ("rounds", "rounds"))  # and the field that says whether it is one
# Words that look like another verdict than their status: they take the colour of what they say.
LOOKS = {TIE: "tie", SLOWER: "refuted", MIXED: "refuted", FAILS: "refuted", RIVAL_WRONG: "no-evidence"}


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
    return plain_words.claim_word(Status(claim["status"]), cases, claim["threshold"])


def claim_mark(claim: Mapping[str, Any]) -> str:
    """What marks a claim over all its cases: its own mark, and which warnings all of its cases have, or some: 'noisy,
    partly provisional'."""
    cases = [each["mark"].split(", ") for each in claim["cases"].values() if each.get("ratio") is not None]
    untold = (each for each in WARNINGS if (each, claim["status"]) != (NOISY, Status.RERUN_NOISE))
    having = {warning: sum(warning in marks for marks in cases) for warning in untold}
    told = (f"{'' if count == len(cases) else 'partly '}{warning}" for warning, count in having.items() if count)
    return ", ".join(filter(None, (claim["mark"], *told)))


def look(word: str, status: str) -> str:
    """The class by which a page colours a verdict: a tie that a claim allows looks as what holds."""
    return status if (word, status) == (TIE, Status.SUPPORTED) else LOOKS.get(word, status)


def mark_words(mark: str) -> str:
    """The marks beside a verdict, without those that its word tells already."""
    return ", ".join(MARKS.get(each, each) for each in mark.split(", ") if each and each not in INSTEAD)


def verdict_counts(item: Judged) -> dict[str, int]:
    """How many claims of an experiment have which verdict, by status, and those that were rejected or are mixed by
    their word; of a CPU's run, of those that a CPU can run."""
    able = (each for each in item.plan.claims if not item.on_cpu or can_run(item.plan, each, "cpu"))
    judged = (item.data["claims"][claim.name] for claim in able)
    return Counter(_counted_as(claim_word(each), each["status"]) for each in judged)


def _counted_as(word: str, status: str) -> str:
    return word if word == MIXED or status == Status.REJECTED else status


@dataclass(frozen=True, slots=True)
class StatusCount:
    """How many claims have a verdict. `mixed`: of claims that do not hold, how many are mixed; `also` says so."""

    status: Status
    word: str
    claims: int
    mixed: int = 0

    @property
    def also(self) -> str:
        return f" ({self.mixed} mixed)" if self.mixed else ""


def status_counts(items: Iterable[Mapping[str, int]]) -> tuple[StatusCount, ...]:
    """All these counts together, in the reading order, with a word for each; verdicts that no claim has are left
    out."""
    total: Counter[str] = Counter()
    for counts in items:
        total.update(counts)
    mixed = total.pop(MIXED, 0)
    total[Status.REFUTED] += mixed
    statuses = [status for status in READING_ORDER if total[status]]
    found = [
        StatusCount(status, verdict_word(status), total[status], mixed if status == Status.REFUTED else 0)
        for status in statuses
    ]
    if rejected := [word for word in total if word not in tuple(Status)]:
        claims = sum(total[word] for word in rejected)
        found.append(StatusCount(Status.REJECTED, " or ".join(sorted(rejected)), claims))
    return tuple(found)


def samples_taken(view: DataView) -> Sentence:
    """'5 to 8 sweeps × 10 rounds × up to 20 samples'."""
    evidence = view.value("evidence")
    if not evidence:
        return ("none",)
    to = "" if evidence["fewest_sweeps"] == evidence["most_sweeps"] else " to {most_sweeps}"
    sweeps, rounds = (name if evidence[most] != 1 else name[:-1] for name, most in COUNTED)
    text = f"{{fewest_sweeps}}{to} {sweeps} × {{rounds}} {rounds} × up to {{block}} samples"
    return sentence(view.at("evidence"), text)
