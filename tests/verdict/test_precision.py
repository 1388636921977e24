"""One sweep more is asked for near a threshold, where an interval is wide, and where too much was spoiled."""

import dataclasses
from typing import Any

import pytest
from counting import FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE
from factory import LARGE, SMALL, busy, plan_of, quiet_round, records_of, seen_as, small_experiment

from lab.evidence.record import Watch
from lab.verdict.precision import imprecise_claims, wants_another
from lab.verdict.statistics import Speedup

FAST_BEATS = "fast-beats-plain"
NOISE = {"calm": 0.001, "restless": 0.2}


def imprecise(noise: float, fast: float = 20e-6, plain: float = 40e-6) -> set[tuple[str, str, str]]:
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"])
    times = {
        (case.name, name): seconds for case in (SMALL, LARGE) for name, seconds in (("fast", fast), ("plain", plain))
    }
    return imprecise_claims(plan, records_of(plan, times, noise=noise))


def test_claims_with_wide_intervals_are_named() -> None:
    assert imprecise(NOISE["calm"]) == set()
    assert imprecise(NOISE["restless"]) == {("doubling", case.name, "fast-beats-plain") for case in (SMALL, LARGE)}


@pytest.mark.parametrize(("fast", "plain"), [(20e-6, 20.4e-6), (20e-6, 20.41e-6), (20e-6, 20.39e-6)])
def test_claims_near_a_threshold_are_named_however_calm(fast: float, plain: float) -> None:
    assert imprecise(NOISE["calm"], fast, plain) == {
        ("doubling", case.name, "fast-beats-plain") for case in (SMALL, LARGE)
    }


@pytest.mark.parametrize(("fast", "plain"), [(40e-6, 20e-6), (20e-6, 20e-6), (20e-6, 900e-6)])
def test_on_which_side_of_the_threshold_a_claim_lies_does_not_matter(fast: float, plain: float) -> None:
    assert imprecise(NOISE["calm"], fast, plain) == set()


@pytest.mark.parametrize(("rounds", "named"), [(6, set()), (7, {("doubling", SMALL.name, "fast-beats-plain")})])
def test_a_case_of_which_too_many_rounds_were_spoiled_is_named_however_clear(rounds: int, named: set[Any]) -> None:
    """Of 30 rounds 6 are a fifth, which still allows a verdict."""
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"])
    records = records_of(plan, {"fast": 20e-6, "plain": 40e-6}, noise=NOISE["calm"])
    shared = quiet_round(foreign_processes=1)
    for index, record in enumerate(records):
        if isinstance(record, Watch) and record.case == SMALL.name and rounds:
            spoiled, rounds = min(rounds, len(record.rounds)), max(0, rounds - len(record.rounds))
            records[index] = dataclasses.replace(record, rounds=(shared,) * spoiled + record.rounds[spoiled:])
    assert imprecise_claims(plan, records) == named


@pytest.mark.parametrize(("seen", "named"), [({}, set()), ({"reasons": 0x4}, {("doubling", SMALL.name, FAST_BEATS)})])
def test_at_the_power_limit_a_claim_must_be_clearer_to_stop_early(seen: dict[str, Any], named: set[Any]) -> None:
    plan = busy(plan_of(experiments=[small_experiment()]))
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 1.055 * 20e-6}
    assert imprecise_claims(plan, seen_as(records_of(plan, times, noise=0.0001), seen)) == named


def of(value: float, half_width: float, sweeps: int = 5) -> Speedup:
    return Speedup(
        ratio=value, low=value / (1 + half_width), high=value * (1 + half_width), sweep_ratios=(value,) * sweeps
    )


def test_a_claim_stops_early_only_where_it_is_clear_at_a_far_stricter_level() -> None:
    """With five sweeps a verdict is decided at 1.35 half-widths, and a tenth of its level is reached at 2.58."""
    assert wants_another(of(1.02 * 1.025, 0.01), 1.02, 0.02)
    assert wants_another(of(1.02 / 1.025, 0.01), 1.02, 0.02)
    assert not wants_another(of(1.02 * 1.027, 0.01), 1.02, 0.02)
    assert not wants_another(of(1.02 / 1.027, 0.01), 1.02, 0.02)


def test_a_wide_interval_wants_another_sweep_however_clear() -> None:
    assert wants_another(of(5.5, 0.03), 1.02, 0.02)


def test_a_case_without_two_sides_is_not_measured_again() -> None:
    plan = plan_of(experiments=[small_experiment()])
    assert imprecise_claims(plan, records_of(plan, {"plain": 40e-6}, noise=0.2)) == set()


def test_the_labs_tests_of_itself_are_left_as_they_are() -> None:
    plan = plan_of(experiments=[small_experiment(self_test=True)])
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 40e-6}
    assert imprecise_claims(plan, records_of(plan, times, noise=0.2)) == set()
    open_plan = dataclasses.replace(
        plan, experiments=tuple(dataclasses.replace(e, self_test=False) for e in plan.experiments)
    )
    assert imprecise_claims(open_plan, records_of(open_plan, times, noise=0.2)) != set()


def test_no_sweep_mends_a_claim_about_traffic() -> None:
    claims = (FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE)
    experiment = small_experiment(claims=claims, headlines=claims)
    plan = plan_of(experiments=[experiment], include=["large-sweep"])
    times = {(LARGE.name, "fast"): 20e-6, (LARGE.name, "plain"): 40e-6}
    assert imprecise_claims(plan, records_of(plan, times, noise=NOISE["restless"])) == set()
