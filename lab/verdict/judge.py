"""Claim + evidence → verdict. Pure: the same evidence gets the same verdict on any machine.

The rules stand in `RULES`, in the order in which they are asked; the policy page prints them and their history.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from lab.verdict.statistics import Latency, Speedup, holm, p_reaches, per_cent
from lab.verdict.traffic import TrafficRatio

POLICY_HISTORY = {
    1: "The first rules.",
    2: "Controls, spoiled rounds, the noise of the A/A control, claims as one family, and the launch floor.",
    3: "Results that the cache cannot hold, and arithmetic, among what no time can beat; claims about traffic, by "
    "rules of their own.",
}
POLICY_VERSION = max(POLICY_HISTORY)
FEWEST_SWEEPS = 3
FULL_SWEEPS = 5
NOISY_RATIO = 1.20
WIDEST_HALF_WIDTH = 0.02
LARGEST_DROPPED_SHARE = 0.20
LARGEST_CONTROL_EFFECT = 0.01
CLEAR_MARGIN = 0.01
EQUIVALENCE_MARGIN = 0.02
MOST_SWEEPS_TO_ADVISE = 60  # as many as a run may have


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
        "The result was wrong in any sweep, or the profile tampered with its inputs, the clock or the judges, or its "
        "time is shorter than physics allows: than the memory, at its peak, takes to deliver the inputs and to take "
        "what the cache cannot hold of the results, than the matrix units, at their largest dense rate, take for its "
        "operations, or than a kernel takes that does nothing."
    ),
    Status.NO_EVIDENCE: (
        f"Not measured, skipped, failed, crashed, or fewer than {FEWEST_SWEEPS} sweeps with samples of both profiles."
    ),
    Status.RERUN_NOISE: (
        "A control failed: the same code under two names differed by more than "
        f"{per_cent(LARGEST_CONTROL_EFFECT)}, with an interval that excludes 1, or its own interval is wider than "
        f"±{per_cent(WIDEST_HALF_WIDTH)}. Or a noise ratio (p95 / p50) of "
        f"{NOISY_RATIO:.2f} or more, more than {per_cent(LARGEST_DROPPED_SHARE)} of the samples void or of the rounds "
        f"spoiled, or an interval wider than ±{per_cent(WIDEST_HALF_WIDTH)}."
    ),
    Status.SUPPORTED: (
        "The interval's lower end reaches the claim's threshold, also among all claims and cases of the experiment "
        "together (Holm), and all sweeps but at most one lie further above parity than "
        f"{per_cent(CLEAR_MARGIN)} (or than a lower threshold) and than any sweep of the A/A control. Marked "
        f"provisional, as any later verdict, with fewer than {FULL_SWEEPS} sweeps, with too few samples for a noise "
        "ratio, or without a control."
    ),
    Status.REFUTED: (
        "The interval's upper end is below the threshold, and so are all sweeps but at most one. Marked equivalent "
        "where the whole interval is within "
        f"{per_cent(EQUIVALENCE_MARGIN)} of parity, regressed where it is all below that."
    ),
    Status.INCONCLUSIVE: "All else. Where more sweeps would probably settle it, the reason says how many.",
}


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What the judge needs of one cell: one of a claim's two sides at one case."""

    outcome: str  # "measured", "wrong", "failed", "skipped" or "not-planned"
    reason: str
    latency: Latency | None
    void_share: float
    impossible: str = ""  # why no honest time can be so short


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the rules say of a claim at a case. `mark` is equivalent, regressed, provisional, one pass or empty."""

    status: Status
    reason: str
    speedup: Speedup | None = None
    mark: str = ""
    traffic: TrafficRatio | None = None  # instead of a speed-up, where the claim is about traffic

    @property
    def ratio(self) -> float | None:
        """Baseline over subject: of their times, or of the bytes that they move."""
        found = self.speedup or self.traffic
        return found.ratio if found else None


def judge_case(
    subject: Side,
    baseline: Side,
    speedup: Speedup | None,
    threshold: float,
    control: Speedup | None = None,
    spoiled_share: float = 0.0,
) -> Verdict:
    """Ask the rules in order. `speedup` is None where the sides share too few sweeps to compare; `control` is the
    speed-up of a profile over itself at this case; `spoiled_share` that of the case's rounds that were left out."""
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.outcome == "wrong":
            return Verdict(status=Status.REJECTED, reason=f"wrong result of the {name}: {side.reason}")
        if side.impossible:
            return Verdict(status=Status.REJECTED, reason=f"the {name} is {side.impossible}")
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
    if noise := _noise(subject, baseline, speedup, control, spoiled_share):
        return Verdict(status=Status.RERUN_NOISE, reason=noise, speedup=speedup)
    unknown_noise = any(side.latency is None or side.latency.noise_ratio is None for side in (subject, baseline))
    provisional = unknown_noise or control is None or len(speedup.sweep_ratios) < FULL_SWEEPS
    return _weigh(speedup, threshold, provisional, _control_noise(control))


def judge_family(verdicts: Mapping[Key, Verdict], thresholds: Mapping[Key, float]) -> dict[Key, Verdict]:
    """The verdicts of one experiment, each also weighed among all others that could have been supported."""
    family = {key: verdict for key, verdict in verdicts.items() if verdict.status in WEIGHED and verdict.speedup}
    p_values = [p_reaches(v.speedup, thresholds[key]) for key, v in family.items() if v.speedup]
    alone = {key for key, stands in zip(family, holm(p_values), strict=True) if not stands}
    return {
        key: _lost_in_family(verdict, len(family)) if key in alone and verdict.status == Status.SUPPORTED else verdict
        for key, verdict in verdicts.items()
    }


