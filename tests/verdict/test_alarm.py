"""Alarms: each case against its own past on its board, through the command line; and how often they err."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from factory import FAST_BEATS_PLAIN, SMALL, machine, plan_of, records_of, small_experiment, write_run

from lab.cli import main
from lab.evidence.record import RunStart
from lab.verdict.alarm import FEWEST_RUNS, Night, followed, past_of
from lab.verdict.alarm_simulation import (
    ALARM_PROCESSES,
    DISTURBED,
    FALSE_ALARMS,
    FOUND,
    NO_SERIES,
    PUBLISHED,
    STEP,
    alarm_row,
    chance_of_finding,
    simulate_alarms,
)
from lab.verdict.scatter import PROCESSES

QUIET = [0] * (FEWEST_RUNS + 2)  # nights on which the subject takes no per cent longer


@pytest.fixture
def nightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    return tmp_path


def measure(folder: Path, slower: Sequence[float], boards: str = "", sweeps: int = 5) -> list[str]:
    """A run each night, with the subject slower by so many per cent; `boards`: a letter a night. Returns the paths."""
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))
    experiment = small_experiment(claims=(claim,), headlines=(claim,))
    for number, per_cent in enumerate(slower):
        plan = plan_of(f"night-{number}", experiments=[experiment], include=(), sweeps=sweeps)
        times = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6 * (1 + per_cent / 100)}
        board = machine(gpu_id=12 * (boards[number] if boards else "a"))
        records = [
            dataclasses.replace(record, started_utc=f"2026-01-{number + 1:02}T03:00:00Z")
            if isinstance(record, RunStart) else record
            for record in records_of(plan, times, noise=0.002, seed=number, on=board)
        ]  # fmt: skip
        write_run(folder / plan.run_id, plan, records)
    return [str(folder / f"night-{number}") for number in range(len(slower))]


def alarms(capsys: pytest.CaptureFixture[str], names: list[str]) -> tuple[int, list[str]]:
    """Exit status, and the lines about single cases."""
    status = main(["alarms", *names])
    return status, [line for line in capsys.readouterr().out.split("\n")[1:] if line.startswith("  ")]


def test_a_slowdown_is_told_when_the_next_run_confirms_it(nightly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = measure(nightly, [*QUIET, 4, 4])
    status, lines = alarms(capsys, names)
    assert status == 1
    (line,) = lines
    assert line.startswith("  slower  doubling, fast-beats-plain, ")
    assert "1.50× → 1.44×" in line
    assert line.endswith(" since night-8, confirmed by night-9, against 8 runs before")
    status, lines = alarms(capsys, names[:-1])
    assert status == 0
    (line,) = lines
    assert line.startswith("  suspect  doubling, fast-beats-plain, ")
    assert line.endswith(": night-8 deviates; run it once more to know")


def test_one_slow_night_is_none_and_after_a_change_the_past_begins_anew(
    nightly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alarms(capsys, measure(nightly, [*QUIET, 4, 0])) == (0, [])
    (nightly / "b").mkdir()
    status, lines = alarms(capsys, measure(nightly / "b", [*QUIET, *[4] * 10, 0, 0]))
    assert status == 0, "it became faster again"
    assert [line.split()[0] for line in lines] == ["slower", "faster"]
    assert "since night-18, confirmed by night-19, against 10 runs before" in lines[1]


def test_a_board_is_compared_with_itself_alone(nightly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slower_board = [4 if board == "b" else 0 for board in "aaaaaaabbaabbbbbb"]
    assert alarms(capsys, measure(nightly, slower_board, "aaaaaaabbaabbbbbb")) == (0, [])


def test_runs_are_taken_in_the_order_of_their_start_and_unfinished_ones_left_out(
    nightly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = measure(nightly, [0, 0])
    lines = (Path(names[1]) / "journal.jsonl").read_text().splitlines(keepends=True)
    (Path(names[1]) / "journal.jsonl").write_text("".join(lines[:-1]))
    assert main(["alarms", *names]) == 0
    assert capsys.readouterr().out.startswith("1 run, the newest night-0: ")
    assert main(["alarms", names[1]]) == 2
    assert "none of these runs has ended" in capsys.readouterr().err


def test_runs_without_a_speedup_are_told_with_where_the_reason_stands(
    nightly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alarms", *measure(nightly, [0, 0], sweeps=2)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 runs, the newest night-1: no speed-up in them can be followed; `lab judge night-1` says")


def test_of_all_runs_those_that_cannot_be_judged_are_left_out_with_the_reason(
    nightly: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = SimpleNamespace(runs=nightly, evidence=nightly / "evidence")
    monkeypatch.setattr("lab.commands.runs.project", lambda: places)
    _, begun = map(Path, measure(nightly, [0, 0]))
    first_line = (begun / "journal.jsonl").read_text().splitlines(keepends=True)[0]
    (begun / "journal.jsonl").write_text(first_line)
    assert main(["alarms"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1 run, the newest night-0: ")
    assert printed.err == "left out: run 'night-1': its journal holds no sweep yet; measure it first\n"
    assert main(["alarms", str(begun)]) == 2, "one that was named is not left out"


def test_few_runs_are_no_past_and_more_of_them_find_smaller_steps() -> None:
    nights = [Night(run=str(number), ratio=1.2 + 0.004 * (-1) ** number, low=1.19, high=1.21) for number in range(40)]
    assert past_of(nights[: FEWEST_RUNS - 1]) is None
    few, many = past_of(nights[:FEWEST_RUNS]), past_of(nights)
    assert few
    assert many
    assert (few.runs, many.runs) == (FEWEST_RUNS, 30)
    assert few.step_found > many.step_found > 0.015


def test_one_disturbed_night_neither_alarms_with_a_mild_one_nor_hides_a_change_later() -> None:
    """The night after it lies beyond the limit of a single run, as one in ten does."""
    past = past_of(nights_at(1.2, 12))
    assert past
    mild = 1.2 * 0.994
    disturbed = [*nights_at(1.2, 12), *nights_at(1.1, 1), *nights_at(mild, 1)]
    assert past.deviates(disturbed[-1]) == past.deviates(disturbed[-2]) == -1
    assert not followed(NO_SERIES, disturbed).alarms
    slower = [*disturbed, *nights_at(1.2, 8), *nights_at(1.165, 2)]
    (alarm,) = followed(NO_SERIES, slower).alarms
    assert (alarm.direction, alarm.past_runs) == ("slower", len(slower) - 3), "all but the disturbed one"
    assert alarm.before == pytest.approx(1.2, abs=0.001)


def nights_at(ratio: float, count: int) -> list[Night]:
    wobbles = (1 + 0.002 * (-1) ** number for number in range(count))
    return [Night(run="", ratio=ratio * wobble, low=ratio * 0.995, high=ratio * 1.005) for wobble in wobbles]


def test_the_published_noise_seldom_alarms_and_seldom_hides_a_step() -> None:
    """The first series that `lab simulate --alarms` counts; its goals leave room for so few."""
    asked = [process for process in ALARM_PROCESSES if process.name in (PUBLISHED, DISTURBED)]
    rows = {process.name: alarm_row(process, 60, 2026) for process in asked}
    row = rows[PUBLISHED]
    assert row.false_alarms <= 1 + 10 * FALSE_ALARMS * row.case_nights
    assert row.steps_found >= (FOUND - 0.05) * row.series
    assert row.steps_found <= row.findable + 3, "hardly more than a rule finds that knows the past"
    assert rows[DISTURBED].steps_found >= (FOUND - 0.05) * row.series, "nights that deviate alone are no part of a past"


def test_every_process_of_a_verdict_is_simulated_and_one_with_disturbed_nights() -> None:
    counted = [row.process for row in simulate_alarms(1, 2026)]
    assert counted == [*(process.name for process in PROCESSES), DISTURBED]


def test_what_any_rule_could_find_is_the_power_of_the_mean_of_two_nights() -> None:
    """Counted on drawn nights: means beyond the limit that one quiet night in 10,000 exceeds."""
    dice = np.random.default_rng(7)
    for deviation, roughly in ((0.004, 1.0), (0.011, 0.5), (0.04, 0.0)):
        means = dice.normal(0, deviation, (2, 1_000_000)).mean(0)
        limit = np.quantile(means, 1 - FALSE_ALARMS / 2)
        counted = float((means + math.log1p(STEP) > limit).mean())
        assert chance_of_finding(deviation) == pytest.approx(counted, abs=0.03)
        assert counted == pytest.approx(roughly, abs=0.1)
