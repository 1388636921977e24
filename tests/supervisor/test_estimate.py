"""How long is left: told from what similar cells have cost."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

import pytest

from lab.definition.plan_file import load_plan
from lab.evidence import journal
from lab.evidence.record import Cell, SweepStart, Watch
from lab.evidence.source import ROOT
from lab.supervisor.estimate import CaseClock, Estimate
from lab.supervisor.run_state import Key, key_of

RECORDED = ROOT / "experiments" / "evidence" / "kernels-2026-11-23"
TOLERATED = 1.5


def key(profile: str, case: str = "case") -> Key:
    return "e", case, profile


def estimate(sweeps: int = 2, **more: object) -> Estimate:
    ahead = {(sweep, key(name)) for sweep in range(sweeps) for name in ("one", "two", "absent")}
    return Estimate(ahead=ahead, idle={key("absent")}, **more)  # type: ignore[arg-type]


def test_nothing_is_known_before_a_cell_is_measured() -> None:
    tracker = estimate()
    tracker.skip(0, key("two"))
    assert tracker.left_seconds() is None


def test_a_cell_is_timed_as_long_in_every_sweep_and_checked_for_less_in_later_ones() -> None:
    tracker = estimate()
    tracker.take(0, key("one"), check_seconds=10.0, time_seconds=1.0)
    # "two" in this sweep as "one" was; both in the next, where edge inputs are not asked again.
    assert tracker.left_seconds() == pytest.approx(11.0 + 2 * (0.15 * 10.0 + 1.0))


def test_a_later_sweep_says_what_a_check_costs_there() -> None:
    tracker = estimate()
    for sweep, check in ((0, 10.0), (1, 4.0)):
        tracker.take(sweep, key("one"), check_seconds=check, time_seconds=1.0)
    later = (20 * 0.15 * 10.0 + 4.0) / 21  # what sweep 0 lets expect weighs as much as twenty cells
    assert tracker.left_seconds() == pytest.approx((10.0 + 1.0) + (later + 1.0))


def test_what_is_compiled_anew_in_every_sweep_is_a_kind_of_its_own() -> None:
    tracker = estimate(recompiled={key("two")}, fresh=True)
    tracker.take(0, key("one"), check_seconds=1.0, time_seconds=1.0)
    tracker.take(0, key("two"), check_seconds=10.0, time_seconds=1.0)
    assert tracker.left_seconds() == pytest.approx((0.15 * 1.0 + 1.0) + (0.6 * 10.0 + 1.0))


def test_what_comes_after_the_sweeps_is_waited_for_too() -> None:
    tracker = estimate(sweeps=1, after_seconds=30.0)
    tracker.take(0, key("one"), check_seconds=0.0, time_seconds=1.0)
    tracker.skip(0, key("two"))
    assert tracker.left_seconds() == pytest.approx(30.0)


def test_time_belongs_to_the_stage_that_was_announced() -> None:
    clock = CaseClock()
    for profile, stage, now in (
        ("one", "inputs", 0.0), ("one", "check", 1.0), ("two", "check", 4.0),
        ("one", "time", 9.0), ("two", "time", 10.0), ("two", "verify", 12.0),
    ):  # fmt: skip
        clock.stage(profile, stage, now)
    assert clock.finish(["one", "two"], 13.0) == {"one": (4.0, 2.0), "two": (5.0, 2.0)}
    assert clock.finish(["one"], 20.0) == {"one": (0.0, 0.0)}


def recorded_cases() -> Iterator[tuple[list[Cell], float, float]]:
    """Of each case of each sweep of a published run: its cells, and seconds checking and timing."""
    records = journal.read(RECORDED / journal.PACKED).records
    timed = {
        (r.sweep, r.experiment, r.case): sum(each.seconds for each in r.rounds) for r in records if isinstance(r, Watch)
    }
    last = 0.0
    for (sweep, experiment, case), cells in groupby(
        (record for record in records if isinstance(record, Cell | SweepStart)),
        key=lambda r: (r.sweep, r.experiment, r.case) if isinstance(r, Cell) else (r.sweep, "", ""),
    ):
        group = list(cells)
        end = max(_moment(r.finished_utc if isinstance(r, Cell) else r.started_utc) for r in group)
        if experiment:
            spent = end - last
            timing = min(spent, 1.6 * timed.get((sweep, experiment, case), 0.0))  # with warming up and pacing
            yield [r for r in group if isinstance(r, Cell)], spent - timing, timing
        last = end


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_from_a_tenth_of_a_published_runs_cells_on_the_time_left_is_right_within_a_factor_of_one_and_a_half() -> None:
    cases = list(recorded_cases())
    plan = load_plan(RECORDED)
    recompiled = {
        (e.name, case.name, profile.name) for e in plan.experiments for case, profile in e.cells() if profile.recompiles
    }
    ahead = {(cell.sweep, key_of(cell)) for cells, _, _ in cases for cell in cells}
    tracker, planned = Estimate(ahead=set(ahead), idle=set(), recompiled=recompiled), len(ahead)
    total, spent, asked = sum(check + timed for _, check, timed in cases), 0.0, 0
    for cells, check, timed in cases:
        prepared = sum(cell.prepare_seconds for cell in cells) or 1.0
        for cell in cells:
            share = check * cell.prepare_seconds / prepared
            tracker.take(cell.sweep, key_of(cell), check_seconds=share, time_seconds=timed / len(cells))
        spent += check + timed
        if 0.1 <= 1 - len(tracker.ahead) / planned <= 0.95:
            left = tracker.left_seconds()
            assert left is not None
            assert (total - spent) / TOLERATED <= left <= (total - spent) * TOLERATED
            asked += 1
    assert asked > 300
