"""The pass of the other instruments, its process played by small programs: every cell has a reading or a reason."""

import os
import re
import stat
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from factory import plan_of, small_experiment
from waiting import clock_that_runs_while, wait_until_ended

from lab.definition.plan import Plan
from lab.evidence.record import Reading
from lab.profiler.readings import INSTRUMENTS, read_instruments, wanted_readings

Item = tuple[str, str, str]
Program = Callable[[str], None]
HEAD = f"""
    #!{sys.executable}
    import json, os, pathlib, signal, subprocess, sys, time
    from lab.process.channel import send
    directory, experiment, descriptor = pathlib.Path(sys.argv[-3]), sys.argv[-2], int(sys.argv[-1])
    asked = [tuple(item) for item in json.load(sys.stdin)]
    with (directory / "attempts").open("a") as file:
        print(len(asked), file=file)

    def stage(item):
        send(descriptor, {{"kind": "stage", "content": [experiment, *item]}})

    def reading(item, seconds=1e-5, reason=""):
        case, profile, instrument = item
        send(descriptor, {{"kind": "Reading", "content": {{
            "experiment": experiment, "case": case, "profile": profile, "instrument": instrument,
            "seconds": seconds, "reason": reason,
        }}}})
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Have a program run instead of Python: its body, with `asked`, `stage(item)` and `reading(item)` at hand."""

    def install(body: str) -> None:
        path = tmp_path / "python"
        path.write_text(textwrap.dedent(HEAD).lstrip() + textwrap.dedent(body))
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setattr(sys, "executable", str(path))

    return install


def small_plan(device: str = "cuda") -> Plan:
    """Two cases of two profiles: twelve readings."""
    return plan_of(experiments=[small_experiment()], include=["large-sweep"], device=device)


def read(tmp_path: Path, plan: Plan | None = None) -> dict[Item, Reading]:
    """The readings by case, profile and instrument: one of each, for every cell of the plan."""
    plan = plan or small_plan()
    (experiment,) = plan.experiments
    readings = list(read_instruments(plan, experiment, tmp_path, wanted_readings(experiment)))
    by_item = {(reading.case, reading.profile, reading.instrument): reading for reading in readings}
    assert len(by_item) == len(readings) == plan.cell_count() * len(INSTRUMENTS)
    return by_item


def attempts(tmp_path: Path) -> list[int]:
    """How many readings each process was asked for."""
    return [int(line) for line in (tmp_path / "attempts").read_text().split()]


def test_what_the_process_delivers_is_passed_on(tmp_path: Path, program: Program) -> None:
    program("for item in asked: stage(item); reading(item)")
    readings = read(tmp_path)
    assert {reading.seconds for reading in readings.values()} == {1e-5}
    assert {reading.instrument for reading in readings.values()} == set(INSTRUMENTS)
    assert attempts(tmp_path) == [len(readings)]


def test_on_the_cpu_nothing_is_started(tmp_path: Path, program: Program) -> None:
    program("")
    readings = read(tmp_path, small_plan("cpu"))
    assert {(reading.seconds, reading.reason) for reading in readings.values()} == {
        (None, "needs a CUDA GPU, and this run measures the CPU")
    }
    assert not (tmp_path / "attempts").exists()


@pytest.mark.parametrize(
    ("end", "ended"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("sys.exit(7)", "ended with code 7"),
        ("raise MemoryError", "ended with code 1"),
    ],
)
def test_a_crash_costs_the_reading_that_it_was_at(tmp_path: Path, program: Program, end: str, ended: str) -> None:
    program(f"""
        for item in asked:
            stage(item)
            if item == ("doubling-64x128-float32", "fast", "nvbench"):
                {end}
            reading(item)
    """)
    readings = read(tmp_path)
    (lost,) = [reading for reading in readings.values() if reading.seconds is None]
    assert (lost.case, lost.profile, lost.instrument) == ("doubling-64x128-float32", "fast", "nvbench")
    assert lost.reason == f"the process {ended}; see logs/instruments-doubling.log"
    assert len(attempts(tmp_path)) == 2