def judge_claim(verdicts: Sequence[Verdict]) -> Status:
    """A claim is supported when each of its cases is; one refuted case refutes it, and one rejected rejects it."""
    present = {verdict.status for verdict in verdicts}
    if present == {Status.SUPPORTED}:
        return Status.SUPPORTED
    for status in (Status.REJECTED, Status.REFUTED, Status.NO_EVIDENCE, Status.RERUN_NOISE):
        if status in present:
            return status
    return Status.INCONCLUSIVE if present else Status.NO_EVIDENCE


def _noise(subject: Side, baseline: Side, speedup: Speedup, control: Speedup | None, spoiled_share: float) -> str:
    """What makes the samples too noisy to judge, or nothing."""
    if control and not control.low <= 1 <= control.high and abs(control.ratio - 1) > LARGEST_CONTROL_EFFECT:
        return f"the control failed: the same code differed from itself by {per_cent(abs(control.ratio - 1), 1)}"
    if control and control.half_width > WIDEST_HALF_WIDTH:
        return f"the control failed: its own interval is ±{per_cent(control.half_width, 1)} wide"
    if spoiled_share > LARGEST_DROPPED_SHARE:
        return f"{per_cent(spoiled_share)} of the case's rounds were spoiled and left out"
    for name, side in (("subject", subject), ("baseline", baseline)):
        ratio = side.latency.noise_ratio if side.latency else None
        if ratio is not None and ratio >= NOISY_RATIO:
            return f"noise ratio of the {name} is {ratio:.2f}; {NOISY_RATIO:.2f} and above is noisy"
        if side.void_share > LARGEST_DROPPED_SHARE:
            return f"{per_cent(side.void_share)} of the {name}'s samples are void"
    if speedup.half_width > WIDEST_HALF_WIDTH:
        places = 1 if speedup.half_width > WIDEST_HALF_WIDTH + 0.0005 else 2  # else it would read as the limit itself
        width, limit = per_cent(speedup.half_width, places), per_cent(WIDEST_HALF_WIDTH)
        return f"the interval is ±{width} wide; ±{limit} is the limit"
    return ""


def _control_noise(control: Speedup | None) -> float:
    """By how much a sweep of the control differed from itself at most: 0.01 is one per cent."""
    if control is None:
        return 0.0
    return math.expm1(max(abs(math.log(ratio)) for ratio in control.sweep_ratios))


def _lost_in_family(verdict: Verdict, size: int) -> Verdict:
    reason = f"clear by itself, but not among the {size} comparisons of this experiment together (Holm)"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


def _weigh(speedup: Speedup, threshold: float, provisional: bool, control_noise: float) -> Verdict:
    status, reason, mark = Status.INCONCLUSIVE, "", ""
    sweeps = len(speedup.sweep_ratios)
    if speedup.low >= threshold:
        bar = _bar(threshold, control_noise)
        clear = sum(ratio > bar for ratio in speedup.sweep_ratios)
        if clear >= sweeps - 1:
            status = Status.SUPPORTED
        else:
            reason = f"the interval reaches the threshold, and only {clear} of {sweeps} sweeps are clear"
    elif speedup.high < threshold:
        below = sum(ratio < threshold for ratio in speedup.sweep_ratios)
        if below >= sweeps - 1:
            status, mark = Status.REFUTED, _mark(speedup)
        else:
            reason = f"the interval is below the threshold, and only {below} of {sweeps} sweeps are"
    else:
        reason = _what_would_settle(speedup, threshold)
    marks = [mark, "provisional" if provisional else ""]
    return Verdict(status=status, reason=reason, speedup=speedup, mark=", ".join(filter(None, marks)))


def _bar(threshold: float, control_noise: float) -> float:
    """What a sweep must exceed to speak for a claim; a claim of no gain has none but its threshold."""
    return 1 + max(min(CLEAR_MARGIN, threshold - 1), control_noise) if threshold > 1 else threshold


def _mark(speedup: Speedup) -> str:
    if speedup.high < 1 - EQUIVALENCE_MARGIN:
        return "regressed"
    within = speedup.low > 1 - EQUIVALENCE_MARGIN and speedup.high < 1 + EQUIVALENCE_MARGIN
    return "equivalent" if within else ""


def _what_would_settle(speedup: Speedup, threshold: float) -> str:
    """The interval narrows with the square root of the sweeps, down to its floor; the ratio is taken to stay."""
    distance = abs(speedup.ratio / threshold - 1)
    sweeps = len(speedup.sweep_ratios)
    if distance <= speedup.floor:
        return "the ratio lies closer to the threshold than the clock can tell; no number of sweeps would settle it"
    needed = max(sweeps + 1, round(sweeps * (speedup.half_width / distance) ** 2) + 1)
    if needed > MOST_SWEEPS_TO_ADVISE:
        return f"the interval holds the threshold; {MOST_SWEEPS_TO_ADVISE} sweeps would probably not settle it"
    return f"the interval holds the threshold; about {needed} sweeps would settle it"
