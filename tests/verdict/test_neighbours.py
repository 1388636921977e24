"""Whether neighbours disturb a GPU: each board against itself, and by the time at which its processes ran."""

import dataclasses
from collections.abc import Sequence

import pytest
from factory import SMALL, machine, plan_of, records_of, small_experiment

from lab.evidence.record import Record, SweepFinish, SweepStart
from lab.validity_report import describe_neighbours
from lab.verdict.judge_run import judge_run
from lab.verdict.neighbours import neighbours, processes_beside
from lab.verdict.results import RunResult
from lab.verdict.validity import study
from lab.website.data.judged import judged_run
from lab.website.data.published_trust import trust_data
from lab.website.pages.measure_again import live_command
from lab.website.pages.trust import trust_page
from lab.website.table import plain

SWEEPS = 12
PLAN = plan_of("n", experiments=[small_experiment()], sweeps=SWEEPS)


def moment(minute: int, second: int = 0) -> str:
    return f"2026-01-02T03:{minute:02}:{second:02}Z"


def measured(
    boards: Sequence[str], *, at_once: bool, slower: float = 1.0, own: Sequence[float] = (), noise: float = 0.002
) -> RunResult:
    """A run whose sweeps boards took in turn. `at_once`: so many sweeps as there are boards share a minute, in which
    times are `slower` times as long. `own`: what each board's times are longer by."""
    records: list[Record] = []
    for number, board in enumerate(boards):
        factor = slower * (own[number] if own else 1.0)
        times = {(SMALL.name, name): 20e-6 * factor for name in ("fast", "plain")}
        of_board = records_of(PLAN, times, noise=noise, seed=number + 10 * at_once, on=machine(gpu_id=board))
        if not records:
            records.append(dataclasses.replace(of_board[0], several_gpus=True))
        for record in of_board:
            sweep = getattr(record, "sweep", -1)
            if sweep % len(boards) == number and sweep >= 0:
                minute = sweep // len(boards) if at_once else sweep
                if isinstance(record, SweepStart):
                    record = dataclasses.replace(record, started_utc=moment(minute))
                elif hasattr(record, "finished_utc"):
                    record = dataclasses.replace(record, finished_utc=moment(minute + 1))
                records.append(record)
    return judge_run(PLAN, records)


def test_processes_at_one_time_on_different_boards_are_neighbours() -> None:
    assert len(processes_beside(measured("ab", at_once=True))) == SWEEPS
    assert processes_beside(measured("ab", at_once=False)) == frozenset()  # each begins as the one before it ends
    assert processes_beside(measured("a", at_once=True)) == frozenset()


def test_a_process_that_ended_early_was_a_neighbour_until_its_last_cell() -> None:
    run = measured("ab", at_once=True)
    kept = tuple(record for record in run.records if not isinstance(record, SweepFinish))
    assert len(processes_beside(dataclasses.replace(run, records=kept))) == SWEEPS


def test_what_neighbours_cost_is_told_whatever_boards_differ_by() -> None:
    own = (1.0, 1.05, 0.97)
    alone = measured("abc", at_once=False, own=own)
    shift, *_ = neighbours([alone, measured("abc", at_once=True, own=own, slower=1.02)])
    assert (shift.gpu, shift.scope, shift.boards, shift.cells) == (machine().gpu, "device_cold", 3, 6)
    assert shift.low is not None
    assert shift.high is not None
    assert shift.low < 0.02 < shift.high
    assert shift.shift == pytest.approx(0.02, abs=0.002)
    assert "device_cold: neighbours change times by +" in next(describe_neighbours([shift]))


def test_neighbours_that_cost_nothing_leave_an_interval_around_nothing() -> None:
    shift, *_ = neighbours([measured("abcd", at_once=False), measured("abcd", at_once=True)])
    assert shift.low is not None
    assert shift.high is not None
    assert shift.low < 0 < shift.high
    assert shift.high - shift.low < 0.01


def test_scatter_beside_neighbours_is_told_apart() -> None:
    shift, *_ = neighbours([measured("ab", at_once=False, noise=0.002), measured("ab", at_once=True, noise=0.05)])
    assert shift.scatter_beside > 5 * shift.scatter_alone


def test_one_board_has_no_interval_and_a_run_alone_says_nothing() -> None:
    assert neighbours([measured("ab", at_once=True)]) == ()
    shift, *_ = neighbours([measured("a", at_once=False), measured("ab", at_once=True)])
    assert (shift.boards, shift.low, shift.high) == (1, None, None)


def test_the_page_on_trust_shows_what_neighbours_cost() -> None:
    runs = [measured("abcd", at_once=False), measured("abcd", at_once=True, slower=1.02)]
    alone = trust_page(trust_data(study(runs[:1]), runs[:1]))
    assert "neighbours" not in [part["anchor"] for part in alone["folded"]]
    page = trust_page(trust_data(study(runs), runs))
    (part,) = [part for part in page["folded"] if part["anchor"] == "neighbours"]
    row = part["table"].rows[0]  # one for each way of timing
    texts = [plain(cell) for cell in row.cells]
    assert texts[:2] == [machine().gpu, "Cold cache"]
    assert 1.8 < float(texts[2].removeprefix("+").removesuffix(" %")) < 2.2
    assert texts[-2:] == ["4", "8"]


def test_boards_that_were_measured_one_way_only_do_not_count_as_scatter() -> None:
    runs = [measured("ab", at_once=False), measured("ab", at_once=True)]
    (with_others, *_), (shift, *_) = neighbours([*runs, measured("cd", at_once=False, noise=0.05)]), neighbours(runs)
    assert with_others == shift


def test_runs_of_another_source_are_not_compared() -> None:
    alone = measured("ab", at_once=False)
    start = dataclasses.replace(alone.start, source_digest="0" * 64)
    assert neighbours([dataclasses.replace(alone, start=start), measured("ab", at_once=True)]) == ()


@pytest.mark.parametrize(("at_once", "options"), [(True, "--gpus 2"), (False, "--gpus 2 --in-turn")])
def test_such_a_run_is_measured_again_on_as_many_gpus(at_once: bool, options: str) -> None:
    (item,) = judged_run(measured("ab", at_once=at_once), digest="d" * 64)
    assert live_command(item).endswith(f" --sweeps {SWEEPS} {options}")
    assert item.machine["gpu_id"] == "a+b"
