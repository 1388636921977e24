"""A claim about peak memory: one situation each → one status; and in runs."""

import dataclasses

import pytest
from counting import PLAIN_TAKES_TWICE, RESULT_ALONE, allocating, traffic_plan
from factory import small_experiment

from lab.definition.claim_words import can_run, claim_sentence, requirement_over
from lab.verdict.judge import Status
from lab.verdict.judge_memory import MEMORY_RULES, MemorySide, judge_memory
from lab.verdict.results import RunResult


def side(*peak_bytes: int, outcome: str = "measured") -> MemorySide:
    return MemorySide(outcome=outcome, reason="for a reason", peak_bytes=peak_bytes)


SITUATIONS = {
    "at the threshold": (side(100, 100), side(200, 200), Status.SUPPORTED),
    "a byte below it": (side(100, 100), side(199, 199), Status.REFUTED),
    "sweeps on both sides": (side(100, 101), side(200, 201), Status.INCONCLUSIVE),
    "against the size of the results": (side(50), 100, Status.SUPPORTED),
    "more than the results": (side(51), 100, Status.REFUTED),
    "a wrong result": (side(100, outcome="wrong"), side(200), Status.REJECTED),
    "a baseline that crashed": (side(100), side(200, outcome="crashed"), Status.NO_EVIDENCE),
    "a run on a CPU": (side(), side(200), Status.NO_EVIDENCE),
    "a call in place": (side(0), side(200), Status.NO_EVIDENCE),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_has_one_status(situation: str) -> None:
    subject, baseline, status = SITUATIONS[situation]
    assert judge_memory(subject, baseline, 2.0).status == status


def test_the_rules_say_what_each_status_needs() -> None:
    assert {status for _, _, status in SITUATIONS.values()} == set(MEMORY_RULES)


def statuses(run: RunResult) -> dict[str, Status]:
    (experiment,) = run.experiments
    return {claim.claim.name: claim.status for claim in experiment.claims}


def test_a_run_is_judged_by_what_its_calls_allocated() -> None:
    names = (RESULT_ALONE.name, PLAIN_TAKES_TWICE.name)
    for fast, plain, expected in (
        (1, 3, (Status.SUPPORTED, Status.SUPPORTED)),
        (2, 3, (Status.REFUTED, Status.REFUTED)),
        (None, 3, (Status.NO_EVIDENCE, Status.NO_EVIDENCE)),
    ):
        assert statuses(allocating(fast, plain)) == dict(zip(names, expected, strict=True))


def test_the_sentence_says_what_is_asked() -> None:
    assert claim_sentence(RESULT_ALONE) == (
        "Fast needs little but its result, at most 1.05 times the bytes of its results."
    )
    assert requirement_over(PLAIN_TAKES_TWICE, "plain") == "plain allocates at least 2 times its bytes"


def test_nothing_counts_the_memory_of_a_cpu() -> None:
    (experiment,) = traffic_plan(RESULT_ALONE).experiments
    (claim,) = experiment.claims
    assert can_run(experiment, claim, "cuda")
    assert not can_run(experiment, claim, "cpu")


def test_a_claim_about_time_needs_a_baseline() -> None:
    with pytest.raises(Exception, match="baseline is None; a claim with measure 'speedup' needs one"):
        small_experiment(claims=[dataclasses.replace(RESULT_ALONE, measure="speedup")])
