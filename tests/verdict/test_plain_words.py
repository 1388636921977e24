"""What a verdict is called where people read it."""

import pytest

from lab.verdict.judge import CLEAR_AS_SHOWN, Status, Verdict
from lab.verdict.plain_words import claim_word, in_words
from lab.verdict.statistics import Speedup


def said(status: Status, low: float = 1.0, high: float = 1.0, reason: str = "") -> str:
    speedup = Speedup(ratio=(low * high) ** 0.5, low=low, high=high, sweep_ratios=(low, high))
    return in_words(Verdict(status=status, reason=reason, speedup=speedup))


@pytest.mark.parametrize(
    ("status", "low", "high", "words"),
    [
        (Status.SUPPORTED, 1.2, 1.3, "faster"),
        (Status.REFUTED, 1.2, 1.3, "faster, but less than claimed"),
        (Status.INCONCLUSIVE, 1.01, 1.3, "faster, size unclear"),
        (Status.REFUTED, 0.8, 0.9, "slower"),
        (Status.SUPPORTED, 0.985, 0.99, "tie"),
        (Status.REFUTED, 0.99, 1.01, "tie"),
        (Status.SUPPORTED, 0.99, 1.2, "about as fast"),
        (Status.REFUTED, 0.9, 1.01, "not faster"),
        (Status.INCONCLUSIVE, 0.9, 1.1, "undecided"),
        (Status.RERUN_NOISE, 0.9, 1.1, "too noisy to call"),
        (Status.NO_EVIDENCE, 1.0, 1.0, "not measured"),
    ],
)
def test_a_verdict_has_plain_words(status: Status, low: float, high: float, words: str) -> None:
    assert said(status, low, high) == words


def test_what_only_the_interval_that_decides_leaves_open_is_not_called_faster() -> None:
    assert said(Status.INCONCLUSIVE, 1.03, 1.3, f"{CLEAR_AS_SHOWN}; 60 sweeps would not") == "undecided"


def test_a_wrong_result_is_reported_from_one_that_cannot_be() -> None:
    assert said(Status.REJECTED, reason="wrong result of the subject: off") == "wrong result"
    assert said(Status.REJECTED, reason="the subject is faster than the memory") == "not credible"


def test_a_rival_with_a_wrong_result_is_not_held_against_the_subject() -> None:
    rivals = said(Status.REJECTED, reason="wrong result of the baseline: off")
    assert rivals == "rival's result wrong"
    cases = [(Status.SUPPORTED, "faster"), (Status.REJECTED, rivals)]
    assert claim_word(Status.REJECTED, cases) == rivals
    assert claim_word(Status.REJECTED, [*cases, (Status.REJECTED, "wrong result")]) == "wrong result"
    assert claim_word(Status.REJECTED, [*cases[:1], (Status.REJECTED, "not credible")]) == "not credible"
