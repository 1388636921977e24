"""What the GPU went through in each round, from traces of polls."""

import dataclasses
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

import pytest
from waiting import LIMIT_SECONDS, wait_until

from lab.evidence.nvml import Gpu, GpuState
from lab.evidence.record import Rounds, Window
from lab.supervisor.watch import Poll, Watcher, _owners, fold

HW_SLOWDOWN, SW_THERMAL = 0x8, 0x20
EVERY, LASTS = 0.020, 0.004  # a poll's period, and how long NVML takes to answer


def poll(
    at: float, *, reasons: int = 0, thermal: float = 0.0, foreign: int | None = 0, watts: float = 300.0,
    worker_listed: bool = True, hertz: float | None = 1.98e9,
) -> Poll:  # fmt: skip
    state = GpuState(
        reasons=reasons, sm_hertz=hertz, energy_joules=1000 + 300 * at, power_watts=watts, temperature_celsius=60.0,
        processes=frozenset({1}),
        violation_seconds={"thermal": thermal, "power": 5.0},
    )  # fmt: skip
    return Poll(at, at + LASTS, state, foreign, worker_listed)


def window(begin: float, end: float, hertz: float | None = None) -> Window:
    return Window(begin_seconds=begin, end_seconds=end, spin_hertz=hertz)


def timed(*windows: Window) -> Rounds:
    return Rounds(experiment="e", case="c", windows=windows)


def trace(seconds: float, changes: Mapping[int, Mapping[str, Any]] | None = None) -> list[Poll]:
    """Polls of a quiet GPU, some of them changed."""
    count = round(seconds / EVERY)
    return [poll(number * EVERY, **(changes or {}).get(number, {})) for number in range(count)]


SILENT = GpuState(
    reasons=None, sm_hertz=None, energy_joules=None, power_watts=None, temperature_celsius=None, processes=None,
    violation_seconds={},
)  # fmt: skip
WINDOWS = [window(0.1, 0.2, 1.7e9), window(0.2, 0.3, 1.6e9), window(0.3, 0.4)]


def test_a_quiet_gpu_gives_quiet_rounds() -> None:
    rounds = fold(trace(0.6), WINDOWS)
    assert [r.reasons for r in rounds] == [0, 0, 0]
    assert [r.violation_seconds for r in rounds] == [{"thermal": 0.0, "power": 0.0}] * 3
    assert [r.foreign_processes for r in rounds] == [0, 0, 0]
    assert [r.spin_hertz for r in rounds] == [1.7e9, 1.6e9, None]
    assert [r.seconds for r in rounds] == [pytest.approx(0.1)] * 3
    assert all(5 <= r.polls <= 6 for r in rounds)


def test_a_reason_and_the_largest_power_belong_to_the_round_they_were_seen_in() -> None:
    rounds = fold(trace(0.6, {12: {"reasons": HW_SLOWDOWN}, 13: {"reasons": SW_THERMAL, "watts": 690.0}}), WINDOWS)
    assert [r.reasons for r in rounds] == [0, HW_SLOWDOWN | SW_THERMAL, 0]
    assert [r.power_watts for r in rounds] == [300.0, 690.0, 300.0]


def test_the_lowest_clock_belongs_to_the_round_it_was_seen_in() -> None:
    rounds = fold(trace(0.6, {12: {"hertz": 1.2e9}, 13: {"hertz": None}}), WINDOWS)
    assert [r.sm_hertz for r in rounds] == [1.98e9, 1.2e9, 1.98e9]


def test_throttling_between_two_polls_is_seen_in_the_counter_that_grew() -> None:
    """5 ms at a reduced clock, over before NVML is asked again."""
    polls = trace(0.6, {number: {"thermal": 7.005} for number in range(13, 30)})
    quiet = trace(0.6, {number: {"thermal": 7.0} for number in range(13)})[:13]
    rounds = fold([*quiet, *polls[13:]], WINDOWS)
    assert [r.reasons for r in rounds] == [0, 0, 0]
    assert [r.violation_seconds["thermal"] for r in rounds] == [0.0, pytest.approx(0.005), 0.0]


def test_a_violation_that_may_have_been_in_a_round_is_laid_to_it() -> None:
    """Between the last poll in one round and the first in the next it cannot be placed: both may be spoiled."""
    before = [poll(number * EVERY, thermal=1.0) for number in range(10)]  # the last at 0.18
    after = [poll(number * EVERY + 0.005, thermal=1.01) for number in range(10, 30)]  # the first at 0.205
    rounds = fold([*before, *after], WINDOWS)
    assert [r.violation_seconds["thermal"] for r in rounds] == [pytest.approx(0.01), pytest.approx(0.01), 0.0]


