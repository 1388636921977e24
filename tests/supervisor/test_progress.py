"""The progress that a run prints."""

import pytest
from factory import cell

from lab.evidence.record import Cell
from lab.supervisor.estimate import Estimate
from lab.supervisor.progress import RunProgress, in_words

PROFILES = ("one", "two", "absent")


def taken(profile: str, sweep: int = 0, outcome: str = "measured", process: str = "0-1") -> Cell:
    return cell("e", "case", profile, sweep, process, outcome)


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_time_left_follows_from_the_stages_that_were_announced(capsys: pytest.CaptureFixture[str]) -> None:
    hand = Hand()
    ahead = {(sweep, ("e", "case", name)) for sweep in range(2) for name in PROFILES}
    progress = RunProgress(Estimate(ahead=ahead, idle=set()), 0, 2, hand)
    for stage, now in (("check", 0.0), ("time", 2.0)):
        hand.seconds = now
        progress.stage(0, "case", "one", stage)
    hand.seconds = 12.0
    progress.cells([taken("one"), taken("absent", outcome="skipped", process="")])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("  [1/6, about ")
    # two: 12 s in this sweep; both in the next: 10 s and a share of the 2 s of the check.
    assert lines[1].startswith("  [2/6, about 33 s left] case  absent  skipped")


def test_more_cells_than_planned_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(Estimate(ahead={(0, ("e", "case", "one"))}, idle=set()), 0, 1)
    progress.more([(0, ("e", "case", "one")), (1, ("e", "case", "one"))])
    progress.cells([taken("one")])
    progress.cells([taken("one", sweep=1)])
    assert [line.split(",")[0].split("]")[0] for line in capsys.readouterr().err.splitlines()] == ["  [1/2", "  [2/2"]


def test_an_estimate_is_reported_as_roughly_as_it_is_known() -> None:
    assert (in_words(41.6), in_words(200.0)) == ("42 s", "3 min")
