"""One situation each → one status; and the order in which the rules are asked."""

import dataclasses
import math
from typing import Any

import pytest

from lab.verdict.judge import (
    MARKS,
    RULES,
    Side,
    Status,
    Verdict,
    judge_case,
    judge_claim,
    mark_of_claim,
)
from lab.verdict.plain_words import in_words
from lab.verdict.statistics import DECIDING_CONFIDENCE, HalfWidths, Latency, Speedup


def side(**changes: Any) -> Side:
    return dataclasses.replace(Side(outcome="measured", reason="", latency=calm(), void_share=0.0), **changes)


def calm(noise: float | None = 1.05) -> Latency:
    p95 = None if noise is None else 1e-5 * noise
    return Latency(p50_seconds=1e-5, p95_seconds=p95, sweep_p50_seconds=(1e-5,), samples=300)


def ratio(value: float, half_width: float = 0.005, sweeps: int = 5, **changes: Any) -> Speedup:
    speedup = Speedup(
        ratio=value, low=value / (1 + half_width), high=value * (1 + half_width), sweep_ratios=(value,) * sweeps
    )
    return dataclasses.replace(speedup, **changes)


def judged(
    speedup: Speedup | None,
    subject: Side | None = None,
    baseline: Side | None = None,
    threshold: float = 1.02,
    control: Speedup | None = None,
    spoiled: float = 0.0,
    shared_sweeps: int = 0,
) -> Verdict:
    sides = subject or side(), baseline or side()
    return judge_case(*sides, speedup, threshold, control or ratio(1.0), spoiled, shared_sweeps)


SITUATIONS = {
    "well above the threshold": (ratio(1.3), {}, Status.SUPPORTED),
    "lower end above the threshold": (ratio(1.034, half_width=0.01), {}, Status.SUPPORTED),
    "lower end above the threshold, but not that which decides": (
        ratio(1.033, half_width=0.01), {}, Status.INCONCLUSIVE,
    ),
    "lower end below the threshold": (ratio(1.03, half_width=0.01), {}, Status.INCONCLUSIVE),
    "well below the threshold": (ratio(1.0), {}, Status.REFUTED),
    "upper end above the threshold": (ratio(1.011, half_width=0.01), {}, Status.INCONCLUSIVE),
    "upper end below the threshold, but not that which decides": (
        ratio(1.008, half_width=0.01), {}, Status.INCONCLUSIVE,
    ),
    "upper end below the threshold": (ratio(1.006, half_width=0.01), {}, Status.REFUTED),
    "interval around the threshold": (ratio(1.02), {}, Status.INCONCLUSIVE),
    "slower than the baseline": (ratio(0.8), {}, Status.REFUTED),
    "wrong subject": (ratio(1.3), {"subject": side(outcome="wrong")}, Status.REJECTED),
    "wrong baseline": (ratio(1.3), {"baseline": side(outcome="wrong")}, Status.REJECTED),
    "subject faster than physics": (ratio(1.3), {"subject": side(impossible="faster than light")}, Status.REJECTED),
    "baseline faster than physics": (ratio(1.3), {"baseline": side(impossible="faster than light")}, Status.REJECTED),
    "failed subject": (None, {"subject": side(outcome="failed")}, Status.NO_EVIDENCE),
    "skipped baseline": (None, {"baseline": side(outcome="skipped")}, Status.NO_EVIDENCE),
    "not-planned baseline": (None, {"baseline": side(outcome="not-planned")}, Status.NO_EVIDENCE),
    "unfinished subject": (None, {"subject": side(outcome="unfinished")}, Status.NO_EVIDENCE),
    "nothing to compare": (None, {}, Status.NO_EVIDENCE),
    "two sweeps": (ratio(1.3, sweeps=2), {}, Status.NO_EVIDENCE),
    "three sweeps": (ratio(1.3, sweeps=3), {}, Status.SUPPORTED),
    "noisy samples": (ratio(1.3), {"subject": side(latency=calm(1.5))}, Status.SUPPORTED),
    "unknown noise ratio": (ratio(1.3), {"subject": side(latency=calm(None))}, Status.SUPPORTED),
    "a fifth of the samples void": (ratio(1.3), {"subject": side(void_share=0.2)}, Status.SUPPORTED),
    "more than a fifth void": (ratio(1.3), {"subject": side(void_share=0.21)}, Status.RERUN_NOISE),
    "wide interval, above": (ratio(5.5, half_width=0.06), {}, Status.SUPPORTED),
    "wide interval, below": (ratio(0.9, half_width=0.06), {}, Status.REFUTED),
    "wide interval around the threshold": (ratio(1.03, half_width=0.021), {}, Status.RERUN_NOISE),
    "interval at the limit around the threshold": (ratio(1.03, half_width=0.0199), {}, Status.INCONCLUSIVE),
    "one sweep of five below, and wide": (
        ratio(1.3, half_width=0.06, sweep_ratios=(1.3,) * 4 + (1.0,)), {}, Status.SUPPORTED,
    ),
    "two sweeps of five below, and wide": (
        ratio(1.3, half_width=0.06, sweep_ratios=(1.3,) * 3 + (1.0,) * 2), {}, Status.RERUN_NOISE,
    ),
    "one sweep of five at parity": (ratio(1.3, sweep_ratios=(1.3,) * 4 + (1.0,)), {}, Status.SUPPORTED),
    "two sweeps of five at parity": (ratio(1.3, sweep_ratios=(1.3,) * 3 + (1.0,) * 2), {}, Status.INCONCLUSIVE),
}  # fmt: skip


