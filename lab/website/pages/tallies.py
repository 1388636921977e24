"""How many claims have which verdict, as a row of chips; and at how many of its cases a claim is supported."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.definition.asked import can_run
from lab.verdict.judge import READING_ORDER
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusCount:
    status: str
    claims: int


def verdict_counts(item: Judged) -> dict[str, int]:
    """How many claims of an experiment have which verdict; of a CPU's run, of those that a CPU can run."""
    able = (each for each in item.plan.claims if not item.on_cpu or can_run(item.plan, each, "cpu"))
    return Counter(item.data["claims"][claim.name]["status"] for claim in able)


def status_counts(items: Iterable[Mapping[str, int]]) -> tuple[StatusCount, ...]:
    """All these counts together, in the reading order; verdicts that no claim has are left out."""
    found: Counter[str] = Counter()
    for counts in items:
        found.update(counts)
    return tuple(StatusCount(status=status, claims=found[status]) for status in READING_ORDER if found[status])


def supported_at(claim: str, ledger: Ledger) -> Sentence:
    """'supported at 3 of 5 cases', and where there are any 'a tie at 1'."""
    supported, judged, ties = (ledger.figure("claims", claim, name) for name in ("supported", "judged", "ties"))
    noun = " case" if judged and judged.value == 1 else " cases"
    told: Sentence = ("supported at ", supported or "none", " of ", judged or "no", noun)
    return (*told, ", a tie at ", ties) if ties and ties.value else told
