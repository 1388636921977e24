"""How long is left: told from the cells that were measured."""

import pytest
from factory import cell

from lab.supervisor.progress import Estimate, in_words

PROFILES = ("one", "two", "three", "absent")
PLANNED = [(sweep, ("e", "case", profile)) for sweep in range(2) for profile in PROFILES]


def taken(profile: str, sweep: int = 0, outcome: str = "measured", process: str = "0-1") -> object:
    return cell("e", "case", profile, sweep, process, outcome)


def estimate(*cells: object, idle: tuple[str, ...] = ()) -> Estimate:
    made = Estimate(PLANNED, [("e", "case", profile) for profile in idle])
    for each in cells:
        made.take(each)  # type: ignore[arg-type]
    return made


def test_cells_that_are_skipped_are_no_sign_of_speed() -> None:
    assert estimate(taken("absent", outcome="skipped")).left_seconds(1.0) is None
    found = estimate(taken("absent", outcome="skipped"), taken("one")).left_seconds(10.0)
    assert found == pytest.approx(10.0 * 5)  # two of this sweep and three of the next; "absent" takes no time


def test_cells_known_to_be_idle_are_not_waited_for() -> None:
    assert estimate(taken("one"), idle=("absent",)).left_seconds(10.0) == pytest.approx(50.0)


def test_a_cell_that_crashed_took_its_time() -> None:
    assert estimate(taken("one", outcome="crashed")).left_seconds(10.0) == pytest.approx(70.0)


def test_more_sweeps_take_more_time() -> None:
    longer = estimate(taken("one"), idle=("absent",))
    longer.add([(2, ("e", "case", "one"))])
    assert longer.left_seconds(10.0) == pytest.approx(60.0)


def test_an_estimate_is_told_as_roughly_as_it_is_known() -> None:
    assert (in_words(41.6), in_words(200.0)) == ("42 s", "3 min")
