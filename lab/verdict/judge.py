"""Claim + evidence → verdict. Pure: the same evidence gets the same verdict on any machine.

`RULES` has the rules in the order in which they are checked; the policy page prints them and their history.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.definition.plan import MOST_SWEEPS_ASKED
from lab.verdict.excluded_rounds import LARGEST_DROPPED_SHARE
from lab.verdict.statistics import (
    CONFIDENCE,
    DECIDING_CONFIDENCE,
    HalfWidths,
    Latency,
    Speedup,
    per_cent,
    typical_interval,
)
from lab.verdict.traffic import BytesRatio
from lab.verdict.widening import DRAW_SPREAD

POLICY_HISTORY = {
    1: "The first rules.",
    2: "Added controls, spoiled rounds and the launch floor. The noise of the control counts, and all claims of an "
    "experiment are tested as one family.",
    3: "Added two physical limits: results that do not fit in the cache, and arithmetic. Claims about traffic got "
    "their own rules.",
    4: "Intervals are wider, so that they hold on any board of the GPU model: by what sessions differ by, by what the "
    "control shows, and, where an autotuner chose once for all sweeps, by what its choices differ by. The distance to "
    "the threshold is checked before noise is. Scattered samples and a wide control became marks; they no longer "
    "decide. Claims that fail are tested as one family too.",
    5: "Every comparison is tested at one level, whatever else its experiment has: a stricter interval than the one "
    "shown decides, instead of Holm's correction. With the correction a case that was added could leave another case "
    "undecided. Simulated code that is compiled in every sweep, and differs by 10 % then, was decided at a true 1.2× "
    "in 81 % of comparisons among 3 and in 9 % among 100, and without it in 71 % of any number.",
    6: "Intervals of matrix products, attention and decoding are wider. On four H200 boards repeats of these differed "
    "by 0.5 %, those of norms, RoPE and activations by 0.2 %; one verdict that held on two boards was reversed on a "
    "third. And where an interval is wide, nine sweeps that all agree decide without it: one slow kernel among those "
    "that a compiler chose made it wide, in one run and not in the next, so that a fifth of such verdicts changed.",
    7: "Where an interval is wide, a signed-rank test decides, and no longer only nine sweeps that all agree: one "
    "sweep just beside the threshold kept eight that were far from it from deciding. Simulated code whose compilations "
    "differ by 10 % was decided at a true 1.2× in 74 % of comparisons, and is in 84 % since.",
    8: "Intervals of matrix products, attention and decoding are wider where the board reached its power limit, and a "
    "little narrower elsewhere. Between repeated runs ratios scattered by 0.61 % at the limit and by 0.30 % elsewhere, "
    "beyond what sweeps explain. Until now 0.6 % was taken in both. In the simulation that was wrong at the limit in "
    "1.6 % of comparisons whose true ratio lies right at the threshold. The values were chosen on the runs that the "
    "Trust page counts.",
}
POLICY_VERSION = max(POLICY_HISTORY)
POLICY_SET_UTC = "2026-11-27T16:00:00Z"  # when its values were set: runs begun later had no part in choosing them
FEWEST_SWEEPS = 3
FULL_SWEEPS = 5
NOISY_RATIO = 1.20
WIDEST_HALF_WIDTH = 0.02
EQUIVALENCE_MARGIN = 0.02
FEWEST_RANKED = 9  # sweeps
ONE_DRAW, IMPRECISE, NOISY, PROVISIONAL = "one draw", "size imprecise", "noisy", "provisional"
RANKED = "typical sweep"
# How the reason begins where the interval that is shown would decide.
CLEAR_AS_SHOWN = (
    f"the {per_cent(CONFIDENCE)} interval is clear of the threshold, but not the {per_cent(DECIDING_CONFIDENCE)} "
    "interval, by which verdicts are decided"
)


class Status(StrEnum):
    REJECTED = "rejected"
    NO_EVIDENCE = "no-evidence"
    RERUN_NOISE = "rerun-noise"
    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


# The order in which pages show verdicts; the rules below are checked in another order.
READING_ORDER = (
    Status.SUPPORTED,
    Status.REFUTED,
    Status.INCONCLUSIVE,
    Status.RERUN_NOISE,
    Status.NO_EVIDENCE,
    Status.REJECTED,
)
# The verdicts whose ratio was measured well enough for means, histories and reviews. A verdict may be `weighed`, below,
# and then be called noise: its ratio is not among these.
WITH_USABLE_RATIO = (Status.SUPPORTED, Status.REFUTED, Status.INCONCLUSIVE)
RULES = (
    (
        Status.REJECTED,
        "A result was wrong in any sweep. Or the implementation tampered with its inputs, the clock or the checks. Or "
        "its time is shorter than physics allows: than the memory needs at its peak rate to deliver the inputs and to "
        "take the results that do not fit in the cache, than the matrix units need at the peak rate of their fastest "
        "type, or than an empty kernel takes.",
    ),
    (
        Status.NO_EVIDENCE,
        f"A side was skipped, failed or crashed, or fewer than {FEWEST_SWEEPS} sweeps have samples of both sides.",
    ),
    (
        Status.RERUN_NOISE,
        f"More than {per_cent(LARGEST_DROPPED_SHARE)} of a side's samples are void, or of the case's rounds are "
        "spoiled. What is left may not be representative.",
    ),
    (
        Status.SUPPORTED,
        f"The lower end of the {per_cent(DECIDING_CONFIDENCE)} interval reaches the threshold, and at most one sweep "
        f"disagrees. That interval is wider than the {per_cent(CONFIDENCE)} interval on the pages. Or the "
        f"{per_cent(CONFIDENCE)} interval is wider than ±{per_cent(WIDEST_HALF_WIDTH)}, and a signed-rank test of "
        f"{FEWEST_RANKED} sweeps or more puts them above the threshold by more than boards differ.",
    ),
    (
        Status.REFUTED,
        f"The upper end of the {per_cent(DECIDING_CONFIDENCE)} interval is below the threshold, and at most one sweep "
        f"disagrees. Or the {per_cent(CONFIDENCE)} interval is wider than ±{per_cent(WIDEST_HALF_WIDTH)}, and a "
        f"signed-rank test of {FEWEST_RANKED} sweeps or more puts them below the threshold by more than boards differ.",
    ),
    (
        Status.RERUN_NOISE,
        f"Neither, and the {per_cent(CONFIDENCE)} interval is wider than ±{per_cent(WIDEST_HALF_WIDTH)}, not counting "
        "the part that an autotuner's choices add.",
    ),
    (Status.INCONCLUSIVE, "Everything else. Where more sweeps would probably settle it, the reason says how many."),
)
MARKS = {
    "equivalent": f"The claim fails, and the whole interval is within {per_cent(EQUIVALENCE_MARGIN)} of parity: a tie.",
    "regressed": f"The claim fails, and the whole interval is more than {per_cent(EQUIVALENCE_MARGIN)} below parity.",
    ONE_DRAW: "A side is compiled or autotuned at run time, and one cache served all sweeps. Another choice of the "
    "autotuner may be faster or slower; the interval is wide enough for that.",
    RANKED: f"The {per_cent(DECIDING_CONFIDENCE)} interval of the sweeps' mean leaves the claim open, and a "
    "signed-rank test of them decides it. The verdict is about a typical sweep, for example a typical compilation, and "
    "not about their mean.",
    IMPRECISE: f"The verdict is clear, but the interval is wider than ±{per_cent(WIDEST_HALF_WIDTH)}: we know on which "
    "side of the threshold the speed-up lies, and less well how large it is.",
    NOISY: f"A side's samples scatter (p95 / p50 is {NOISY_RATIO:.2f} or more), or the control's own interval is wider "
    f"than ±{per_cent(WIDEST_HALF_WIDTH)}.",
    PROVISIONAL: f"Fewer than {FULL_SWEEPS} sweeps, too few samples for p95, or no control.",
}


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
    """What the rules say of a claim at a case. `mark`: those of `MARKS` that fit, or "one pass", or nothing."""

    status: Status
    reason: str
    speedup: Speedup | None = None
    mark: str = ""
    compared_bytes: BytesRatio | None = None  # instead of a speed-up, where the claim is about traffic or memory
    weighed: bool = False  # a speed-up that was compared with its threshold

    @property
    def ratio(self) -> float | None:
        """Baseline over subject: of their times, or of the bytes that they move or allocate."""
        comparison = self.speedup or self.compared_bytes
        return comparison.ratio if comparison else None

    @property
    def one_draw(self) -> bool:
        return ONE_DRAW in self.mark


def judge_case(
    subject: Side,
    baseline: Side,
    speedup: Speedup | None,
    threshold: float,
    control: Speedup | None = None,
    spoiled_share: float = 0.0,
    shared_sweeps: int = 0,
) -> Verdict:
    """Ask the rules in order. `speedup` is None where the sides share fewer than two sweeps, whose number
    `shared_sweeps` is, and else widened (see lab/verdict/widening.py); `control` is the speed-up of a profile over
    itself at this case; `spoiled_share` that of the case's rounds that were left out."""
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.outcome == "wrong":
            return Verdict(status=Status.REJECTED, reason=f"wrong result of the {name}: {side.reason}")
        if side.impossible:
            return Verdict(status=Status.REJECTED, reason=f"the {name} is {side.impossible}")
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.outcome != "measured":
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} {side.outcome}: {side.reason}")
    if speedup is None or len(speedup.sweep_ratios) < FEWEST_SWEEPS:
        return Verdict(status=Status.NO_EVIDENCE, reason=_too_few(speedup, shared_sweeps), speedup=speedup)
    if dropped := _dropped(subject, baseline, spoiled_share):
        return Verdict(status=Status.RERUN_NOISE, reason=dropped, speedup=speedup)
    status, reason = _weigh(speedup, threshold)
    marks = _marks(status, reason, speedup, (subject, baseline), control)
    return Verdict(status=status, reason=reason, speedup=speedup, mark=", ".join(marks), weighed=True)