@pytest.mark.parametrize(("speedup", "sides", "status"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_each_situation_has_its_status(speedup: Speedup | None, sides: dict[str, Side], status: Status) -> None:
    assert judged(speedup, **sides).status == status


ORDER = {
    "a wrong result comes before a missing side": (
        None, {"subject": side(outcome="wrong"), "baseline": side(outcome="failed")}, Status.REJECTED,
    ),
    "a missing side hides no wrong one": (
        None, {"subject": side(outcome="failed"), "baseline": side(outcome="wrong")}, Status.REJECTED,
    ),
    "physics comes before lost samples": (
        ratio(1.3), {"subject": side(impossible="faster than light", void_share=0.5)}, Status.REJECTED,
    ),
    "a missing side comes before lost samples": (
        ratio(1.3), {"subject": side(void_share=0.5), "baseline": side(outcome="failed")}, Status.NO_EVIDENCE,
    ),
    "too few sweeps come before lost samples": (
        ratio(1.3, sweeps=2), {"subject": side(void_share=0.5)}, Status.NO_EVIDENCE,
    ),
    "lost samples come before support": (ratio(9.0), {"subject": side(void_share=0.5)}, Status.RERUN_NOISE),
    "lost samples come before refutation": (ratio(0.5), {"baseline": side(void_share=0.5)}, Status.RERUN_NOISE),
}  # fmt: skip


@pytest.mark.parametrize(("speedup", "sides", "status"), ORDER.values(), ids=ORDER.keys())
def test_rules_are_asked_in_their_order(speedup: Speedup | None, sides: dict[str, Side], status: Status) -> None:
    assert judged(speedup, **sides).status == status


def test_the_rules_are_printed_in_the_order_in_which_they_are_asked() -> None:
    asked = ["rejected", "no-evidence", "rerun-noise", "supported", "refuted", "rerun-noise", "inconclusive"]
    assert [status for status, _ in RULES] == asked
    assert set(asked) == set(Status)


@pytest.mark.parametrize(
    ("speedup", "mark"),
    [
        pytest.param(ratio(1.3), "", id="supported over five sweeps"),
        pytest.param(ratio(1.3, sweeps=4), "provisional", id="supported over fewer"),
        pytest.param(ratio(1.0), "equivalent", id="within two per cent of parity"),
        pytest.param(ratio(0.9), "regressed", id="all below that"),
        pytest.param(ratio(0.98), "", id="in between"),
        pytest.param(ratio(0.98, sweeps=3), "provisional", id="in between over fewer sweeps"),
        pytest.param(ratio(5.5, half_width=0.06), "size imprecise", id="supported, and wide"),
        pytest.param(ratio(0.8, half_width=0.06), "regressed, size imprecise", id="refuted, and wide"),
        pytest.param(ratio(1.03, half_width=0.06), "", id="undecided, and wide"),
    ],
)
def test_a_verdict_is_marked(speedup: Speedup, mark: str) -> None:
    assert judged(speedup).mark == mark


@pytest.mark.parametrize(("noise", "mark"), [(1.199, ""), (1.2, "noisy"), (None, "provisional")])
def test_samples_that_scatter_are_a_mark_and_no_verdict(noise: float | None, mark: str) -> None:
    for sides in ({"subject": side(latency=calm(noise))}, {"baseline": side(latency=calm(noise))}):
        verdict = judged(ratio(1.3), **sides)
        assert (verdict.status, verdict.mark) == (Status.SUPPORTED, mark)


def test_every_mark_is_explained() -> None:
    verdict = judged(ratio(0.8, half_width=0.06, sweeps=3, widths=DRAWN), subject=side(latency=calm(1.5)))
    assert verdict.mark == "regressed, one draw, size imprecise, noisy, provisional"
    assert {*verdict.mark.split(", "), "equivalent", "typical sweep"} == set(MARKS)


DRAWN = HalfWidths(run=0.005, sessions=0.003, least_sessions=0.003, draws=0.196, control=0.0)


def test_one_draw_is_a_mark_and_what_it_leaves_open_is_no_noise() -> None:
    """The interval is wide because the autotuner may choose otherwise: nothing that another sweep would mend."""
    wide = judged(ratio(1.1, half_width=0.2, widths=DRAWN))
    assert (wide.status, wide.mark) == (Status.INCONCLUSIVE, "one draw")
    assert "compiling anew in every sweep would settle it" in wide.reason
    clear = judged(ratio(1.6, half_width=0.2, widths=DRAWN))
    assert (clear.status, clear.mark) == (Status.SUPPORTED, "one draw, size imprecise")
    noise = dataclasses.replace(DRAWN, run=0.03)
    assert judged(ratio(1.03, half_width=0.2, widths=noise)).status == Status.RERUN_NOISE


def test_a_claim_carries_the_mark_of_the_verdicts_that_it_rests_on() -> None:
    drawn, other = judged(ratio(1.6, half_width=0.2, widths=DRAWN)), judged(ratio(1.0))
    assert mark_of_claim([drawn, drawn], Status.SUPPORTED) == "one draw"
    assert mark_of_claim([drawn, other], Status.REFUTED) == ""


def test_an_end_of_the_deciding_interval_on_the_threshold_reaches_it() -> None:
    speedup = ratio(1.3)
    low, high = speedup.interval(DECIDING_CONFIDENCE)
    assert judged(speedup, threshold=low).status == Status.SUPPORTED
    assert judged(speedup, threshold=high).status == Status.INCONCLUSIVE
    assert judged(speedup, threshold=math.nextafter(high, 2)).status == Status.REFUTED


def test_the_threshold_is_the_claims_own() -> None:
    assert judged(ratio(1.3), threshold=1.5).status == Status.REFUTED
    assert judged(ratio(1.6), threshold=1.5).status == Status.SUPPORTED


def test_a_refuted_ratio_between_parity_and_a_high_threshold_is_neither_equivalent_nor_regressed() -> None:
    assert judged(ratio(1.3), threshold=1.5).mark == ""


def test_a_missing_side_is_named_with_its_reason() -> None:
    verdict = judged(None, baseline=side(outcome="skipped", reason="liger_kernel is not installed"))
    assert verdict.reason == "baseline skipped: liger_kernel is not installed"


@pytest.mark.parametrize(
    ("sweeps", "reason"),
    [(0, "no sweep has samples of both sides; 3 are needed"),
     (1, "1 sweep has samples of both sides; 3 are needed"),
     (2, "2 sweeps have samples of both sides; 3 are needed")],
)  # fmt: skip
def test_too_few_sweeps_are_counted(sweeps: int, reason: str) -> None:
    assert judged(ratio(1.3, sweeps=sweeps) if sweeps > 1 else None, shared_sweeps=sweeps).reason == reason


def test_an_inconclusive_verdict_says_how_many_sweeps_would_settle_it() -> None:
    """The ratio is 0.5 % from the threshold and the deciding half-width 1.35 %: 7.3 times the sweeps."""
    verdict = judged(ratio(1.02 * 1.005, half_width=0.01))
    assert verdict.status == Status.INCONCLUSIVE
    assert verdict.reason == "the threshold is inside the interval; about 37 sweeps would settle it"


def test_a_ratio_at_the_threshold_itself_promises_nothing() -> None:
    assert "too close for one board" in judged(ratio(1.02)).reason


def test_no_more_sweeps_are_advised_than_a_run_may_have() -> None:
    """The ratio is 0.2 % from the threshold and the half-width 1.35 %: more than 200 sweeps."""
    assert "60 sweeps would probably not settle it" in judged(ratio(1.02 * 1.002, half_width=0.01)).reason


def test_a_floor_that_no_sweep_can_lower_is_not_answered_with_more_sweeps() -> None:
    bound = ratio(1.02 * 1.003, half_width=0.005, floor=0.004)
    assert "too close for one board" in judged(bound).reason
    between = HalfWidths(run=0.004, sessions=0.004, least_sessions=0.003, draws=0.0, control=0.0)
    bound = ratio(1.02 * 1.003, half_width=0.0057, widths=between)
    assert "whatever the number of sweeps" in judged(bound).reason


def test_where_the_control_is_further_off_than_the_threshold_the_machine_is_named_and_no_board() -> None:
    noisy = HalfWidths(run=0.02, sessions=0.003, least_sessions=0.003, draws=0.0, control=0.3)
    reason = judged(ratio(1.1, half_width=0.33, widths=noisy)).reason
    assert "too close for this machine: the control, the same code timed twice, differed by too much" in reason
    assert "board" not in reason
    near = HalfWidths(run=0.001, sessions=0.003, least_sessions=0.003, draws=0.0, control=0.02)
    assert "too close for this machine" in judged(ratio(1.045, half_width=0.024, widths=near)).reason


def test_refutation_too_asks_that_all_sweeps_but_one_agree() -> None:
    below = ratio(1.0, half_width=0.01, sweep_ratios=(0.97, 0.99, 0.98, 1.03, 1.03))
    verdict = judged(below)
    assert verdict.status == Status.INCONCLUSIVE
    assert verdict.reason == "the interval is below the threshold, but only 3 of 5 sweeps are"
    assert judged(ratio(1.0, half_width=0.01, sweep_ratios=(0.98,) * 4 + (1.03,))).status == Status.REFUTED


BOARDS = HalfWidths(run=0.1, sessions=0.05, least_sessions=0.003, draws=0.0, control=0.0)


@pytest.mark.parametrize(
    ("sweeps", "status", "says"),
    [
        ((1.05,) * 8 + (2.0,), Status.SUPPORTED, "by their ranks 9 sweeps reach the threshold"),
        ((0.95,) * 8 + (0.5,), Status.REFUTED, "by their ranks 9 sweeps are below the threshold"),
        ((1.05,) * 7 + (2.0,), Status.RERUN_NOISE, "the threshold is inside the interval"),
        ((1.05, 1.06, 1.07, 1.08, 1.09, 1.1, 1.12, 1.5, 1.01), Status.SUPPORTED, "by their ranks 9 sweeps reach"),
        ((1.05, 1.06, 1.07, 1.08, 1.09, 1.1, 1.12, 1.5, 0.9), Status.RERUN_NOISE, "the threshold is inside"),
        ((1.05, 1.06, 1.07, 1.08, 1.09, 1.1, 1.5, 1.01, 1.01), Status.RERUN_NOISE, "the threshold is inside"),
        ((1.0240,) * 8 + (2.0,), Status.RERUN_NOISE, "the threshold is inside the interval"),
        ((1.0241,) * 8 + (2.0,), Status.SUPPORTED, "by their ranks 9 sweeps reach the threshold"),
    ],
)  # boards and clock differ by 0.316 % × 1.256, so 1.02 is reached from 1.02406 on; ranks of up to 2 may be against it
def test_ranks_of_sweeps_decide_where_the_interval_is_wide(
    sweeps: tuple[float, ...], status: Status, says: str
) -> None:
    verdict = judged(ratio(1.02, half_width=0.15, sweep_ratios=sweeps, widths=BOARDS))
    assert verdict.status == status
    assert verdict.reason.startswith(says)
    assert ("typical sweep, size imprecise" in verdict.mark) == (status != Status.RERUN_NOISE)
    assert in_words(verdict) == {
        Status.SUPPORTED: "holds", Status.REFUTED: "does not hold", Status.RERUN_NOISE: "too noisy to call",
    }[status]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "sweeps", "status"),
    [
        ({"control": 0.02}, (1.04,) * 8 + (2.0,), Status.RERUN_NOISE),
        ({"control": 0.01}, (1.04,) * 8 + (2.0,), Status.SUPPORTED),
        ({}, (1.017,) * 8 + (0.5,), Status.RERUN_NOISE),
        ({}, (1.015,) * 8 + (0.5,), Status.REFUTED),
        ({"control": 0.01}, (1.015,) * 8 + (0.5,), Status.RERUN_NOISE),
        ({}, (1.05,) * 10 + (1.019, 2.0), Status.SUPPORTED),
        ({}, (1.05,) * 10 + (1.019, 1.019), Status.RERUN_NOISE),
    ],
)
def test_by_ranks_too_the_threshold_is_passed_by_what_boards_and_the_control_differ(
    changed: dict[str, float], sweeps: tuple[float, ...], status: Status
) -> None:
    widths = dataclasses.replace(BOARDS, **changed)
    assert judged(ratio(1.02, half_width=0.15, sweep_ratios=sweeps, widths=widths)).status == status


