"""Runs repeated and pooled: pairs of one source only, boards counted, the run as the unit."""

import dataclasses
import math

import numpy as np
import pytest
from factory import FAST, LARGE, SMALL, busy, machine, plan_of, profile, records_of, seen_as, small_experiment

from lab.definition.experiment import CEILINGS
from lab.validity_report import describe_repeats
from lab.verdict.estimates import FLOORS, estimates
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run
from lab.verdict.minority import Minorities
from lab.verdict.pooled import pooled
from lab.verdict.repeatability import Kind, PairsOf, repeatability, runs_of_one_source
from lab.verdict.results import RunResult
from lab.verdict.widening import BUSY_SESSION_FLOOR, POWER_LIMITED_SESSION_FLOOR, SESSION_FLOOR


def run(
    name: str, ratio: float = 1.2, board: str = "a", source: str = "s", device: str = "cuda", large: bool = False,
    noise: float = 0.001,
) -> RunResult:  # fmt: skip
    plan = plan_of(name, experiments=[small_experiment()], device=device, include=("large-sweep",) if large else ())
    fastest = {SMALL.name: 20e-6} | ({LARGE.name: 60e-6} if large else {})
    times = {(case, "fast"): seconds for case, seconds in fastest.items()}
    times |= {(case, "plain"): seconds * ratio for case, seconds in fastest.items()}
    seed = sum(map(ord, name))
    judged = judge_run(plan, records_of(plan, times, noise=noise, seed=seed, on=machine(device, gpu_id=board)))
    return dataclasses.replace(judged, start=dataclasses.replace(judged.start, source_digest=source))


def test_runs_that_agree_hold_each_others_estimates() -> None:
    (agreement,) = repeatability([run("a"), run("b", board="b"), run("c")])
    assert (agreement.runs, agreement.boards, agreement.sweeps, agreement.pairs) == (3, 2, 5, 3)
    assert agreement.holding_share == agreement.zero_share == 1
    assert (agreement.changed, agreement.flipped, agreement.kind) == (0, 0, Kind.FIXED)


def compiled(name: str, fresh: bool, sweeps: int = 9) -> RunResult:
    plan = plan_of(name, experiments=[small_experiment(profiles=(profile("plain", recompiles=True), FAST))])
    protocol = dataclasses.replace(plan.protocol, fresh_caches=fresh, sweeps=sweeps)
    plan = dataclasses.replace(plan, protocol=protocol)
    times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 24e-6}
    return judge_run(plan, records_of(plan, times, noise=0.001, seed=sum(map(ord, name)), on=machine("cuda")))


def test_claims_about_compiled_code_are_counted_apart() -> None:
    (fresh,) = repeatability([compiled("a", True), compiled("b", True)])
    (once,) = repeatability([compiled("c", False), compiled("d", False)])
    (fewer,) = repeatability([compiled("e", True), compiled("f", True, sweeps=5)])
    assert (fresh.kind, once.kind, fewer.kind) == (Kind.FRESH, Kind.ONE_CACHE, Kind.FEWER)


def test_ceilings_that_come_with_every_run_are_counted_apart() -> None:
    def ceilings(name: str) -> RunResult:
        made = run(name)
        (only,) = made.experiments
        plan = dataclasses.replace(only.plan, name=CEILINGS)
        return dataclasses.replace(made, experiments=(dataclasses.replace(only, plan=plan),))

    kinds = [(each.kind, each.pairs) for each in repeatability([run("a"), run("b"), ceilings("c"), ceilings("d")])]
    assert kinds == [(Kind.FIXED, 1), (Kind.CEILINGS, 1)]
    (sessions,) = estimates([run("a"), run("b"), run("c"), ceilings("d"), ceilings("e")]).sessions
    assert sessions.comparisons == 1


def test_runs_that_do_not_agree_are_counted() -> None:
    (agreement,) = repeatability([run("a"), run("b", ratio=0.9), run("c", ratio=1.3)])
    assert (agreement.pairs, agreement.holding, agreement.zero) == (3, 0, 0)
    assert (agreement.changed, agreement.flipped) == (2, 2)


def test_pairs_with_a_run_that_the_policy_was_not_chosen_by_are_counted_too() -> None:
    def begun(made: RunResult, utc: str) -> RunResult:
        return dataclasses.replace(made, start=dataclasses.replace(made.start, started_utc=utc))

    before, after = "2026-11-27T15:59:59Z", "2026-11-27T16:00:01Z"
    older = [begun(run("a"), before), begun(run("b", ratio=0.9), before)]
    (agreement,) = repeatability([*older, begun(run("c"), after)])
    assert agreement.newer is not None
    assert (agreement.pairs, agreement.changed, agreement.holding) == (3, 2, 2)
    assert (agreement.newer.pairs, agreement.newer.changed, agreement.newer.holding) == (2, 1, 2)
    (seen,) = repeatability(older)
    assert seen.newer is None


