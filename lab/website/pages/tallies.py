"""How many claims have which verdict, as a row of chips; and at how many of its cases a claim is supported."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lab.verdict.judge import READING_ORDER
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusCount:
    status: str
    claims: int


def status_counts(items: Iterable[Judged]) -> tuple[StatusCount, ...]:
    """Of all claims of these experiments, in the reading order; verdicts that none has are left out."""
    found = Counter(claim["status"] for item in items for claim in item.data["claims"].values())
    return tuple(StatusCount(status=status, claims=found[status]) for status in READING_ORDER if found[status])


def supported_at(claim: str, ledger: Ledger) -> Sentence:
    """'supported at 3 of 5 cases'."""
    supported, judged = (ledger.figure("claims", claim, name) for name in ("supported", "judged"))
    noun = " case" if judged and judged.value == 1 else " cases"
    return ("supported at ", supported or "none", " of ", judged or "no", noun)
