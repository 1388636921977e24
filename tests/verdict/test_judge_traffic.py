"""A claim about traffic: one situation each → one status; in single runs, and among claims of speed-ups."""

import dataclasses
from typing import Any

import pytest
from counting import (
    FAST_MOVES_THE_LEAST,
    LARGE_BYTES,
    PLAIN_MOVES_TWICE,
    counted_run,
    kernel,
    once,
    recounted,
    traffic_plan,
)
from factory import FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, records_of

from lab.evidence.record import Counters, Record
from lab.verdict.judge import Status, Verdict
from lab.verdict.judge_run import judge_run
from lab.verdict.judge_traffic import TRAFFIC_RULES, TrafficSide, judge_traffic
from lab.verdict.traffic import DramTraffic, Moved


def traffic(megabytes: float, **changes: Any) -> DramTraffic:
    facts: dict[str, Any] = {
        "kernels": 1, "read_bytes": megabytes * 1e6, "written_bytes": 0.0, "ratio": 1.0, "pending_bytes": 0.0,
        "recounted_bytes": 0.0, "unseen_bytes": 0.0, "state": "reconciled", "reason": "moves what it must",
    }  # fmt: skip
    return DramTraffic(**(facts | changes))


def side(megabytes: float = 100, outcome: str = "measured", **changes: Any) -> TrafficSide:
    return TrafficSide(outcome=outcome, reason="for a reason", traffic=traffic(megabytes), **changes)


def several(megabytes: float, recounted: float = 0, unseen: float = 0) -> TrafficSide:
    counted = traffic(megabytes, kernels=3, recounted_bytes=recounted * 1e6, unseen_bytes=unseen * 1e6)
    return dataclasses.replace(side(), traffic=counted)


UNRECONCILED = dataclasses.replace(side(), traffic=traffic(10, state="unreconciled", reason="reads 1 % of its inputs"))
UNCOUNTED = TrafficSide(outcome="measured", reason="", traffic=None, uncounted="its counters are blocked: busy")
LEAST = Moved(bytes=100e6, fewest_bytes=100e6, most_bytes=100e6)

SITUATIONS = {
    "well above the threshold": (side(), side(300), Status.SUPPORTED),
    "above it by the margin": (side(), side(206), Status.SUPPORTED),
    "above it by less": (side(), side(205.9), Status.INCONCLUSIVE),
    "at the threshold": (side(), side(200), Status.INCONCLUSIVE),
    "below it by the margin": (side(), side(194.1), Status.INCONCLUSIVE),
    "below it by more": (side(), side(193.9), Status.REFUTED),
    "several kernels, and above it whatever they move": (side(), several(300, recounted=93.9), Status.SUPPORTED),
    "several kernels, and perhaps not above it": (side(), several(300, recounted=94.1), Status.INCONCLUSIVE),
    "several kernels, and below it whatever they move": (side(), several(100, unseen=93.9), Status.REFUTED),
    "several kernels, and perhaps not below it": (side(), several(100, unseen=94.1), Status.INCONCLUSIVE),
    "several kernels of the subject that may move more": (several(100, unseen=50), side(300), Status.INCONCLUSIVE),
    "several kernels of the subject that may move less": (several(100, recounted=50), side(100), Status.INCONCLUSIVE),
    "wrong subject": (side(outcome="wrong"), side(300), Status.REJECTED),
    "wrong baseline": (side(), side(300, outcome="wrong"), Status.REJECTED),
    "impossible subject": (side(impossible="faster than light"), side(300), Status.REJECTED),
    "impossible baseline": (side(), side(300, impossible="faster than light"), Status.REJECTED),
    "unreconciled subject": (UNRECONCILED, side(300), Status.REJECTED),
    "unreconciled baseline": (side(), UNRECONCILED, Status.REJECTED),
    "subject not measured": (side(outcome="failed"), side(300), Status.NO_EVIDENCE),
    "baseline not measured": (side(), side(300, outcome="skipped"), Status.NO_EVIDENCE),
    "subject not counted": (UNCOUNTED, side(300), Status.NO_EVIDENCE),
    "baseline not counted": (side(), UNCOUNTED, Status.NO_EVIDENCE),
    "a missing side hides no wrong one": (side(outcome="failed"), side(300, outcome="wrong"), Status.REJECTED),
    "nor one whose counters are another's": (UNCOUNTED, UNRECONCILED, Status.REJECTED),
}  # fmt: skip


