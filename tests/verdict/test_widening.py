"""The interval of a run, widened to hold on any board; and which profiles rest on one draw of an autotuner."""

import dataclasses
import math

import pytest
from factory import FAST_BEATS_PLAIN, SMALL, plan_of, records_of, seen_as, small_experiment

from lab.definition.plan import Plan
from lab.verdict.judge_run import judge_run
from lab.verdict.statistics import Speedup
from lab.verdict.widening import (
    BUSY_SESSION_FLOOR,
    DRAW_SPREAD,
    FEW_OPERATIONS,
    NORMAL_QUANTILE,
    POWER_LIMITED_SESSION_FLOOR,
    SESSION_FLOOR,
    SESSION_SHARE,
    profiles_drawn_once,
    widened,
)


def of(ratios: tuple[float, ...], half_width: float = 0.005) -> Speedup:
    ratio = math.prod(ratios) ** (1 / len(ratios))
    return Speedup(
        ratio=ratio, low=ratio * math.exp(-half_width), high=ratio * math.exp(half_width), sweep_ratios=ratios
    )


CALM, RESTLESS = of((1.2,) * 5), of((1.10, 1.30, 1.15, 1.25, 1.20))


def half_width(speedup: Speedup) -> float:
    return math.log(speedup.high / speedup.low) / 2


def test_calm_sweeps_have_the_least_that_differs_between_sessions() -> None:
    assert half_width(widened(CALM, SESSION_FLOOR)) == pytest.approx(math.hypot(0.005, NORMAL_QUANTILE * SESSION_FLOOR))


def test_restless_sweeps_have_a_share_of_what_differs_between_them() -> None:
    logs = [math.log(ratio / RESTLESS.ratio) for ratio in RESTLESS.sweep_ratios]
    deviation = math.sqrt(sum(log**2 for log in logs) / 4)
    assert half_width(widened(RESTLESS, SESSION_FLOOR)) == pytest.approx(
        math.hypot(0.005, NORMAL_QUANTILE * SESSION_SHARE * deviation)
    )


@pytest.mark.parametrize(("operations_a_byte", "reasons", "least"), [
    (0, 0, SESSION_FLOOR), (FEW_OPERATIONS, 0, SESSION_FLOOR), (FEW_OPERATIONS, 0x4, SESSION_FLOOR),
    (FEW_OPERATIONS + 1, 0, BUSY_SESSION_FLOOR), (FEW_OPERATIONS + 1, 0x4, POWER_LIMITED_SESSION_FLOOR),
])  # fmt: skip
def test_cases_of_many_operations_for_each_result_differ_more_between_boards_and_most_at_the_power_limit(
    operations_a_byte: float, reasons: int, least: float
) -> None:
    made = plan_of(experiments=[small_experiment()])
    (case,) = (each for each in made.experiments[0].cases if each.name == SMALL.name)
    busy = dataclasses.replace(case, flops=int(operations_a_byte * case.written_bytes))
    changed = dataclasses.replace(made, experiments=(dataclasses.replace(made.experiments[0], cases=(busy,)),))
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 40e-6}
    records = seen_as(records_of(changed, times, noise=0.0001), {"reasons": reasons}, {})
    (claim,) = judge_run(changed, records).experiments[0].claims
    speedup = claim.verdicts[SMALL.name].speedup
    assert speedup
    assert speedup.widths
    assert speedup.widths.sessions == pytest.approx(NORMAL_QUANTILE * least)


def test_the_ratio_stays_and_the_runs_own_interval_stays_known() -> None:
    speedup = widened(CALM, SESSION_FLOOR, one_draw=True)
    assert speedup.ratio == CALM.ratio
    assert speedup.of_run_alone == pytest.approx((CALM.low, CALM.high))
    assert CALM.of_run_alone == (CALM.low, CALM.high)


def test_one_draw_takes_in_other_draws() -> None:
    speedup = widened(CALM, SESSION_FLOOR, one_draw=True)
    assert speedup.widths is not None
    assert speedup.widths.draws == pytest.approx(NORMAL_QUANTILE * DRAW_SPREAD)
    assert half_width(speedup) > 0.19
    assert speedup.widths.apart_from_draws == pytest.approx(half_width(widened(CALM, SESSION_FLOOR)))


@pytest.mark.parametrize(("ratio", "added"), [(1.0, 0), (1.004, 0), (1.02, 0.0148), (1 / 1.02, 0.0148)])
def test_a_control_adds_what_it_differs_by_beyond_its_own_interval(ratio: float, added: float) -> None:
    control = of((ratio,) * 5)
    assert half_width(widened(CALM, SESSION_FLOOR, control)) == pytest.approx(
        half_width(widened(CALM, SESSION_FLOOR)) + added, abs=1e-4
    )


def plan(recompiles: bool = True, fresh: bool = False, schema: int = 6, technique: str = "It doubles.") -> Plan:
    made = plan_of(experiments=[small_experiment()])
    profiles = tuple(
        dataclasses.replace(profile, recompiles=recompiles, technique=technique) if profile.name == "plain" else profile
        for profile in made.experiments[0].profiles
    )
    experiment = dataclasses.replace(made.experiments[0], profiles=profiles)
    protocol = dataclasses.replace(made.protocol, fresh_caches=fresh)
    return dataclasses.replace(made, experiments=(experiment,), protocol=protocol, schema=schema)


@pytest.mark.parametrize(
    ("made", "drawn"),
    [
        pytest.param(plan(), {"plain"}, id="compiled at run time, with one cache"),
        pytest.param(plan(fresh=True), set(), id="with a cache for each sweep"),
        pytest.param(plan(recompiles=False), set(), id="not compiled at run time"),
        pytest.param(plan(recompiles=False, schema=4, technique="torch.compile of it."), {"plain"}, id="an older plan"),
        pytest.param(plan(recompiles=False, technique="Faster than torch.compile."), set(), id="a plan that says no"),
    ],
)
def test_what_is_compiled_at_run_time_is_drawn_once_where_sweeps_share_a_cache(made: Plan, drawn: set[str]) -> None:
    assert profiles_drawn_once(made, made.experiments[0]) == drawn


@pytest.mark.parametrize(("fresh", "mark"), [(False, "one draw, size imprecise"), (True, "")])
def test_a_verdict_on_one_draw_is_marked(fresh: bool, mark: str) -> None:
    made = plan(fresh=fresh)
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 40e-6}
    (claim,) = judge_run(made, records_of(made, times, noise=0.001)).experiments[0].claims
    assert (claim.status, claim.verdicts[SMALL.name].mark) == ("supported", mark)
    assert claim.mark == mark.partition(",")[0]
    assert claim.claim.name == FAST_BEATS_PLAIN.name
