"""Messages that are due are handed on case by case; one that is not due is refused, and its case is dropped."""

import dataclasses
import random
from typing import Any

import pytest
from factory import canary, cell, machine, timing

from lab.definition.plan import Protocol
from lab.evidence.codec import to_data
from lab.evidence.record import Cell, Control, Record, SweepFinish, SweepStart, Watch
from lab.process.channel import Garbled
from lab.supervisor.watch import Watcher
from lab.supervisor.worker_protocol import WorkerProtocol

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


def cell_frame(case: str, profile: str, outcome: str = "measured", **changes: Any) -> Frame:
    timings = TIMES if outcome == "measured" else ()
    return said(dataclasses.replace(cell("e", case, profile, 1, "1-7", outcome, timings=timings), **changes))


def again(case: str) -> Frame:
    return said(Control(experiment="e", case=case, profile="one", sweep=1, process="1-7", timings=TIMES))


def timed(case: str) -> list[Frame]:
    return [
        stage(case, "one", "inputs"), stage(case, "one", "check"), stage(case, "two", "check"),
        stage(case, "one", "time"), stage(case, "two", "verify"), rounds(case), again(case), cell_frame(case, "one"),
        cell_frame(case, "two"),
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


def hear(frames: list[Frame]) -> tuple[WorkerProtocol, list[list[type]]]:
    """The messages after these frames, and the kinds of what was handed on together."""
    messages = WorkerProtocol(1, ASKED, Watcher(None))
    groups = [messages.take(*frame) for frame in frames]
    return messages, [[type(record) for record in group] for group in groups if group]


def test_the_records_of_a_case_are_handed_on_together_when_the_next_begins() -> None:
    messages, groups = hear([frame for frame in WHOLE if frame[0] != "Canary"])
    case = [Watch, Control, Cell, Cell]
    assert groups == [[SweepStart], case, [*case, SweepFinish]]
    messages.finish()


def test_a_canary_goes_with_the_case_before_it() -> None:
    _, groups = hear(WHOLE)
    assert [len(group) for group in groups] == [1, 1, 5, 5, 1]


def test_a_worker_that_ends_inside_a_case_leaves_of_it_what_holds_no_time() -> None:
    wrong = [stage("a", "one", "check"), cell_frame("a", "one", "wrong"), stage("a", "two", "time"), rounds("a")]
    assert [r.outcome for r in hear([*BEGIN, *wrong])[0].rest() if isinstance(r, Cell)] == ["wrong"]
    assert hear([*BEGIN, *timed("a")[:-1]])[0].rest() == []
    assert len(hear([*BEGIN, *timed("a")])[0].rest()) == 4


@pytest.mark.parametrize(
    "frames",
    [
        [stage("a", "one", "check")],
        [cell_frame("a", "one")],
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
        [*BEGIN, stage("a", "one", "check"), cell_frame("a", "one")],
        [*BEGIN, stage("a", "one", "check"), rounds("a")],
        [*BEGIN, stage("a", "one", "check"), again("a")],
        [*BEGIN, stage("a", "one", "check"), cell_frame("a", "two", "wrong")],
        [*BEGIN, stage("a", "one", "check"), cell_frame("b", "one", "wrong")],
        [*BEGIN, stage("a", "one", "check"), cell_frame("a", "one", "wrong"), cell_frame("a", "one", "wrong")],
        [*BEGIN, stage("a", "one", "check"), cell_frame("a", "one", "wrong"), stage("b", "one", "check")],
        [*TIMING, cell_frame("a", "two")],
        [*TIMING, rounds("a"), rounds("a")],
        [*TIMING, rounds("a"), stage("a", "one", "time")],
        [*TIMING, rounds("b")],
        [*TIMING, ("rounds", {"experiment": "e", "case": "a", "windows": [{"begin_seconds": 1.0, "spin_hertz": 2.0}]})],
        [*TIMING, ("rounds", None)],
        [*TIMING, rounds("a"), cell_frame("a", "one", sweep=0)],
        [*TIMING, rounds("a"), cell_frame("a", "one", process="1-8")],
        [*TIMING, rounds("a"), cell_frame("a", "three")],
        [*TIMING, rounds("a"), ("Cell", {"experiment": "e"})],
        [*TIMING, rounds("a"), ("Watch", {})],
        [*BEGIN, *timed("a"), again("a")],
        [*BEGIN, *timed("a"), cell_frame("a", "one")],
        [*BEGIN, *timed("a"), *timed("b")[:1], stage("a", "one", "check")],
        [*WHOLE, stage("a", "one", "check")],
    ],
)
def test_what_is_said_out_of_turn_is_garbled(frames: list[Frame]) -> None:
    hear(frames[:-1])
    with pytest.raises(Garbled, match=r"this breaks the protocol|invalid record"):
        hear(frames)


def test_a_worker_that_is_done_before_it_has_measured_everything_is_garbled() -> None:
    with pytest.raises(Garbled):
        hear(WHOLE[:-1])[0].finish()