@pytest.mark.parametrize(("subject", "baseline", "status"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_each_situation_has_its_status(subject: TrafficSide, baseline: TrafficSide, status: Status) -> None:
    assert judge_traffic(subject, baseline, 2.0).status == status


@pytest.mark.parametrize(
    ("megabytes", "status"),
    [
        (98, Status.SUPPORTED), (106.7, Status.SUPPORTED), (106.9, Status.INCONCLUSIVE), (110, Status.INCONCLUSIVE),
        (113.3, Status.INCONCLUSIVE), (113.5, Status.REFUTED), (500, Status.REFUTED),
    ],
)  # fmt: skip
def test_against_the_least_the_threshold_is_a_share_of_what_is_moved(megabytes: float, status: Status) -> None:
    """At most 1.10 times the least: the least is at least 1 / 1.10 of what is moved."""
    assert judge_traffic(side(megabytes), LEAST, 1 / 1.10).status == status


def test_a_weighed_verdict_says_that_it_rests_on_one_pass_and_has_no_interval() -> None:
    verdict = judge_traffic(side(), side(300), 2.0)
    assert (verdict.mark, verdict.speedup, verdict.ratio) == ("one pass", None, 3.0)
    assert judge_traffic(UNCOUNTED, side(300), 2.0).mark == ""


@pytest.mark.parametrize(
    ("subject", "baseline", "reason"),
    [
        (side(outcome="wrong"), side(), "wrong result of the subject: for a reason"),
        (side(), side(impossible="faster than light"), "the baseline is faster than light"),
        (UNRECONCILED, side(), "unreconciled: the subject reads 1 % of its inputs"),
        (side(outcome="crashed"), side(), "subject crashed: for a reason"),
        (side(), UNCOUNTED, "baseline not counted: its counters are blocked: busy"),
        (side(), side(201), "within 3 % of the threshold: another pass might fall on the other side"),
        (side(), side(196), "within 3 % of the threshold: another pass might fall on the other side"),
        (side(), several(200.5, unseen=300), "within 3 % of the threshold: another pass might fall on the other side"),
        (
            side(),
            several(300, recounted=200),
            "the profiler empties the caches before each of several kernels: its count leaves the ratio open",
        ),
    ],
)
def test_what_is_not_clear_has_its_reason(subject: TrafficSide, baseline: TrafficSide, reason: str) -> None:
    assert judge_traffic(subject, baseline, 2.0).reason == reason


def test_the_rules_are_printed_in_the_order_in_which_they_are_asked() -> None:
    assert list(TRAFFIC_RULES) == ["rejected", "no-evidence", "supported", "refuted", "inconclusive"]


# In a run


def verdict(name: str, **run: Any) -> Verdict:
    (experiment,) = counted_run(**run).experiments
    (claim,) = [claim for claim in experiment.claims if claim.claim.name == name]
    return claim.verdicts[LARGE.name]


def test_a_run_is_judged_by_what_its_profiler_counted() -> None:
    result = verdict(PLAIN_MOVES_TWICE.name)
    assert result.status == Status.SUPPORTED
    assert result.compared_bytes is not None
    assert (result.compared_bytes.subject_bytes, result.compared_bytes.baseline_bytes) == (
        2 * LARGE_BYTES,
        6 * LARGE_BYTES,
    )
    assert verdict(PLAIN_MOVES_TWICE.name, plain=once(1.5, 1.0)).status == Status.REFUTED
    assert verdict(FAST_MOVES_THE_LEAST.name).status == Status.SUPPORTED
    assert verdict(FAST_MOVES_THE_LEAST.name, fast=once(1.5, 1.0)).status == Status.REFUTED


def test_writes_that_the_cache_still_holds_are_no_merit() -> None:
    """64 MiB to write, of which the L2 may hold 50: reading the inputs half again costs as much as is not counted."""
    result = verdict(FAST_MOVES_THE_LEAST.name, fast=once(1.5, 0.5))
    assert result.status == Status.REFUTED
    assert result.ratio == pytest.approx(0.8)


def test_without_profiling_there_is_no_evidence() -> None:
    result = verdict(FAST_MOVES_THE_LEAST.name, profiling=False)
    assert result.status == Status.NO_EVIDENCE
    assert result.reason == "subject not counted: the run was measured without profiling, or ended before it"


def test_blocked_counters_are_no_evidence_and_say_why() -> None:
    plan = traffic_plan()
    blocked = {"outcome": "blocked", "reason": "no permission", "kernels": ()}

    def block(record: Record) -> Record:
        return dataclasses.replace(record, **blocked) if isinstance(record, Counters) else record

    times = {(LARGE.name, "plain"): 120e-6, (LARGE.name, "fast"): 60e-6}
    run = judge_run(plan, [block(record) for record in records_of(plan, times)])
    result = run.experiments[0].claims[1].verdicts[LARGE.name]
    assert (result.status, result.reason) == (
        Status.NO_EVIDENCE, "subject not counted: its counters are blocked: no permission",
    )  # fmt: skip


def test_a_kernel_without_its_bytes_is_no_evidence() -> None:
    result = verdict(PLAIN_MOVES_TWICE.name, plain=[kernel(None, 1.0)])
    assert result.status == Status.NO_EVIDENCE
    assert result.reason == "baseline not counted: the profiler gave no DRAM bytes for one of its kernels"


def test_counters_of_other_work_are_rejected() -> None:
    assert verdict(FAST_MOVES_THE_LEAST.name, fast=once(0.5, 1.0)).status == Status.REJECTED


def test_a_wrong_result_is_rejected_and_a_failed_one_no_evidence() -> None:
    for outcome, status in (("wrong", Status.REJECTED), ("failed", Status.NO_EVIDENCE)):
        result = verdict(FAST_MOVES_THE_LEAST.name, outcomes={"fast": (outcome, "far off")})
        assert result.status == status


def test_a_cell_that_is_too_fast_to_be_true_is_rejected() -> None:
    """64 MiB take 20 µs from this memory."""
    plan = traffic_plan()
    times = {(LARGE.name, "plain"): 120e-6, (LARGE.name, "fast"): 15e-6}
    run = judge_run(plan, recounted(records_of(plan, times, noise=0.001), {"fast": once()}))
    assert [claim.status for claim in run.experiments[0].claims] == [Status.REJECTED, Status.REJECTED]


def test_a_case_that_the_run_left_out_is_not_judged() -> None:
    plan = traffic_plan(include=())
    run = judge_run(plan, records_of(plan, {}))
    assert [dict(claim.verdicts) for claim in run.experiments[0].claims] == [{}, {}]


def test_both_kinds_of_claims_stand_side_by_side() -> None:
    beats = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))
    (experiment,) = counted_run(beats, PLAIN_MOVES_TWICE).experiments
    speedup, traffic = (claim.verdicts[LARGE.name] for claim in experiment.claims)
    assert speedup.speedup is not None
    assert speedup.ratio == speedup.speedup.ratio
    assert (speedup.compared_bytes, traffic.speedup) == (None, None)
    assert {FAST.name, PLAIN.name} == {profile.name for profile in experiment.plan.profiles}
