"""What a worker says in turn is handed on case by case; what it says out of turn is garbled, and nothing is kept."""

import dataclasses
import random
from typing import Any

import pytest
from factory import canary, cell, machine, timing

from lab.definition.plan import Protocol
from lab.evidence.codec import to_data
from lab.evidence.record import Cell, Control, Record, SweepFinish, SweepStart, Watch
from lab.supervisor.channel import Garbled
from lab.supervisor.hearing import Hearing
from lab.supervisor.watch import Watcher

ASKED = [("e", case, profile) for case in ("a", "b") for profile in ("one", "two")]
TIMES = (timing(1e-5, 0.01, Protocol(), random.Random(1)),)
START = SweepStart(sweep=1, process="1-7", machine=machine("cpu"), launch_floor_seconds=1e-6, started_utc="")
FINISH = SweepFinish(sweep=1, process="1-7", stage_seconds={}, finished_utc="")
Frame = tuple[str, Any]


def said(record: Record) -> Frame:
    return type(record).__name__, to_data(record)


def stage(case: str, profile: str, name: str) -> Frame:
    return "stage", ["e", case, profile, name]


def rounds(case: str) -> Frame:
    return "rounds", {
        "experiment": "e",
        "case": case,
        "windows": [{"begin_seconds": 1.0, "end_seconds": 1.5, "spin_hertz": None}],
    }


def found(case: str, profile: str, outcome: str = "measured", **changes: Any) -> Frame:
    timings = TIMES if outcome == "measured" else ()
    return said(dataclasses.replace(cell("e", case, profile, 1, "1-7", outcome, timings=timings), **changes))


def again(case: str) -> Frame:
    return said(Control(experiment="e", case=case, profile="one", sweep=1, process="1-7", timings=TIMES))


def timed(case: str) -> list[Frame]:
    return [
        stage(case, "one", "inputs"), stage(case, "one", "check"), stage(case, "two", "check"),
        stage(case, "one", "time"), stage(case, "two", "verify"), rounds(case), again(case), found(case, "one"),
        found(case, "two"),
    ]  # fmt: skip


BEGIN = [said(START), said(canary(1, "1-7", ""))]
WHOLE = [
    *BEGIN,
    *timed("a"),
    said(canary(1, "1-7", "a", experiment="e")),
    *timed("b"),
    said(canary(1, "1-7", "b", experiment="e")),
    said(FINISH),
]
TIMING = [*BEGIN, *timed("a")[:5]]


def hear(frames: list[Frame]) -> tuple[Hearing, list[list[type]]]:
    """The hearing after these frames, and the kinds of what was handed on together."""
    hearing = Hearing(1, ASKED, Watcher(None))
    groups = [hearing.take(*frame) for frame in frames]
    return hearing, [[type(record) for record in group] for group in groups if group]


def test_the_records_of_a_case_are_handed_on_together_when_the_next_begins() -> None:
    hearing, groups = hear([frame for frame in WHOLE if frame[0] != "Canary"])
    case = [Watch, Control, Cell, Cell]
    assert groups == [[SweepStart], case, [*case, SweepFinish]]
    hearing.finish()


def test_a_canary_goes_with_the_case_before_it() -> None:
    _, groups = hear(WHOLE)
    assert [len(group) for group in groups] == [1, 1, 5, 5, 1]


def test_a_worker_that_ends_inside_a_case_leaves_of_it_what_holds_no_time() -> None:
    wrong = [stage("a", "one", "check"), found("a", "one", "wrong"), stage("a", "two", "time"), rounds("a")]
    assert [r.outcome for r in hear([*BEGIN, *wrong])[0].rest() if isinstance(r, Cell)] == ["wrong"]
    assert hear([*BEGIN, *timed("a")[:-1]])[0].rest() == []
    assert len(hear([*BEGIN, *timed("a")])[0].rest()) == 4


@pytest.mark.parametrize(
    "frames",
    [
        [stage("a", "one", "check")],
        [found("a", "one")],
        [*BEGIN, said(START)],
        [*BEGIN, said(canary(1, "1-7", ""))],
        [*BEGIN, said(canary(1, "1-8", "a"))],
        [*BEGIN, *timed("a"), said(canary(1, "1-7", "a", experiment="other"))],
        [*BEGIN, said(FINISH)],
        [*BEGIN, stage("c", "one", "check")],
        [*BEGIN, stage("a", "three", "check")],
        [*BEGIN, ("stage", None)],
        [*BEGIN, ("stage", ["e", "a", "one", 7])],
        [*BEGIN, ("stage", ["e", "a", "one", ""])],
        [*BEGIN, ("gossip", None)],
        [*BEGIN, stage("a", "one", "check"), found("a", "one")],
        [*BEGIN, stage("a", "one", "check"), rounds("a")],
        [*BEGIN, stage("a", "one", "check"), again("a")],
        [*BEGIN, stage("a", "one", "check"), found("a", "two", "wrong")],
        [*BEGIN, stage("a", "one", "check"), found("b", "one", "wrong")],
        [*BEGIN, stage("a", "one", "check"), found("a", "one", "wrong"), found("a", "one", "wrong")],
        [*BEGIN, stage("a", "one", "check"), found("a", "one", "wrong"), stage("b", "one", "check")],
        [*TIMING, found("a", "two")],
        [*TIMING, rounds("a"), rounds("a")],
        [*TIMING, rounds("a"), stage("a", "one", "time")],
        [*TIMING, rounds("b")],
        [*TIMING, ("rounds", {"experiment": "e", "case": "a", "windows": [{"begin_seconds": 1.0, "spin_hertz": 2.0}]})],
        [*TIMING, ("rounds", None)],
        [*TIMING, rounds("a"), found("a", "one", sweep=0)],
        [*TIMING, rounds("a"), found("a", "one", process="1-8")],
        [*TIMING, rounds("a"), found("a", "three")],
        [*TIMING, rounds("a"), ("Cell", {"experiment": "e"})],
        [*TIMING, rounds("a"), ("Watch", {})],
        [*BEGIN, *timed("a"), again("a")],
        [*BEGIN, *timed("a"), found("a", "one")],
        [*BEGIN, *timed("a"), *timed("b")[:1], stage("a", "one", "check")],
        [*WHOLE, stage("a", "one", "check")],
    ],
)
def test_what_is_said_out_of_turn_is_garbled(frames: list[Frame]) -> None:
    hear(frames[:-1])
    with pytest.raises(Garbled, match=r"it is not speaking our protocol|none of ours"):
        hear(frames)


def test_a_worker_that_is_done_before_it_has_measured_everything_is_garbled() -> None:
    with pytest.raises(Garbled):
        hear(WHOLE[:-1])[0].finish()
