"""The page on trust says how often a repeated run agrees, and pages of claims what several runs say together."""

import dataclasses

from factory import FAST_BEATS_PLAIN, SMALL, machine, plan_of, records_of, small_experiment

from lab.verdict.pooled import pooled
from lab.verdict.repeatability import HOLDING, repeatability
from lab.verdict.results import RunResult, judge_run
from lab.verdict.validity import study
from lab.website.data.judged import Judged, judged_run
from lab.website.data.published_trust import trust_data
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.experiment import experiment_page
from lab.website.pages.pooled import pooled_of, pooled_sentence
from lab.website.pages.repeatability import repeatability_table

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
CLAIM = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))


def run_of(run_id: str, fast: float = 40e-6, seed: int = 1, gpu: str = "NVIDIA H200", board: str = "") -> RunResult:
    plan = plan_of(run_id, experiments=[small_experiment(claims=(CLAIM,), headlines=(CLAIM,))], include=())
    times = {**TIMES, (SMALL.name, "fast"): fast}
    on = machine(gpu=gpu, gpu_id=board or run_id)
    return judge_run(plan, records_of(plan, times, noise=0.001, seed=seed, on=on, source="f" * 64))


def shown(run: RunResult) -> Judged:
    return judged_run(run, digest="ab" * 32)[0]


def text_of(sentence: Sentence) -> str:
    return "".join(part.text if isinstance(part, Figure) else part for part in sentence)


def trust_of(*runs: RunResult) -> dict:
    return trust_data(study(runs), runs)


ALIKE = tuple(run_of(name, seed=number) for number, name in enumerate(("a", "b", "c")))


def test_repeated_runs_are_counted_by_gpu_model_and_met_goals_are_said_to_be() -> None:
    other = run_of("d", gpu="NVIDIA H100 80GB HBM3")
    table = repeatability_table(Ledger(trust_of(*ALIKE, other)))
    (row,) = table.rows
    (counted,) = repeatability(ALIKE)
    assert [text_of(cell) for cell in row[:5]] == ["NVIDIA H200", "all other claims", "3", "3", "3"]
    assert counted.holding_share >= HOLDING
    assert text_of(row[-1]) == "none"
    assert text_of(table.summary) == "Every goal is met."


def test_goals_that_are_missed_are_named() -> None:
    table = repeatability_table(Ledger(trust_of(run_of("a"), run_of("b", fast=70e-6))))
    (row,) = table.rows
    assert text_of(row[-1]) == "intervals too narrow, differences without zero, verdicts changed, flips"
    assert text_of(table.summary).startswith("Goals are missed. NVIDIA H200, all other claims: intervals too narrow")


def test_without_a_repeat_the_table_has_no_rows() -> None:
    table = repeatability_table(Ledger(trust_of(run_of("a"))))
    assert (table.rows, table.summary) == ((), ())


def test_a_claim_shows_what_its_runs_say_together() -> None:
    trust = trust_of(*ALIKE)
    (found,) = pooled(ALIKE)
    item = shown(ALIKE[-1])
    said = pooled_sentence(trust, item, item.plan.claims[0], SMALL.name)
    assert text_of(said).startswith(("3 runs on 3 boards: 1.49", "3 runs on 3 boards: 1.50"))
    figures = [part for part in said if isinstance(part, Figure)]
    assert [figure.value for figure in figures[:2]] == [3, 3]
    assert figures[2].value == Ledger(trust).value(*figures[2].source.split("/")[1:])
    assert abs(figures[2].value / found.ratio - 1) < 1e-3
    (claim,) = experiment_page(item, [], trust=pooled_of(trust, item.plan.name)).claims
    assert claim.rows[0].pooled == said


def test_runs_of_one_board_and_runs_on_another_model_are_told_apart() -> None:
    one_board = [run_of(name, seed=number, board="one") for number, name in enumerate(("a", "b", "c"))]
    item = shown(one_board[-1])
    claim = item.plan.claims[0]
    assert " runs on 1 board: " in text_of(pooled_sentence(trust_of(*one_board), item, claim, SMALL.name))
    elsewhere = shown(run_of("a", gpu="NVIDIA H100 80GB HBM3"))
    assert pooled_sentence(trust_of(*one_board), elsewhere, claim, SMALL.name) == ()


def test_two_runs_and_a_run_that_is_not_among_the_pooled_ones_show_nothing() -> None:
    trust = trust_of(*ALIKE)
    later = shown(run_of("later"))
    assert pooled_sentence(trust, later, later.plan.claims[0], SMALL.name) == ()
    assert pooled_sentence(trust_of(*ALIKE[:2]), shown(ALIKE[0]), later.plan.claims[0], SMALL.name) == ()
    assert pooled_of(trust, "another-experiment") == {}
