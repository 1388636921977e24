"""`lab finish` ends a run whose machine is gone: what it measured is kept, and what is missing is shown."""

import re
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run

from lab.cli import main
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Cell, RunFinish, RunStart
from lab.supervisor.cut_short import cut_short
from lab.supervisor.lock import run_lock
from lab.verdict.judge_run import load_run

WHY = "the lease of the GPU box ended"


def broken_off(folder: Path, *, cells: int = 7) -> Path:
    """A run that ended after some cells."""
    plan = plan_of(sweeps=3)
    records = []
    for record in records_of(plan, {}, finished=False):
        records.append(record)
        cells -= isinstance(record, Cell)
        if cells == 0:
            break
    return write_run(folder / "run", plan, records)


def test_what_was_measured_stands_and_the_reason_is_on_record(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    before = journal.read(directory / journal.NAME).records
    last = cut_short(directory, f"  {WHY} ")
    records = journal.read(directory / journal.NAME).records
    assert records[:-1] == before
    finish = records[-1]
    assert isinstance(finish, RunFinish)
    assert (finish.cut_short, finish.finished_utc, finish.wall_seconds) == (WHY, last, None)
    assert last == max(record.finished_utc for record in before if isinstance(record, Cell))


def test_a_cut_run_is_judged_as_far_as_it_came(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    cut_short(directory, WHY)
    run = load_run(directory)
    assert run.finished_utc
    outcomes = {cell.outcome for experiment in run.experiments for cell in experiment.cells.values()}
    assert "unfinished" in outcomes
    assert {str(claim.status) for experiment in run.experiments for claim in experiment.claims} == {"no-evidence"}


def test_a_torn_last_line_is_dropped_first(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    with (directory / journal.NAME).open("ab") as torn:
        torn.write(b'{"half')
    cut_short(directory, WHY)
    assert journal.read(directory / journal.NAME).damages == ()


@pytest.mark.parametrize("reason", ["", "   ", "two\nlines", "x" * 201])
def test_a_reason_is_one_line(tmp_path: Path, reason: str) -> None:
    directory = broken_off(tmp_path)
    before = (directory / journal.NAME).read_bytes()
    with pytest.raises(RunError, match="accepted is one line of 1 to 200 characters"):
        cut_short(directory, reason)
    assert (directory / journal.NAME).read_bytes() == before


def test_a_finished_run_is_not_cut_short(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    cut_short(directory, WHY)
    with pytest.raises(RunError, match="the run is finished, so it cannot be cut short"):
        cut_short(directory, WHY)


def test_a_run_that_is_being_measured_is_left_alone(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    with run_lock(directory), pytest.raises(RunError, match="another process is measuring this run"):
        cut_short(directory, WHY)


def test_where_nothing_was_measured_there_is_nothing_to_keep(tmp_path: Path) -> None:
    plan = plan_of(sweeps=3)
    begun = [record for record in records_of(plan, {}, finished=False) if isinstance(record, RunStart)]
    directory = write_run(tmp_path / "run", plan, begun)
    with pytest.raises(RunError, match="no cell of it was measured"):
        cut_short(directory, WHY)
    with pytest.raises(RunError, match=re.escape(f"no {journal.NAME} in it")):
        cut_short(tmp_path, WHY)


def test_a_damaged_journal_is_not_added_to(tmp_path: Path) -> None:
    directory = broken_off(tmp_path)
    path = directory / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[1:]]))
    with pytest.raises(RunError, match="line 2: "):
        cut_short(directory, WHY)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = broken_off(tmp_path)
    assert main(["finish", str(directory), "--because", WHY]) == 0
    assert "whose last cell was measured at" in capsys.readouterr().err