def judge_claim(verdicts: Sequence[Verdict]) -> Status:
    """A claim is supported when each of its cases is; one refuted case refutes it, and one rejected rejects it."""
    present = {verdict.status for verdict in verdicts}
    if present == {Status.SUPPORTED}:
        return Status.SUPPORTED
    for status in (Status.REJECTED, Status.REFUTED, Status.NO_EVIDENCE, Status.RERUN_NOISE):
        if status in present:
            return status
    return Status.INCONCLUSIVE if present else Status.NO_EVIDENCE


def mark_of_claim(verdicts: Sequence[Verdict], status: Status) -> str:
    """ "one draw" where the claim's verdict rests on such a verdict, or nothing."""
    return ONE_DRAW if any(verdict.one_draw for verdict in verdicts if verdict.status == status) else ""


def _too_few(speedup: Speedup | None, shared_sweeps: int) -> str:
    """Of one sweep alone there is no interval, and so no speed-up."""
    count = len(speedup.sweep_ratios) if speedup else shared_sweeps
    counted = f"{count} sweeps have" if count > 1 else "1 sweep has" if count else "no sweep has"
    return f"{counted} samples of both sides; {FEWEST_SWEEPS} are needed"


def _dropped(subject: Side, baseline: Side, spoiled_share: float) -> str:
    """Why too few valid samples are left for a verdict, or an empty string."""
    if spoiled_share > LARGEST_DROPPED_SHARE:
        return f"{per_cent(spoiled_share)} of the case's rounds were spoiled and left out"
    for name, side in (("subject", subject), ("baseline", baseline)):
        if side.void_share > LARGEST_DROPPED_SHARE:
            return f"{per_cent(side.void_share)} of the {name}'s samples are void"
    return ""


