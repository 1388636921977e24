"""A disk that is full, or that nobody may write: a clear line, no traceback, and nothing that was measured is lost."""

from pathlib import Path

import pytest
from commands import doubling, lab, lab_from_scratch, last_line, mounts
from warm_workers import Forks

from lab.evidence import journal
from lab.evidence.record import Cell, RunFinish

MEASURE = ("run", "--run-id", "full", "--experiment", "pair", "--device", "cpu", "--sweeps", "1")
STAGES = {
    "track": "the tracking store",
    "preview": "File too large",
    "finish": "nothing can be added to it",
}


def test_a_run_on_a_full_disk_ends_with_a_line_and_the_same_command_goes_on(tmp_path: Path, forks: Forks) -> None:
    message = last_line(lab(tmp_path, *MEASURE, file_bytes=8_000, forks=forks))
    assert "journal.jsonl: nothing can be added to it (File too large). What it holds is kept" in message
    path = tmp_path / "runs" / "full" / journal.NAME
    before = journal.read(path)
    assert before.damages == ()
    assert before.intact_bytes == path.stat().st_size

    done = lab(tmp_path, *MEASURE, forks=forks)

    assert done.returncode == 0, done.stderr
    after = journal.read(path)
    assert after.records[: len(before.records)] == before.records
    assert isinstance(after.records[-1], RunFinish)
    assert sum(isinstance(record, Cell) for record in after.records) == 4


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_on_a_full_disk_ends_with_a_line_and_leaves_the_run_as_it_was(tmp_path: Path, stage: str) -> None:
    directory = doubling(tmp_path, finished=stage != "finish")
    before = (directory / journal.NAME).read_bytes()
    because = ("--because", "its box is gone") if stage == "finish" else ()
    message = last_line(lab(tmp_path, stage, "night-3", *because, file_bytes=100))
    assert STAGES[stage] in message
    assert (directory / journal.NAME).read_bytes() == before


def test_publishing_on_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    doubling(tmp_path)
    assert "File too large; what was measured is kept" in last_line(
        lab(tmp_path, "publish", "night-3", file_bytes=1000)
    )
    assert list((tmp_path / "project" / "experiments" / "evidence").iterdir()) == []


def test_a_full_disk_under_the_output_of_a_command_is_reported(tmp_path: Path) -> None:
    doubling(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = lab(tmp_path, "judge", "night-3", stdout=full)
    assert "No space left on device" in last_line(done)


@pytest.mark.parametrize(
    "arguments",
    [MEASURE, ("track", "night-3"), ("preview", "night-3"), ("finish", "night-3", "--because", "its box is gone")],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_that_nobody_may_write_is_named(tmp_path: Path, arguments: tuple[str, ...], forks: Forks) -> None:
    mounts()
    directory = doubling(tmp_path, finished=arguments[0] != "finish")
    before = (directory / journal.NAME).read_bytes()
    message = last_line(lab(tmp_path, *arguments, frozen=tmp_path, forks=forks if arguments == MEASURE else None))
    assert str(tmp_path) in message
    assert "Read-only file system" in message
    assert (directory / journal.NAME).read_bytes() == before


def test_judging_needs_nothing_to_be_written(tmp_path: Path) -> None:
    mounts()
    doubling(tmp_path)
    done = lab(tmp_path, "judge", "night-3", frozen=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "doubling-64x128-float32" in done.stdout


def test_a_terminal_that_lacks_signs_ends_no_command(tmp_path: Path) -> None:
    doubling(tmp_path)
    done = lab_from_scratch(tmp_path, "judge", "night-3", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1.010\\xd7 [" in done.stdout