def test_a_clock_that_errs_alike_in_all_sweeps_is_taken_off_before_they_are_ranked() -> None:
    coarse = ratio(1.05, half_width=0.04, floor=0.036, sweep_ratios=(1.05,) * 9, widths=BOARDS)
    assert judged(coarse).status == Status.RERUN_NOISE


def test_where_the_interval_is_on_one_side_of_parity_the_word_says_so() -> None:
    above = ratio(1.2, half_width=0.18, sweep_ratios=(1.1,) * 8 + (2.0,), widths=BOARDS)
    assert (judged(above).status, in_words(judged(above))) == (Status.SUPPORTED, "faster")


def test_sweeps_that_agree_are_not_asked_where_boards_are_what_leaves_a_claim_open() -> None:
    """An interval of 1.4 % leaves 1.037 open, and is not wide, though every sweep is 1.7 % above the threshold."""
    calm = dataclasses.replace(BOARDS, run=0.008, sessions=0.0118, least_sessions=0.0118)
    assert judged(ratio(1.037, half_width=0.01436, sweeps=9, widths=calm)).status == Status.INCONCLUSIVE


def test_one_choice_of_an_autotuner_is_no_agreement() -> None:
    drawn = dataclasses.replace(BOARDS, run=0.03, sessions=0.005, draws=0.196)
    once = judged(ratio(1.29, half_width=0.28, sweep_ratios=(1.29,) * 9, widths=drawn))
    assert once.status in (Status.INCONCLUSIVE, Status.RERUN_NOISE)


