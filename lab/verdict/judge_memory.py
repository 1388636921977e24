"""A claim about peak memory → its verdict. Pure.

Each sweep counts once what a call allocates at most beyond its inputs, results included. The same code allocates the
same, so there is no interval and no margin: every sweep must lie on one side of the threshold.
"""

from dataclasses import dataclass

from lab.verdict.judge import Status, Verdict
from lab.verdict.traffic import BytesRatio

UNCOUNTED = "torch counts no memory on this device, or the run is older than the count"
MEMORY_RULES = {
    Status.REJECTED: "A result was wrong in any sweep.",
    Status.NO_EVIDENCE: "Not measured, or not counted: on a CPU, or where the call allocates nothing.",
    Status.SUPPORTED: "The ratio of bytes reaches the threshold in every sweep.",
    Status.REFUTED: "The ratio is below the threshold in every sweep.",
    Status.INCONCLUSIVE: "The sweeps lie on both sides of the threshold.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySide:
    """What the judge needs of one cell: one of a claim's two sides at one case."""

    outcome: str  # as of a cell
    reason: str
    peak_bytes: tuple[int, ...]  # one for each sweep that counted


def judge_memory(subject: MemorySide, baseline: MemorySide | int, threshold: float) -> Verdict:
    """Ask the rules in order. A baseline that is a number is the size of the results, in bytes."""
    sides = {"subject": subject} | ({"baseline": baseline} if isinstance(baseline, MemorySide) else {})
    for name, side in sides.items():
        if side.outcome == "wrong":
            return Verdict(status=Status.REJECTED, reason=f"wrong result of the {name}: {side.reason}")
    for name, side in sides.items():
        if side.outcome != "measured":
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} {side.outcome}: {side.reason}")
        if not side.peak_bytes:
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} not counted: {UNCOUNTED}")
        if not min(side.peak_bytes):
            return Verdict(status=Status.NO_EVIDENCE, reason=f"the {name} allocates nothing, so there is no ratio")
    others = baseline.peak_bytes if isinstance(baseline, MemorySide) else (baseline,)
    compared = BytesRatio(
        ratio=max(others) / max(subject.peak_bytes),
        low=min(others) / max(subject.peak_bytes),
        high=max(others) / min(subject.peak_bytes),
        subject_bytes=max(subject.peak_bytes),
        baseline_bytes=max(others),
    )
    if compared.low >= threshold:
        return Verdict(status=Status.SUPPORTED, reason="", compared_bytes=compared)
    if compared.high < threshold:
        return Verdict(status=Status.REFUTED, reason="", compared_bytes=compared)
    return Verdict(
        status=Status.INCONCLUSIVE, reason="the sweeps lie on both sides of the threshold", compared_bytes=compared
    )