def _weigh(speedup: Speedup, threshold: float) -> tuple[Status, str]:
    sweeps = len(speedup.sweep_ratios)
    low, high = speedup.interval(DECIDING_CONFIDENCE)
    if low >= threshold:
        reach = sum(ratio >= threshold for ratio in speedup.sweep_ratios)
        if reach >= sweeps - 1:
            return Status.SUPPORTED, ""
        return _undecided(
            speedup, threshold, f"the interval reaches the threshold, but only {reach} of {sweeps} sweeps do"
        )
    if high < threshold:
        below = sum(ratio < threshold for ratio in speedup.sweep_ratios)
        if below >= sweeps - 1:
            return Status.REFUTED, ""
        return _undecided(
            speedup, threshold, f"the interval is below the threshold, but only {below} of {sweeps} sweeps are"
        )
    if by_ranks := _by_ranks(speedup, threshold):
        return by_ranks
    clear_as_shown = speedup.low >= threshold or speedup.high < threshold
    where = f"{CLEAR_AS_SHOWN}: {low:.4f} to {high:.4f}" if clear_as_shown else "the threshold is inside the interval"
    return _undecided(speedup, threshold, f"{where}; {_what_would_settle(speedup, threshold)}")


def _by_ranks(speedup: Speedup, threshold: float) -> tuple[Status, str] | None:
    """What most sweeps say holds of a typical one, however far off some are, and so however wide the interval of their
    mean is. One choice of an autotuner that served all sweeps is no agreement."""
    widths, sweeps = _widths(speedup), len(speedup.sweep_ratios)
    wide = math.expm1(widths.apart_from_draws) > WIDEST_HALF_WIDTH
    if sweeps < FEWEST_RANKED or widths.draws or not wide:
        return None
    alike = math.hypot(widths.least_sessions, speedup.floor) + widths.control  # by which all sweeps may err
    low, high = typical_interval([math.log(ratio / threshold) for ratio in speedup.sweep_ratios])
    why = "the threshold by more than boards differ; the interval of their mean is wide"
    if low >= alike * _stretch(speedup):
        return Status.SUPPORTED, f"by their ranks {sweeps} sweeps reach {why}"
    if high < -alike * _stretch(speedup):
        return Status.REFUTED, f"by their ranks {sweeps} sweeps are below {why}"
    return None