def test_readings_held_back_until_the_end_are_asked_for_again(tmp_path: Path, program: Program) -> None:
    """As nvbench's are: the crash at the second costs that one, and the first is not lost with it."""
    program("""
        for number, item in enumerate(asked):
            stage(item)
            if item[1] == "fast" and item[2] == "nvbench":
                os.abort()
        for item in asked:
            reading(item)
    """)
    readings = read(tmp_path)
    lost = {(r.profile, r.instrument) for r in readings.values() if r.seconds is None}
    assert lost == {("fast", "nvbench")}
    assert attempts(tmp_path) == [12, 11, 10]


@pytest.mark.parametrize("body", ["", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_that_says_nothing_at_all_is_started_once(tmp_path: Path, program: Program, body: str) -> None:
    program(body)
    readings = read(tmp_path)
    (reason,) = {reading.reason for reading in readings.values()}
    assert reason.startswith("the process ")
    assert len(attempts(tmp_path)) == 1


def test_a_process_that_cannot_read_what_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexec <&-\nexit 4\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    (reason,) = {reading.reason for reading in read(tmp_path).values()}
    assert reason.startswith("the process ended with code 4; see logs/")


def test_a_process_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    monkeypatch.setattr("lab.process.channel.monotonic", clock_that_runs_while(started))
    program(f"""
        for item in asked:
            stage(item)
            if len(asked) > 1 and item == asked[-1]:
                child = subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(600)"])
                pathlib.Path({str(started)!r}).write_text(str(child.pid))
                time.sleep(600)
            reading(item)
    """)
    readings = read(tmp_path)
    (lost,) = [reading for reading in readings.values() if reading.seconds is None]
    assert lost.reason.startswith("the process gave no sign of life for 120 s; see logs/")
    wait_until_ended(int(started.read_text()))


@pytest.mark.parametrize("frame", ["7", "{}", "{'kind': 'stage', 'content': ['x']}", "{'kind': 'Reading'}",
                                   "{'kind': 'stage', 'content': [experiment, 'a', 'b', 'c']}"])  # fmt: skip
def test_a_foreign_frame_costs_the_reading_that_the_process_was_at(
    tmp_path: Path, program: Program, frame: str
) -> None:
    program(f"""
        for item in asked:
            stage(item)
            if item[1:] == ("fast", "nvbench"):
                send(descriptor, {frame})
            reading(item)
    """)
    lost = {r.case: r.reason for r in read(tmp_path).values() if r.seconds is None}
    assert len(lost) == 2
    assert all(re.match("the process sent (an invalid frame|a reading that)", reason) for reason in lost.values())


def test_a_reading_that_comes_twice_is_taken_once(tmp_path: Path, program: Program) -> None:
    program("for item in [*asked, asked[0]]: stage(item); reading(item)")
    assert {reading.seconds for reading in read(tmp_path).values()} == {1e-5}


def test_a_signal_without_a_name_is_reported_by_its_number(tmp_path: Path, program: Program) -> None:
    program("os.kill(os.getpid(), signal.SIGRTMIN + 3)")
    assert all("was killed by signal 37" in reading.reason for reading in read(tmp_path).values())


def test_the_process_is_terminated_before_it_is_killed(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.process.child.monotonic", lambda: 0.0)  # the time between the two is never over
    program("""
        signal.signal(signal.SIGTERM, lambda *_: ((directory / "asked-to-end").touch(), os._exit(0)))
        reading(asked[0])
        time.sleep(600)
    """)
    plan = small_plan()
    (experiment,) = plan.experiments
    wanted = read_instruments(plan, experiment, tmp_path, wanted_readings(experiment))
    next(wanted)
    wanted.close()  # type: ignore[attr-defined]
    assert (tmp_path / "asked-to-end").exists()


def test_the_process_ends_when_nobody_wants_its_readings(tmp_path: Path, program: Program) -> None:
    program("""
        (directory / "pid").write_text(str(os.getpid()))
        reading(asked[0])
        time.sleep(600)
    """)
    plan = small_plan()
    (experiment,) = plan.experiments
    wanted = read_instruments(plan, experiment, tmp_path, wanted_readings(experiment))
    assert next(wanted).seconds == 1e-5
    wanted.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
