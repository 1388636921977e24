"""Claim + evidence → verdict. Pure: the same evidence gets the same verdict on any machine.

The rules stand in `RULES`, in the order in which they are asked; the policy page prints them.
Policy history: 1 = first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.statistics import Latency, Speedup

POLICY_VERSION = 1
FEWEST_SWEEPS = 3
FULL_SWEEPS = 5
NOISY_RATIO = 1.20
WIDEST_HALF_WIDTH = 0.02
LARGEST_DROPPED_SHARE = 0.20
CLEAR_MARGIN = 0.01
EQUIVALENCE_MARGIN = 0.02
SETTLE_LIMIT = 0.2  # closer to the threshold than this share of the half-width, sweeps needed run to hundreds


class Status(StrEnum):
    REJECTED = "rejected"
    NO_EVIDENCE = "no-evidence"
    RERUN_NOISE = "rerun-noise"
    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


# As a reader wants to hear of them; the rules below are asked in another order.
READING_ORDER = (
    Status.SUPPORTED,
    Status.REFUTED,
    Status.INCONCLUSIVE,
    Status.RERUN_NOISE,
    Status.NO_EVIDENCE,
    Status.REJECTED,
)
# The verdicts whose ratio was fit to be weighed; a summary takes in no other.
WEIGHED = (Status.SUPPORTED, Status.REFUTED, Status.INCONCLUSIVE)
RULES = {
    Status.REJECTED: (
        "The result was wrong in any sweep, or the time is shorter than the memory can deliver the inputs."
    ),
    Status.NO_EVIDENCE: (
        f"Not measured, skipped, failed, or fewer than {FEWEST_SWEEPS} sweeps with samples of both profiles."
    ),
    Status.RERUN_NOISE: (
        f"A noise ratio (p95 / p50) of {NOISY_RATIO:.2f} or more, more than {LARGEST_DROPPED_SHARE:.0%} of the "
        f"samples void, or an interval wider than ±{WIDEST_HALF_WIDTH:.0%}."
    ),
    Status.SUPPORTED: (
        "The interval's lower end reaches the claim's threshold, and all sweeps but at most one lie more than "
        f"{CLEAR_MARGIN:.0%} above parity, or above the threshold where that is lower. Marked provisional, as any "
        f"later verdict, with fewer than {FULL_SWEEPS} sweeps or with too few samples for a noise ratio."
    ),
    Status.REFUTED: (
        "The interval's upper end is below the threshold. Marked equivalent where the whole interval is within "
        f"{EQUIVALENCE_MARGIN:.0%} of parity, regressed where it is all below that."
    ),
    Status.INCONCLUSIVE: "All else. The page says how many sweeps would probably settle it.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What the judge needs of one cell: one of a claim's two sides at one case."""

    outcome: str  # "measured", "wrong", "failed", "skipped" or "not-planned"
    reason: str
    latency: Latency | None
    void_share: float
    beats_physics: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the rules say of a claim at a case. `mark` is equivalent, regressed, provisional or empty."""

    status: Status
    reason: str
    speedup: Speedup | None = None
    mark: str = ""


def judge_case(subject: Side, baseline: Side, speedup: Speedup | None, threshold: float) -> Verdict:
    """Ask the rules in order. `speedup` is None where the sides share too few sweeps to compare."""
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.outcome == "wrong":
            return Verdict(status=Status.REJECTED, reason=f"wrong result of the {name}: {side.reason}")
        if side.beats_physics:
            return Verdict(status=Status.REJECTED, reason=f"the {name} is faster than physics allows")
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.outcome != "measured":
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} {side.outcome}: {side.reason}")
    if speedup is None or len(speedup.sweep_ratios) < FEWEST_SWEEPS:
        count = len(speedup.sweep_ratios) if speedup else 0
        return Verdict(
            status=Status.NO_EVIDENCE,
            reason=f"{count} sweeps hold both sides; {FEWEST_SWEEPS} are needed",
            speedup=speedup,
        )
    if noise := _noise(subject, baseline, speedup):
        return Verdict(status=Status.RERUN_NOISE, reason=noise, speedup=speedup)
    unknown_noise = any(side.latency is None or side.latency.noise_ratio is None for side in (subject, baseline))
    return _weigh(speedup, threshold, provisional=unknown_noise or len(speedup.sweep_ratios) < FULL_SWEEPS)


def judge_claim(verdicts: Sequence[Verdict]) -> Status:
    """A claim is supported when each of its cases is; one refuted case refutes it."""
    present = {verdict.status for verdict in verdicts}
    if present == {Status.SUPPORTED}:
        return Status.SUPPORTED
    for status in (Status.REJECTED, Status.REFUTED, Status.NO_EVIDENCE, Status.RERUN_NOISE):
        if status in present:
            return status
    return Status.INCONCLUSIVE if present else Status.NO_EVIDENCE


def _noise(subject: Side, baseline: Side, speedup: Speedup) -> str:
    """What makes the samples too noisy to judge, or nothing."""
    for name, side in (("subject", subject), ("baseline", baseline)):
        ratio = side.latency.noise_ratio if side.latency else None
        if ratio is not None and ratio >= NOISY_RATIO:
            return f"noise ratio of the {name} is {ratio:.2f}; {NOISY_RATIO:.2f} and above is noisy"
        if side.void_share > LARGEST_DROPPED_SHARE:
            return f"{side.void_share:.0%} of the {name}'s samples are void"
    if speedup.half_width > WIDEST_HALF_WIDTH:
        return f"the interval is ±{speedup.half_width:.1%} wide; ±{WIDEST_HALF_WIDTH:.0%} is the limit"
    return ""


def _weigh(speedup: Speedup, threshold: float, provisional: bool) -> Verdict:
    bar = min(threshold, 1 + CLEAR_MARGIN)
    clear = sum(ratio > bar for ratio in speedup.sweep_ratios)
    marks = ["provisional"] if provisional else []
    if speedup.low >= threshold:
        if clear >= len(speedup.sweep_ratios) - 1:
            return Verdict(status=Status.SUPPORTED, reason="", speedup=speedup, mark=", ".join(marks))
        reason = f"the interval reaches the threshold, and only {clear} of {len(speedup.sweep_ratios)} sweeps are clear"
        return Verdict(status=Status.INCONCLUSIVE, reason=reason, speedup=speedup, mark=", ".join(marks))
    if speedup.high < threshold:
        if speedup.high < 1 - EQUIVALENCE_MARGIN:
            marks.insert(0, "regressed")
        elif speedup.low > 1 - EQUIVALENCE_MARGIN and speedup.high < 1 + EQUIVALENCE_MARGIN:
            marks.insert(0, "equivalent")
        return Verdict(status=Status.REFUTED, reason="", speedup=speedup, mark=", ".join(marks))
    return Verdict(
        status=Status.INCONCLUSIVE,
        reason=_what_would_settle(speedup, threshold),
        speedup=speedup,
        mark=", ".join(marks),
    )


def _what_would_settle(speedup: Speedup, threshold: float) -> str:
    """The interval narrows with the square root of the sweeps; the ratio is taken to stay where it is."""
    distance = abs(speedup.ratio / threshold - 1)
    sweeps = len(speedup.sweep_ratios)
    if distance < SETTLE_LIMIT * speedup.half_width:
        return "the ratio lies at the threshold itself; more sweeps would hardly settle it"
    needed = max(sweeps + 1, round(sweeps * (speedup.half_width / distance) ** 2) + 1)
    return f"the interval holds the threshold; about {needed} sweeps would settle it"