def _undecided(speedup: Speedup, threshold: float, reason: str) -> tuple[Status, str]:
    """Rerun-noise if the interval is too wide even without the differences between an autotuner's choices."""
    widths = _widths(speedup)
    width = math.expm1(widths.apart_from_draws)
    if width <= WIDEST_HALF_WIDTH or _left_open_by_draws(speedup, threshold):
        return Status.INCONCLUSIVE, reason
    places = 1 if width > WIDEST_HALF_WIDTH + 0.0005 else 2  # else it would read as the limit itself
    limit = per_cent(WIDEST_HALF_WIDTH)
    return Status.RERUN_NOISE, f"{reason}; the interval is ±{per_cent(width, places)} wide, the limit is ±{limit}"


def _left_open_by_draws(speedup: Speedup, threshold: float) -> bool:
    """Whether only the possible choices of the autotuner leave the threshold inside the interval."""
    widths = _widths(speedup)
    return widths.draws > 0 and _decided_up_to(speedup, threshold) > widths.apart_from_draws


def _decided_up_to(speedup: Speedup, threshold: float) -> float:
    """The half-width, of the logarithm's interval that is shown, up to which a ratio so near to the threshold is
    decided."""
    return abs(math.log(speedup.ratio / threshold)) / _stretch(speedup)


def _stretch(speedup: Speedup) -> float:
    """By how much the interval that decides is wider than the one that is shown."""
    low, high = speedup.interval(DECIDING_CONFIDENCE)
    return math.log(high / low) / math.log(speedup.high / speedup.low)


def _widths(speedup: Speedup) -> HalfWidths:
    """The half-widths of the interval; without widening only the run's own."""
    run = math.log(speedup.high / speedup.low) / 2
    return speedup.widths or HalfWidths(run=run, sessions=0.0, least_sessions=0.0, draws=0.0, control=0.0)


def _marks(status: Status, reason: str, speedup: Speedup, sides: Sequence[Side], control: Speedup | None) -> list[str]:
    ratios = [side.latency.noise_ratio if side.latency else None for side in sides]
    noisy = any(ratio is not None and ratio >= NOISY_RATIO for ratio in ratios)
    decided = status in (Status.SUPPORTED, Status.REFUTED)
    marks = {
        _against_parity(speedup): status == Status.REFUTED,
        ONE_DRAW: speedup.widths is not None and speedup.widths.draws > 0,
        RANKED: decided and bool(reason),
        IMPRECISE: decided and speedup.half_width > WIDEST_HALF_WIDTH,
        NOISY: noisy or (control is not None and control.half_width > WIDEST_HALF_WIDTH),
        PROVISIONAL: None in ratios or control is None or len(speedup.sweep_ratios) < FULL_SWEEPS,
    }
    return [mark for mark, fits in marks.items() if mark and fits]


def _against_parity(speedup: Speedup) -> str:
    if speedup.high < 1 - EQUIVALENCE_MARGIN:
        return "regressed"
    return "equivalent" if is_tie(speedup.low, speedup.high) else ""


def is_tie(low: float, high: float) -> bool:
    """Whether the whole interval of a ratio is within EQUIVALENCE_MARGIN of 1."""
    return low > 1 - EQUIVALENCE_MARGIN and high < 1 + EQUIVALENCE_MARGIN


def _what_would_settle(speedup: Speedup, threshold: float) -> str:
    """The run's own interval narrows with the square root of the sweeps, down to its floor; the ratio is taken to
    stay, and so is what differs between sessions."""
    if _left_open_by_draws(speedup, threshold):
        return (
            f"one choice of the autotuner served all sweeps, and another may differ by about {per_cent(DRAW_SPREAD)}: "
            "too much this close to the threshold; compiling anew in every sweep would settle it"
        )
    widths = _widths(speedup)
    distance = _decided_up_to(speedup, threshold)
    room = max(0.0, distance - widths.control) ** 2 - widths.sessions**2
    if room <= speedup.floor**2:
        if distance < widths.control or distance**2 - widths.sessions**2 > speedup.floor**2:
            return (
                "too close for this machine: the control, the same code timed twice, differed by too much; measure "
                "again on a quiet machine"
            )
        return "too close for one board, whatever the number of sweeps; runs on three boards may settle it"
    sweeps = len(speedup.sweep_ratios)
    needed = max(sweeps + 1, round(sweeps * widths.run**2 / room) + 1)
    if needed > MOST_SWEEPS_ASKED:
        return f"{MOST_SWEEPS_ASKED} sweeps would probably not settle it"
    return f"about {needed} sweeps would settle it"
