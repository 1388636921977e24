"""A winner is the fastest of those whose win is beyond noise, and often there is none."""

from collections.abc import Mapping
from typing import Any

import pytest
from factory import plan_of, records_of

from lab.definition.catalogue import choose_experiments
from lab.definition.search import RULE
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run
from lab.verdict.search import Search, searches

(EXPERIMENT,) = choose_experiments(["tune-rmsnorm-4096x4096-float16-of-0-1-2"])
FIRST, SECOND, THIRD = (profile.name for profile in EXPERIMENT.profiles[1:])


def search(seconds: Mapping[Any, float], **how: Any) -> Search:
    plan = plan_of(experiments=[EXPERIMENT], sweeps=how.pop("sweeps", 5))
    (result,) = searches(judge_run(plan, records_of(plan, seconds, **how)).experiments[0])
    return result


def test_the_fastest_supported_configuration_wins() -> None:
    result = search({RULE: 24e-6, FIRST: 23e-6, SECOND: 22e-6, THIRD: 30e-6})
    assert result.winner is not None
    assert result.winner.profile.name == SECOND
    assert [trial.profile.name for trial in result.trials] == [SECOND, FIRST, THIRD]
    assert (result.winner.sweeps_ahead, result.sweeps_fastest) == (5, 5)
    assert result.trials[-1].sweeps_ahead == 0
    assert result.rule.latency is not None


@pytest.mark.parametrize("gain", [1.0, 1.01, 1.015], ids=str)
def test_within_two_per_cent_the_rule_stays(gain: float) -> None:
    result = search({RULE: 24e-6, FIRST: 24e-6 / gain, SECOND: 24.5e-6, THIRD: 25e-6})
    assert result.winner is None
    assert result.sweeps_fastest == 0


def test_a_win_in_noisy_samples_is_none() -> None:
    assert search({RULE: 24e-6, FIRST: 23e-6, SECOND: 24e-6, THIRD: 24e-6}, noise=0.2).winner is None


def test_the_best_of_many_must_be_clearer_than_a_claim_alone() -> None:
    result = search({RULE: 24e-6, FIRST: 24e-6 / 1.025, SECOND: 24.5e-6, THIRD: 25e-6})
    assert result.trials[0].verdict.status is Status.SUPPORTED
    assert result.winner is None


def test_one_sweep_makes_no_winner() -> None:
    assert search({RULE: 24e-6, FIRST: 12e-6, SECOND: 24e-6, THIRD: 24e-6}, sweeps=1).winner is None


def test_a_configuration_that_fails_or_is_wrong_cannot_win_and_is_shown() -> None:
    result = search(
        {RULE: 24e-6, SECOND: 23e-6},
        outcomes={FIRST: ("failed", "OutOfResources: shared memory"), THIRD: ("wrong", "it is off")},
    )
    assert result.winner is not None
    assert result.winner.profile.name == SECOND
    outcomes = {trial.profile.name: trial.cell.outcome for trial in result.trials}
    assert outcomes == {SECOND: "measured", FIRST: "failed", THIRD: "wrong"}


def test_where_nothing_was_measured_nothing_wins() -> None:
    result = search({}, outcomes=dict.fromkeys((RULE, FIRST, SECOND, THIRD), ("failed", "no")))
    assert result.winner is None
    assert all(trial.ratio == 0 for trial in result.trials)
