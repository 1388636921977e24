"""One sweep more is asked for where an interval is wide, never where it lies somewhere."""

import dataclasses

import pytest
from counting import FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE
from factory import LARGE, SMALL, plan_of, records_of, small_experiment

from lab.verdict.precision import imprecise_cases

NOISE = {"calm": 0.001, "restless": 0.2}


def imprecise(noise: float, fast: float = 20e-6, plain: float = 40e-6) -> set[tuple[str, str]]:
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"])
    times = {
        (case.name, name): seconds for case in (SMALL, LARGE) for name, seconds in (("fast", fast), ("plain", plain))
    }
    return imprecise_cases(plan, records_of(plan, times, noise=noise))


def test_cases_with_wide_intervals_are_named() -> None:
    assert imprecise(NOISE["calm"]) == set()
    assert imprecise(NOISE["restless"]) == {("doubling", SMALL.name), ("doubling", LARGE.name)}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
@pytest.mark.parametrize(("fast", "plain"), [(40e-6, 20e-6), (20e-6, 20e-6), (20e-6, 20.4e-6), (20e-6, 900e-6)])
def test_where_the_ratio_lies_does_not_matter(noise: float, fast: float, plain: float) -> None:
    assert imprecise(noise, fast, plain) == imprecise(noise)


def test_a_case_without_two_sides_is_not_measured_again() -> None:
    plan = plan_of(experiments=[small_experiment()])
    assert imprecise_cases(plan, records_of(plan, {"plain": 40e-6}, noise=0.2)) == set()


def test_the_labs_tests_of_itself_are_left_as_they_are() -> None:
    plan = plan_of(experiments=[small_experiment(self_test=True)])
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 40e-6}
    assert imprecise_cases(plan, records_of(plan, times, noise=0.2)) == set()
    open_plan = dataclasses.replace(
        plan, experiments=tuple(dataclasses.replace(e, self_test=False) for e in plan.experiments)
    )
    assert imprecise_cases(open_plan, records_of(open_plan, times, noise=0.2)) != set()


def test_no_sweep_mends_a_claim_about_traffic() -> None:
    claims = (FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE)
    experiment = small_experiment(claims=claims, headlines=claims)
    plan = plan_of(experiments=[experiment], include=["large-sweep"])
    times = {(LARGE.name, "fast"): 20e-6, (LARGE.name, "plain"): 40e-6}
    assert imprecise_cases(plan, records_of(plan, times, noise=NOISE["restless"])) == set()
