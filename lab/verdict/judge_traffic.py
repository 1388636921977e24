"""A claim about DRAM traffic → its verdict. Pure.

The profiler measures a cell once, so there is no interval. A margin around the
threshold allows for the difference that another pass might show. If a call has several kernels, the profiler gives only
bounds of the bytes, and the verdict must be the same for all values within them.
"""

from dataclasses import dataclass

from lab.verdict.judge import Status, Verdict
from lab.verdict.statistics import per_cent
from lab.verdict.traffic import SMALLEST_SHARE, BytesRatio, DramTraffic, Moved, traffic_ratio

# Bytes of one call, those still due of its result included, differed by at most 2.4 % between passes on two H100s.
TRAFFIC_MARGIN = 0.03
ONE_PASS = "one pass"
TRAFFIC_RULES = {
    Status.REJECTED: (
        "A result was wrong in any sweep, or the time is impossible, as above. Or the counters contradict the work: "
        f"less than {per_cent(SMALLEST_SHARE)} of the inputs was read, although the profiler empties the caches first, "
        "or more of the result was left unwritten than the L2 can hold."
    ),
    Status.NO_EVIDENCE: "Not measured or not counted: no profiling, blocked counters, or no count of DRAM bytes.",
    Status.SUPPORTED: (
        f"The ratio of bytes reaches the threshold by {per_cent(TRAFFIC_MARGIN)} or more, anywhere within its bounds."
    ),
    Status.REFUTED: (
        f"The ratio is below the threshold by more than {per_cent(TRAFFIC_MARGIN)}, anywhere within its bounds."
    ),
    Status.INCONCLUSIVE: "Everything else: too near the threshold for one pass, or the bounds lie on both sides of it.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficSide:
    """What the judge needs of one cell: one of a claim's two sides at one case."""

    outcome: str  # as of a cell
    reason: str
    traffic: DramTraffic | None
    uncounted: str = ""  # why there is no traffic
    impossible: str = ""  # why no honest time can be so short


def judge_traffic(subject: TrafficSide, baseline: TrafficSide | Moved, threshold: float) -> Verdict:
    """Ask the rules in order. A baseline that is only `Moved` is the least that must be."""
    sides = {"subject": subject} | ({"baseline": baseline} if isinstance(baseline, TrafficSide) else {})
    for name, side in sides.items():
        if side.outcome == "wrong":
            return Verdict(status=Status.REJECTED, reason=f"wrong result of the {name}: {side.reason}")
        if side.impossible:
            return Verdict(status=Status.REJECTED, reason=f"the {name} is {side.impossible}")
        if side.traffic and side.traffic.state == "unreconciled":
            return Verdict(status=Status.REJECTED, reason=f"unreconciled: the {name} {side.traffic.reason}")
    for name, side in sides.items():
        if side.outcome != "measured":
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} {side.outcome}: {side.reason}")
        if side.traffic is None:
            return Verdict(status=Status.NO_EVIDENCE, reason=f"{name} not counted: {side.uncounted}")
    moved = [side.traffic.moved for side in sides.values() if side.traffic]
    return _weigh(traffic_ratio(moved[0], baseline if isinstance(baseline, Moved) else moved[1]), threshold)


def _weigh(traffic: BytesRatio, threshold: float) -> Verdict:
    status, reason = Status.INCONCLUSIVE, ""
    if traffic.low >= threshold * (1 + TRAFFIC_MARGIN):
        status = Status.SUPPORTED
    elif traffic.high < threshold * (1 - TRAFFIC_MARGIN):
        status = Status.REFUTED
    elif not traffic.bounded or abs(traffic.ratio / threshold - 1) <= TRAFFIC_MARGIN:
        reason = f"within {per_cent(TRAFFIC_MARGIN)} of the threshold: another pass might fall on the other side"
    else:
        reason = "the profiler empties the caches before each of several kernels: its count leaves the ratio open"
    return Verdict(status=status, reason=reason, compared_bytes=traffic, mark=ONE_PASS)