S, R, I, N, E, X = (  # noqa: E741
    Status.SUPPORTED, Status.REFUTED, Status.INCONCLUSIVE, Status.RERUN_NOISE, Status.NO_EVIDENCE, Status.REJECTED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("cases", "claim"),
    [
        ([S, S, S], S),
        ([S, S, R], R),
        ([S, S, E], E),
        ([S, S, N], N),
        ([S, S, I], I),
        ([S, X, R], X),
        ([R, E, N, I], R),
        ([E, N, I], E),
        ([N, I], N),
        ([], E),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_a_claim_is_supported_when_each_case_is_and_one_refuted_case_refutes_it(
    cases: list[Status], claim: Status
) -> None:
    assert judge_claim([Verdict(status=status, reason="") for status in cases]) == claim


# Controls, and the interval that decides


@pytest.mark.parametrize(("half_width", "mark"), [(0.0199, ""), (0.021, "noisy")])
def test_a_control_that_is_wide_is_a_mark_and_no_verdict(half_width: float, mark: str) -> None:
    verdict = judged(ratio(1.3), control=ratio(1.0, half_width=half_width))
    assert (verdict.status, verdict.mark) == (Status.SUPPORTED, mark)


def test_without_a_control_a_verdict_is_provisional() -> None:
    assert judge_case(side(), side(), ratio(1.3), 1.02).mark == "provisional"


@pytest.mark.parametrize(("share", "status"), [(0.2, Status.SUPPORTED), (0.21, Status.RERUN_NOISE)])
def test_too_many_spoiled_rounds_are_noise(share: float, status: Status) -> None:
    assert judged(ratio(1.3), spoiled=share).status == status


def test_a_threshold_below_parity_is_its_own_bar() -> None:
    assert judged(ratio(0.995, half_width=0.002), threshold=0.98).status == Status.SUPPORTED


@pytest.mark.parametrize(("value", "status"), [(1.034, Status.SUPPORTED), (1.006, Status.REFUTED)])
def test_a_verdict_needs_more_than_the_interval_that_is_shown(value: float, status: Status) -> None:
    """With five sweeps the half-width of the 98 % interval is 1.35 times that of the 95 % interval."""
    assert judged(ratio(value, half_width=0.01)).status == status
    wider = judged(ratio(value, half_width=0.011))
    assert wider.status == Status.INCONCLUSIVE
    assert wider.reason.startswith("the 95 % interval is clear of the threshold, but not the 98 % interval")
    assert wider.reason.endswith("about 7 sweeps would settle it")


def test_with_more_sweeps_the_interval_that_decides_is_nearer_to_the_one_that_is_shown() -> None:
    assert [judged(ratio(1.0335, half_width=0.0103, sweeps=n)).status for n in (5, 9)] == [
        Status.INCONCLUSIVE, Status.SUPPORTED,
    ]  # fmt: skip


def test_what_the_interval_that_decides_leaves_open_is_noise_where_the_one_shown_is_wide() -> None:
    wide = judged(ratio(0.95, half_width=0.06))
    assert wide.status == Status.RERUN_NOISE
    assert wide.reason.startswith("the 95 % interval is clear of the threshold")