def test_changes_between_verdicts_that_both_leave_a_claim_open_are_told_apart() -> None:
    calm = run("a", ratio=1.02)
    noisy = run("b", ratio=1.02, noise=0.3)
    decided = run("c", ratio=1.3)
    assert [each.experiments[0].claims[0].verdicts[SMALL.name].status for each in (calm, noisy, decided)] == [
        Status.INCONCLUSIVE, Status.RERUN_NOISE, Status.SUPPORTED,
    ]  # fmt: skip
    (agreement,) = repeatability([calm, noisy, decided])
    assert (agreement.changed, agreement.undecided) == (3, 1)


def test_runs_of_different_sources_are_no_repeats_unless_the_caller_knows_better() -> None:
    runs = [run("a", source="s"), run("b", source="t")]
    assert repeatability(runs) == ()
    assert repeatability(runs, one_code=True)[0].pairs == 1
    assert repeatability([run("a"), dataclasses.replace(run("b"), sweeps=run("b", device="cpu").sweeps)]) == ()


def test_runs_that_time_the_same_are_repeats_whatever_else_of_the_source_changed() -> None:
    one, other = (
        dataclasses.replace(each, start=dataclasses.replace(each.start, timed_digest="t"))
        for each in (run("a", source="s"), run("b", source="u"))
    )
    assert repeatability([one, other])[0].pairs == 1
    assert pooled([one, other])[0].runs == ("a", "b")
    assert repeatability([one, run("c", source="s")]) == (), "that run does not say what it timed"


def test_a_screening_is_no_repeat_of_the_run_that_follows_it() -> None:
    screened, sweeps = run("a"), run("b")
    fewer = dataclasses.replace(screened.plan.protocol, rounds=4, block=6)
    screened = dataclasses.replace(screened, plan=dataclasses.replace(screened.plan, protocol=fewer))
    assert repeatability([screened, sweeps]) == ()
    assert pooled([screened, sweeps]) == ()
    more = dataclasses.replace(sweeps.plan.protocol, sweeps=9)
    sweeps = dataclasses.replace(sweeps, plan=dataclasses.replace(sweeps.plan, protocol=more))
    assert repeatability([run("a"), sweeps])[0].pairs == 1


def test_a_run_with_further_cases_is_a_repeat_at_those_that_both_measured() -> None:
    """A verdict rests on the comparison's own evidence, whatever else was planned."""
    few, many = run("a"), run("b", ratio=0.9, large=True)
    (agreement,) = repeatability([few, many, run("c")])
    assert (agreement.pairs, agreement.changed, agreement.run_pairs) == (3, 2, 3)
    assert agreement.experiments == (PairsOf(experiment="doubling", run_pairs=3, pairs=3, changed=2),)
    assert agreement.lowest_changed_share == pytest.approx(0.2077, abs=1e-4)
    assert agreement.highest_changed_share == pytest.approx(0.9385, abs=1e-4)
    assert [(pool.place.case, len(pool.runs)) for pool in pooled([few, many])] == [(SMALL.name, 2)]
    assert repeatability([many, run("d", large=True)])[0].pairs == 2


def test_runs_of_one_source_are_counted_by_experiment() -> None:
    runs = [run("a"), run("b", large=True), run("c"), run("d", source="t")]
    (counted,) = runs_of_one_source(runs)
    assert (counted.runs, counted.most) == (4, 3)
    assert runs_of_one_source([run("a", device="cpu")]) == ()


def test_runs_on_a_cpu_say_nothing_of_a_gpu() -> None:
    assert repeatability([run("a", device="cpu"), run("b", device="cpu")]) == ()


def test_pooled_runs_have_the_students_interval_over_runs() -> None:
    ratios = (1.20, 1.21, 1.25)
    (pool,) = pooled([run(f"r{ratio * 100:.0f}", ratio, board=f"{ratio}") for ratio in ratios])
    logs = np.log(ratios)
    assert pool.ratio == pytest.approx(math.exp(logs.mean()), rel=1e-3)
    assert pool.low is not None
    assert pool.high is not None
    assert math.log(pool.high / pool.low) / 2 == pytest.approx(4.303 * logs.std(ddof=1) / math.sqrt(3), rel=0.05)
    assert (len(pool.runs), pool.boards, pool.place.case) == (3, 3, SMALL.name)