def test_a_foreign_process_that_comes_and_goes_spoils_the_rounds_it_was_there_in() -> None:
    rounds = fold(trace(0.6, {12: {"foreign": 1}, 13: {"foreign": 2}, 14: {"foreign": 1}}), WINDOWS)
    assert [r.foreign_processes for r in rounds] == [0, 2, 0]


def test_where_nvml_never_shows_the_worker_foreign_processes_are_not_known() -> None:
    polls = [dataclasses.replace(each, worker_listed=False, foreign=1) for each in trace(0.6)]
    assert [r.foreign_processes for r in fold(polls, WINDOWS)] == [None] * 3


def test_a_round_between_two_polls_takes_what_they_both_saw() -> None:
    polls = [poll(0.0, thermal=1.0), poll(0.2, reasons=HW_SLOWDOWN, thermal=1.1)]
    (state,) = fold(polls, [window(0.1, 0.15)])
    assert (state.polls, state.reasons) == (0, HW_SLOWDOWN)
    assert state.violation_seconds["thermal"] == pytest.approx(0.1)


def test_what_nvml_does_not_answer_is_not_known() -> None:
    polls = [Poll(number * EVERY, number * EVERY + LASTS, SILENT, None, False) for number in range(30)]
    for state in fold(polls, WINDOWS):
        assert (state.power_watts, state.temperature_celsius, state.foreign_processes) == (None, None, None)
        assert state.sm_hertz is None
        assert (state.reasons, state.violation_seconds) == (None, {})
        assert state.polls >= 5


def test_without_polls_nothing_is_known() -> None:
    for state in fold([], WINDOWS):
        assert (state.polls, state.reasons, state.violation_seconds) == (0, None, {})
        assert (state.power_watts, state.foreign_processes) == (None, None)


def test_each_throttling_of_100_ms_shows_in_every_round_it_touched_and_in_no_other_far_from_it() -> None:
    """Replayed traces: throttling at a random moment, polls that jitter as a busy host's do."""
    dice = random.Random(1)
    for _ in range(200):
        begin = dice.uniform(0.5, 1.5)
        end = begin + 0.1
        polls, at = [], 0.0
        while at < 2.2:
            throttled = max(0.0, min(at, end) - begin) if at > begin else 0.0
            polls.append(poll(at, reasons=HW_SLOWDOWN if begin <= at <= end else 0, thermal=throttled))
            at += EVERY + dice.choice((0.0, 0.0, 0.01))
        windows = [window(0.1 * number, 0.1 * number + 0.1) for number in range(20)]
        for ran, state in zip(windows, fold(polls, windows), strict=True):
            seen = bool(state.reasons) or state.violation_seconds["thermal"] > 0
            if ran.end_seconds > begin + 0.001 and ran.begin_seconds < end - 0.001:
                assert seen
            if ran.end_seconds < begin - 0.04 or ran.begin_seconds > end + 0.04:
                assert not seen


# Whose processes


def test_the_worker_what_it_started_and_this_process_are_not_foreign() -> None:
    with ExitStack() as stack:
        start = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
        worker = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, start_new_session=True
        )  # fmt: skip
        stack.callback(worker.wait)
        stack.callback(worker.communicate)
        stack.callback(worker.kill)
        ours = frozenset({worker.pid, os.getpid()})
        assert _owners(ours, worker.pid) == (0, True)
        assert _owners(ours | {1}, worker.pid) == (1, True)
        assert _owners(frozenset({os.getpid()}), worker.pid) == (0, False)
        assert _owners(frozenset({worker.pid}), 1) == (0, False)  # another worker: loaded ahead
        assert _owners(frozenset({2**22 + 5}), worker.pid) == (1, False)  # of a namespace that this one cannot see
        assert _owners(None, worker.pid) == (None, False)


