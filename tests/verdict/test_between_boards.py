"""A run on several boards of one GPU model: whose records count, how boards are named, and how much they differ."""

import dataclasses
import math
import random
from collections.abc import Mapping

import pytest
from factory import SMALL, machine, plan_of, records_of, small_experiment

from lab.evidence.record import LostGpu, Machine, Record, RunStart, unlike
from lab.validity_report import describe_boards
from lab.verdict.alarm import nights_of
from lab.verdict.between_boards import board_spreads
from lab.verdict.judge_run import judge_run
from lab.verdict.pooled import pooled
from lab.verdict.results import RunResult
from lab.verdict.validity import study

PLAN = plan_of("several", experiments=[small_experiment()], sweeps=12)


def on(board: str, **changes: object) -> Machine:
    return machine(gpu_id=board, environment={"CUDA_VISIBLE_DEVICES": str("abcd".find(board))}, **changes)


def spread_records(
    ratios: Mapping[str, float], *, noise: float = 0.001, allowed: bool = True, **changes: object
) -> list[Record]:
    """A journal whose sweeps boards took in turn, each with a ratio of its own."""
    boards = list(ratios)
    times = {
        board: {(SMALL.name, "fast"): 20e-6, (SMALL.name, "plain"): 20e-6 * ratio} for board, ratio in ratios.items()
    }
    of_board = {board: records_of(PLAN, times[board], noise=noise, on=on(board, **changes)) for board in boards}
    first = of_board[boards[0]]
    start = dataclasses.replace(first[0], several_gpus=allowed)
    return [
        start,
        *(
            record
            for sweep in range(PLAN.protocol.sweeps)
            for record in of_board[boards[sweep % len(boards)]]
            if getattr(record, "sweep", None) == sweep
        ),
        LostGpu(gpu_id=boards[0], during="sweep 1", reason="it was lost", lost_utc="2026-01-02T03:04:05Z"),
        LostGpu(gpu_id=boards[0], during="sweep 1", reason="it was lost", lost_utc="2026-01-02T03:04:05Z"),
        # The last line seals the journal, and is not read here.
    ]


def judged(ratios: Mapping[str, float], **how: object) -> RunResult:
    return judge_run(PLAN, spread_records(ratios, **how))


def test_sweeps_of_all_boards_count_where_the_run_was_begun_on_several() -> None:
    run = judged({"a": 1.2, "b": 1.2})
    assert run.damages == ()
    assert run.boards == ("a", "b")
    ((claim,),) = [experiment.claims for experiment in run.experiments]
    assert claim.verdicts[SMALL.name].speedup is not None
    assert len(claim.verdicts[SMALL.name].speedup.sweep_ratios) == PLAN.protocol.sweeps


def test_sweeps_of_another_board_do_not_count_in_a_run_on_one() -> None:
    run = judged({"a": 1.2, "b": 1.2}, allowed=False)
    assert run.boards == ("a",)
    assert "measured on another machine than the run began on: gpu_id was 'a', is 'b'" in run.damages[0].reason


@pytest.mark.parametrize(
    "changes",
    [{"gpu": "NVIDIA A100"}, {"driver": "1"}, {"power_limit_watts": 300.0}, {"cpu": "Another"}, {"ecc": "off"}],
)
def test_boards_of_a_run_differ_in_nothing_but_which_they_are(changes: dict[str, object]) -> None:
    assert unlike(on("a"), on("b"), several_gpus=True) == []
    assert len(unlike(on("a"), on("b", **changes), several_gpus=True)) == 1
    assert unlike(on("a"), on("b"))[0] == "gpu_id was 'a', is 'b'"


def test_other_variables_than_the_choice_of_the_gpu_must_be_alike() -> None:
    other = machine(gpu_id="b", environment={"CUDA_VISIBLE_DEVICES": "1", "CUDA_LAUNCH_BLOCKING": "1"})
    assert unlike(on("a"), other, several_gpus=True) == [
        "environment was {}, is {'CUDA_LAUNCH_BLOCKING': '1'}"
    ]  # fmt: skip


def test_a_run_on_several_boards_is_followed_as_one_on_these_boards_and_counts_each() -> None:
    both, one = judged({"b": 1.2, "a": 1.2}), judged({"a": 1.2})
    assert {series.board for series, _ in nights_of(both)} == {"a+b"}
    assert {series.board for series, _ in nights_of(one)} == {"a"}
    assert pooled([both, one])[0].boards == 2
    assert study([both, one]).repeats[0].gpus == 2


def test_boards_that_differ_widen_the_interval() -> None:
    alike, different = (judged({"a": 1.2, "b": ratio}) for ratio in (1.2, 1.26))
    widths = [run.experiments[0].compare(SMALL.name, "fast", "plain").half_width for run in (alike, different)]
    assert widths[1] > 3 * widths[0]


def test_boards_that_differ_are_told_from_sweeps_that_scatter() -> None:
    (alike,) = board_spreads([judged({"a": 1.2, "b": 1.2, "c": 1.2})])
    (different,) = board_spreads([judged({"a": 1.2, "b": 1.224, "c": 1.1765})])
    assert (different.gpu, different.boards, different.comparisons) == (machine().gpu, 3, 1)
    assert different.between == pytest.approx(0.02, rel=0.1)  # the standard deviation of 0, 2 and -2 %
    assert alike.between < 0.0005
    assert different.within == pytest.approx(alike.within, rel=0.5)
    assert "3 boards beside one another in runs, 1 claims at cases" in next(describe_boards([different]))


def test_the_estimate_finds_the_spread_that_boards_were_given() -> None:
    """Many small runs together, each on boards of its own."""
    dice = random.Random(5)
    runs = [judged({b: 1.2 * math.exp(dice.gauss(0, 0.01)) for b in "abcd"}) for _ in range(40)]
    (spread,) = board_spreads(runs)
    assert spread.comparisons == 40
    assert spread.between == pytest.approx(0.01, rel=0.25)


def test_runs_on_one_board_say_nothing_of_boards() -> None:
    assert board_spreads([judged({"a": 1.2})]) == ()


def test_an_older_run_is_one_on_one_gpu() -> None:
    start = records_of(PLAN, {})[0]
    assert isinstance(start, RunStart)
    assert start.several_gpus is False