@pytest.mark.parametrize(
    ("ratios", "status"),
    [
        ((1.20, 1.21, 1.25), Status.SUPPORTED),
        ((1.001, 1.000, 0.999), Status.REFUTED),
        ((1.03, 1.04, 1.05), Status.INCONCLUSIVE),  # 95 % of the mean lies above 1.02, but not 98 %
        ((1.00, 1.02, 1.04), Status.INCONCLUSIVE),
    ],
)
def test_runs_on_three_boards_decide_by_their_own_scatter(ratios: tuple[float, ...], status: Status) -> None:
    together = [run(f"r{ratio * 1000:.0f}", ratio, board=f"{ratio}") for ratio in ratios]
    assert [each.status for each in pooled(together)] == [status]
    one_board = [run(f"r{ratio * 1000:.0f}", ratio) for ratio in ratios]
    assert [each.status for each in pooled(one_board)] == [None]


def test_what_boards_differ_by_is_estimated_apart_where_one_reached_its_power_limit() -> None:
    def product(name: str, *seen: dict[str, int]) -> RunResult:
        plan = busy(plan_of(name, experiments=[small_experiment()]))
        times = {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 24e-6}
        return judge_run(plan, seen_as(records_of(plan, times, noise=0.001, seed=sum(map(ord, name))), *seen))

    calm, limited = product("a", {}), product("b", {}, {"reasons": 0x4})
    for runs, floor in (((calm, calm), BUSY_SESSION_FLOOR), ((calm, limited), POWER_LIMITED_SESSION_FLOOR)):
        assert [each.floor for each in estimates(runs).sessions] == [floor]


def test_two_runs_have_a_mean_and_no_interval_and_one_has_nothing() -> None:
    (pool,) = pooled([run("a"), run("b")])
    assert (pool.low, pool.high) == (None, None)
    assert pooled([run("a"), run("b", source="t")]) == ()


def test_equal_runs_still_have_an_interval() -> None:
    (pool,) = pooled([run("a")] * 3)
    assert pool.low is not None
    assert pool.low < pool.ratio < (pool.high or 0)


def test_the_constants_are_estimated_from_repeats() -> None:
    """Sweeps of one run differ by 0.1 % and less; sessions by several per cent."""
    constants = estimates([run("a", 1.2), run("b", 1.25), run("c", 1.3)])
    assert constants.session_share is not None
    assert constants.session_share > 1
    (sessions,) = constants.sessions
    assert sessions.floor == SESSION_FLOOR
    assert sessions.seen_floor == FLOORS[-1]
    assert sessions.beyond_sweeps == pytest.approx(
        [np.log([1.2, 1.25, 1.3]).std(ddof=1)] * len(sessions.beyond_sweeps), rel=0.02
    )
    assert sessions.beyond_sweeps
    assert constants.draw_spread is None
    assert set(constants.sweep_deciles) == {"fixed"}
    assert list(constants.sweep_deciles["fixed"]) == sorted(constants.sweep_deciles["fixed"])
    calm = estimates([run("a"), run("b"), run("c")])
    assert calm.session_share is not None
    assert calm.session_share < 1
    assert calm.sessions[0].seen_floor < SESSION_FLOOR


def test_comparisons_that_are_compiled_in_each_of_nine_sweeps_are_counted() -> None:
    """Of these alone the simulation takes how often a compilation is slow."""
    runs = [compiled("a", True), compiled("b", False), compiled("c", True, sweeps=5), run("d")]
    constants = estimates(runs)
    assert [each.comparisons for each in constants.minorities] == [1, 1]
    slow = Minorities(comparisons=1, by_sweeps={2: 1}, apart_deciles=(0.05, 0.3))
    lines = list(describe_repeats((), dataclasses.replace(constants, minorities=(slow, constants.minorities[1]))))
    assert lines[-1] == (
        "  code compiled in each of nine sweeps, 1 comparisons: the baseline is slower in a few sweeps (1 in 2), by "
        "(deciles of the logarithm) 0.050 0.300"
    )


def test_without_repeats_there_is_nothing_to_estimate() -> None:
    assert estimates([run("a"), run("b", source="t")]).session_share is None


def test_draws_are_estimated_from_the_cells_that_were_drawn_once() -> None:
    runs = [dataclasses.replace(each, experiments=drawn(each)) for each in (run("a", 1.2), run("b", 1.4))]
    constants = estimates(runs)
    assert constants.draw_spread == pytest.approx(math.log(1.4 / 1.2) / math.sqrt(2), rel=0.02)


def drawn(judged: RunResult):
    return tuple(dataclasses.replace(each, drawn_once=frozenset({"plain"})) for each in judged.experiments)