# The thread


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next poll is waited for, however late it comes."""
    monkeypatch.setattr("lab.supervisor.watch.LATEST_POLL_SECONDS", LIMIT_SECONDS)


class ScriptedGpu:
    """Its thermal counter grows with time."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.began = time.monotonic()
        self.asked = 0

    def wait_for_polls(self, count: int) -> float:
        """Until it was asked so often again; the time of day."""
        enough = self.asked + count
        wait_until(lambda: self.asked >= enough, "the thread does not poll")
        return time.monotonic()

    def state(self) -> GpuState:
        self.asked += 1
        return GpuState(
            reasons=SW_THERMAL, sm_hertz=1.5e9, energy_joules=200 * (time.monotonic() - self.began),
            power_watts=200.0, temperature_celsius=50.0, processes=frozenset({self.process, 1}),
            violation_seconds={"thermal": time.monotonic() - self.began},
        )  # fmt: skip


@pytest.mark.usefixtures("patient")
def test_a_watch_holds_what_was_polled_while_the_case_was_timed() -> None:
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        gpu = ScriptedGpu(worker.pid)
        watcher = Watcher(cast(Gpu, gpu))
        with watcher.watching(worker.pid):
            begin, middle, end = (gpu.wait_for_polls(4) for _ in range(3))
            windows = window(begin, middle, 1.5e9), window(middle, end)
            watch = watcher.watch_of(timed(*windows), 2, "2-77")
    finally:
        worker.communicate()
    assert (watch.experiment, watch.case, watch.sweep, watch.process) == ("e", "c", 2, "2-77")
    assert watch.blind == ""
    # 200 W, at least in the rounds and at most since the beginning.
    assert watch.energy_joules is not None
    assert 199 * (end - begin) <= watch.energy_joules <= 201 * (time.monotonic() - gpu.began)
    for state in watch.rounds:
        assert state.polls >= 2
        assert state.reasons == SW_THERMAL
        assert state.foreign_processes == 1
        assert state.violation_seconds["thermal"] >= state.seconds * 0.99


def test_without_a_gpu_the_watch_says_that_nothing_is_known() -> None:
    watcher = Watcher(None)
    with watcher.watching(os.getpid()):
        watch = watcher.watch_of(timed(window(1.0, 1.5)), 0, "0-1")
    assert watch.blind == "there is no GPU that NVML knows"
    assert [(r.seconds, r.polls, r.foreign_processes) for r in watch.rounds] == [(0.5, 0, None)]


class FailingGpu:
    """Answers three times."""

    def __init__(self) -> None:
        self.asked = 0

    def state(self) -> GpuState:
        self.asked += 1
        if self.asked > 3:
            raise AttributeError("no such question")
        return dataclasses.replace(SILENT, reasons=0, violation_seconds={"thermal": 1.0})


@pytest.mark.usefixtures("patient")
def test_a_watch_that_came_to_its_end_says_so_and_knows_nothing_of_the_rounds_after_it() -> None:
    gpu = FailingGpu()
    watcher = Watcher(cast(Gpu, gpu))
    for asked in (4, 5):  # also in the next worker
        with watcher.watching(os.getpid()):
            begin = time.monotonic()
            wait_until(lambda asked=asked: gpu.asked == asked, "it is not asked")
            failed = time.monotonic()
            windows = window(begin, failed), window(failed, time.monotonic())
            watch = watcher.watch_of(timed(*windows), 0, "0-1")
        assert watch.blind == "the watch ended: AttributeError: no such question"
        assert watch.rounds[1].reasons is None
        assert watch.rounds[1].violation_seconds == {}


@pytest.mark.usefixtures("patient")
def test_rounds_in_which_nvml_told_nothing_are_counted() -> None:
    silent = ScriptedGpu(os.getpid())
    silent.state = lambda: SILENT  # type: ignore[method-assign]
    watcher = Watcher(cast(Gpu, silent))
    with watcher.watching(os.getpid()):
        begin = time.monotonic()
        watch = watcher.watch_of(timed(window(begin, begin + 0.05)), 0, "0-1")
    assert watch.blind == "NVML told nothing in 1 of 1 rounds"


HOLDS_A_CONTEXT = "import torch; torch.zeros(1, device='cuda'); print('up', flush=True); input()"


@pytest.mark.gpu
def test_on_a_gpu_the_worker_is_seen_and_is_nobody_foreign() -> None:
    from lab.evidence.nvml import visible_gpu

    worker = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_CONTEXT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "up\n"
        with visible_gpu("cuda") as gpu:
            watcher = Watcher(gpu)
            with watcher.watching(worker.pid):
                begin = time.monotonic()
                time.sleep(0.5)
                (state,) = watcher.watch_of(timed(window(begin, begin + 0.5)), 0, "0-1").rounds
    finally:
        worker.communicate()
    assert state.polls >= 10
    assert state.foreign_processes == 0
    assert state.power_watts is not None
