"""What an experiment's page says of a claim about DRAM traffic: its table, its card, its part of the answer."""

from lab.definition.plan import PlannedClaim
from lab.verdict.judge import WEIGHED
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger
from lab.website.pages.labels import baseline_title, case_label, profile_title, shape_label
from lab.website.pages.views import Card, TrafficVerdict


def traffic_verdict(shown: Judged, claim: PlannedClaim, case_name: str, ledger: Ledger) -> TrafficVerdict:
    case = next(c for c in shown.plan.cases if c.name == case_name)
    path = ("claims", claim.name, "cases", case_name)
    counters = ("cells", case_name, claim.subject, "counters")
    return TrafficVerdict(
        case=shape_label(case),
        anchor=case_name,
        counted=ledger.figure(*counters, "dram_bytes", show=format.megabytes),
        subject=ledger.figure(*path, "subject_bytes", show=format.megabytes),
        baseline=ledger.figure(*path, "baseline_bytes", show=format.megabytes),
        ratio=ledger.figure(*path, "ratio", show=format.times),
        bounds=_bounds(ledger, *path),
        status=ledger.value(*path, "status"),
        mark=ledger.value(*path, "mark"),
        reason=ledger.value(*path, "reason"),
    )


def traffic_card(shown: Judged, claim: PlannedClaim, ledger: Ledger) -> Card | None:
    """The largest ratio of bytes; against the least, the smallest share that had to be moved."""
    path = ("claims", claim.name, "cases")
    found = {c: ledger.value(*path, c, "ratio") for c in claim.cases if ledger.value(*path, c, "status") in WEIGHED}
    if not found:
        return None
    chosen = max(found, key=lambda name: found[name]) if claim.baseline else min(found, key=lambda name: found[name])
    sides = [
        ledger.figure(*path, chosen, f"{side}_bytes", show=format.megabytes) or "" for side in ("baseline", "subject")
    ]
    value = ledger.figure(*path, chosen, "ratio", show=format.times if claim.baseline else format.tenths_of_percent)
    assert value is not None, "a weighed case has a ratio"
    subject = profile_title(shown, claim.subject)
    case = next(c for c in shown.plan.cases if c.name == chosen)
    return Card(
        label=f"Bytes of {baseline_title(shown, claim)}, largest over {subject}"
        if claim.baseline
        else f"Bytes that {subject} had to move, smallest share",
        value=value,
        context=(f"{case_label(case)}: ", sides[0], " MB against ", sides[1], " MB"),
    )


def _bounds(ledger: Ledger, *path: str) -> Figure | None:
    """Between which ratios the instrument leaves it open; None where it leaves nothing open."""
    high = ledger.value(*path, "high")
    if high is None or high == ledger.value(*path, "low"):
        return None
    return ledger.figure(*path, "low", show=lambda low: f"{format.times(low)} to {format.times(high)}")
