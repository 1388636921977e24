"""How many claims have which verdict, as a row of chips; and at how many of its cases a claim is supported."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import SimpleNamespace as View

from lab.definition.claim_words import can_run
from lab.verdict.judge import READING_ORDER
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence


def verdict_counts(item: Judged) -> dict[str, int]:
    """How many claims of an experiment have which verdict; of a CPU's run, of those that a CPU can run."""
    able = (each for each in item.plan.claims if not item.on_cpu or can_run(item.plan, each, "cpu"))
    return Counter(item.data["claims"][claim.name]["status"] for claim in able)


def status_counts(items: Iterable[Mapping[str, int]]) -> tuple[View, ...]:
    """All these counts together, in the reading order; verdicts that no claim has are left out."""
    total: Counter[str] = Counter()
    for counts in items:
        total.update(counts)
    return tuple(View(status=status, claims=total[status]) for status in READING_ORDER if total[status])


def supported_at(claim: str, view: DataView) -> Sentence:
    """'holds at 3 of 5 cases', and where there are any 'a tie at 1'."""
    supported, judged, ties = (view.figure("claims", claim, name) for name in ("supported", "judged", "ties"))
    noun = " case" if judged and judged.value == 1 else " cases"
    words: Sentence = ("holds at ", supported or "none", " of ", judged or "no", noun)
    return (*words, ", a tie at ", ties) if ties and ties.value else words


def samples_taken(view: DataView) -> Sentence:
    """'5 to 8 sweeps × 10 rounds × up to 20 samples'."""
    fewest, most = view.figure("evidence", "fewest_sweeps"), view.figure("evidence", "most_sweeps")
    rounds, block = view.figure("evidence", "rounds"), view.figure("evidence", "block")
    if fewest is None or most is None or rounds is None or block is None:
        return ("none",)
    sweeps: Sentence = (fewest,) if fewest.value == most.value else (fewest, " to ", most)
    return (*sweeps, " sweeps × ", rounds, " rounds × up to ", block, " samples")
