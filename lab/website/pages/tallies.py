"""How many claims have which verdict, as a row of chips."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lab.verdict.judge import READING_ORDER
from lab.website.data.judged import Judged


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusCount:
    status: str
    claims: int


def status_counts(items: Iterable[Judged]) -> tuple[StatusCount, ...]:
    """Of all claims of these experiments, in the reading order; verdicts that none has are left out."""
    found = Counter(claim["status"] for item in items for claim in item.data["claims"].values())
    return tuple(StatusCount(status=status, claims=found[status]) for status in READING_ORDER if found[status])
