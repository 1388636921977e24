"""Comparisons whose truth is known, through the code that judges; and the table of many more that is kept."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import scipy

from lab.errors import EvidenceError
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.scatter import PROCESSES, Process, run_of
from lab.verdict.simulated import FALSE_REFUTED, FALSE_SUPPORTED, load, missed, save
from lab.verdict.simulation import JUST_ABOVE, JUST_BELOW, TRUTHS, SimulatedVerdicts, simulate


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_the_rules_err_no_more_often_than_they_may(process: Process) -> None:
    """At the threshold's edge; counts that would be surprising at the goal's own rate are failures."""
    for truth, limit in ((JUST_BELOW, FALSE_SUPPORTED), (JUST_ABOVE, FALSE_REFUTED)):
        row = simulate(process, truth, 360, seed=7)
        assert row.false <= scipy.stats.binom.ppf(0.9999, row.comparisons, limit)


@pytest.mark.parametrize(
    ("name", "truth", "least"),
    [("fixed kernels", 1.2, 0.98), ("torch.compile, fresh caches, 10 % apart", 1.2, 0.60),
     ("torch.compile, fresh caches, slow subjects", 1.2, 0.60),
     ("torch.compile, one cache", 5.5, 0.999), ("eager", 5.5, 0.999)],
)  # fmt: skip
def test_the_rules_decide_what_is_far_from_the_threshold(name: str, truth: float, least: float) -> None:
    process = next(process for process in PROCESSES if process.name == name)
    row = simulate(process, truth, 180, seed=7)
    assert row.supported >= scipy.stats.binom.ppf(0.0001, row.comparisons, least)


def test_to_stop_early_does_not_make_the_rules_err_more() -> None:
    """The same runs, all of nine sweeps: what stopping adds must be lost in chance."""
    process = PROCESSES[0]
    nine = dataclasses.replace(process, name="nine sweeps always", fresh_caches=True)
    stopped, always = (simulate(each, JUST_BELOW, 900, seed=7) for each in (process, nine))
    assert always.sweeps == 9 * always.comparisons
    assert stopped.supported <= scipy.stats.binom.ppf(
        0.9999, stopped.comparisons, (always.supported + 3) / always.comparisons
    )


def test_the_kept_table_is_of_these_rules_and_can_be_run_again() -> None:
    table = load()
    assert table.policy_version == POLICY_VERSION
    assert {(row.process, row.truth) for row in table.rows} == {(p.name, t) for p in PROCESSES for t in TRUTHS}
    named = {process.name: process for process in PROCESSES}
    products, limited = named["fixed kernels, products and attention"], named["fixed kernels, at the power limit"]
    for process, truth in ((PROCESSES[0], JUST_ABOVE), (products, 1.0), (limited, 1.0), (PROCESSES[-1], 1.2)):
        again = simulate(process, truth, table.checked, table.seed)
        assert again in table.first


@pytest.mark.parametrize("process", [each for each in PROCESSES if each.slow], ids=lambda each: each.name)
def test_where_a_few_compilations_are_slow_half_of_all_reach_the_true_ratio(process: Process) -> None:
    dice = np.random.default_rng(7)
    logs = np.array([run_of(process, 1.02, dice).mean(axis=1) for _ in range(4000)]) - math.log(1.02)
    assert abs((logs > 0).mean() - 0.5) < 0.01
    assert abs(logs.mean()) > 0.02, "the mean is another, on the side of the slow ones"
    assert math.copysign(1, logs.mean()) == math.copysign(1, process.slow[0])


def test_the_kept_table_meets_every_goal_but_one() -> None:
    assert missed(load().rows) == ("eager at 5.5×: 11999 of 12000 are decided",)


def test_a_table_that_misses_a_goal_says_where() -> None:
    row = SimulatedVerdicts(process="fixed kernels", truth=1.2, comparisons=100, supported=90, refuted=0, sweeps=500)
    wrong = dataclasses.replace(row, truth=JUST_BELOW, supported=2)
    assert missed([row, wrong]) == (
        "fixed kernels at 1.2×: 90 of 100 are decided", "fixed kernels at 1.0199×: 2 of 100 are wrong",
    )  # fmt: skip
    assert missed([dataclasses.replace(row, supported=99), dataclasses.replace(wrong, supported=1)]) == ()


def test_a_table_of_other_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "simulation.json"
    with pytest.raises(EvidenceError, match="lab simulate"):
        load(path)
    save(dataclasses.replace(load(), policy_version=3), path)
    with pytest.raises(EvidenceError, match="is of policy 3"):
        load(path)
