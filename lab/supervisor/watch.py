"""Polls NVML while a case is timed, and sums up the state of the GPU for each round.

What happened between two answers cannot be placed more closely than that, so a violation that may have been in a
round counts as in it. No time that was measured is looked at.
"""

import functools
import operator
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.evidence.nvml import Gpu, GpuState
from lab.evidence.record import Round, Rounds, Watch, Window

POLL_SECONDS = 0.02
LATEST_POLL_SECONDS = 0.5  # after a case, for the first poll that began when it was over
KEPT_POLLS = 30_000  # ten minutes: more than one case takes
NO_GPU = "there is no GPU that NVML knows"


@dataclass(frozen=True, slots=True)
class Poll:
    """One answer, given between two moments of time.monotonic."""

    begin_seconds: float
    end_seconds: float
    state: GpuState
    foreign: int | None  # processes of others
    worker_listed: bool


class Watcher:
    """Polls the GPU in a thread. Without a GPU, its watches are empty and say why."""

    def __init__(self, gpu: Gpu | None) -> None:
        self._gpu = gpu
        self._polls: deque[Poll] = deque(maxlen=KEPT_POLLS)
        self._polled = threading.Condition()
        self._problem = "" if gpu else NO_GPU

    @contextmanager
    def watching(self, worker: int) -> Iterator[None]:
        """Poll while the block runs. `worker` is the process that measures, and leads its own session."""
        self._polls.clear()
        if self._gpu is None:
            yield
            return
        self._problem = ""
        stop = threading.Event()
        thread = threading.Thread(target=self._poll, args=(self._gpu, worker, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def watch_of(self, timed: Rounds, sweep: int, process: str) -> Watch:
        """The state of the GPU in each round of the case just timed."""
        windows = timed.windows
        polls = self._polls_until(windows[-1].end_seconds) if windows else []
        rounds = fold(polls, windows)
        silent = sum(seen.reasons is None for seen in rounds)
        return Watch(
            experiment=timed.experiment, case=timed.case, sweep=sweep, process=process, rounds=rounds,
            energy_joules=_energy(polls, windows),
            blind=self._problem or (f"NVML told nothing in {silent} of {len(rounds)} rounds" if silent else ""),
        )  # fmt: skip

    def _poll(self, gpu: Gpu, worker: int, stop: threading.Event) -> None:
        try:
            self._poll_until(stop, gpu, worker)
        except Exception as problem:  # reported in every later watch: a thread's error goes unseen
            with self._polled:
                self._problem = f"the watch ended: {type(problem).__name__}: {problem}"[:300]
                self._polled.notify_all()

    def _poll_until(self, stop: threading.Event, gpu: Gpu, worker: int) -> None:
        while not stop.is_set():
            begin = time.monotonic()
            state = gpu.state()
            poll = Poll(begin, time.monotonic(), state, *_owners(state.processes, worker))
            with self._polled:
                self._polls.append(poll)
                self._polled.notify_all()
            stop.wait(max(0.0, begin + POLL_SECONDS - time.monotonic()))

    def _polls_until(self, seconds: float) -> list[Poll]:
        """The polls up to the first that was begun after this moment; those before it are forgotten."""
        if self._gpu is None:
            return []
        with self._polled:
            self._polled.wait_for(
                lambda: self._problem or (self._polls and self._polls[-1].begin_seconds >= seconds),
                timeout=LATEST_POLL_SECONDS,
            )
            polls = list(self._polls)
            while self._polls and self._polls[0].end_seconds < seconds and len(self._polls) > 1:
                self._polls.popleft()
        return polls


def fold(polls: Sequence[Poll], windows: Sequence[Window]) -> tuple[Round, ...]:
    """The state of the GPU in each round, from the polls in it and the nearest before and after it."""
    # Where NVML never shows the worker, it counts processes in another namespace: all would seem foreign.
    knows_processes = any(poll.worker_listed for poll in polls)
    return tuple(_round(polls, window, knows_processes) for window in windows)


def _round(polls: Sequence[Poll], window: Window, knows_processes: bool) -> Round:
    before = [poll for poll in polls if poll.end_seconds <= window.begin_seconds][-1:]
    after = [poll for poll in polls if poll.begin_seconds >= window.end_seconds][:1]
    inside = [
        poll
        for poll in polls
        if poll.end_seconds > window.begin_seconds and poll.begin_seconds < window.end_seconds
    ]  # fmt: skip
    around = [*before, *inside, *after]
    # A round shorter than the time between two polls lies between them; after the last there is nothing to know.
    polls_of_round = inside or (around if before and after else [])
    reasons = [poll.state.reasons for poll in polls_of_round if poll.state.reasons is not None]
    return Round(
        seconds=round(window.end_seconds - window.begin_seconds, 6),
        polls=len(inside),
        reasons=functools.reduce(operator.or_, reasons) if reasons else None,
        violation_seconds=_violations(around),
        spin_hertz=window.spin_hertz,
        sm_hertz=min((poll.state.sm_hertz for poll in polls_of_round if poll.state.sm_hertz is not None), default=None),
        power_watts=_largest([poll.state.power_watts for poll in polls_of_round]),
        temperature_celsius=_largest([poll.state.temperature_celsius for poll in polls_of_round]),
        foreign_processes=max((poll.foreign for poll in polls_of_round if poll.foreign is not None), default=None)
        if knows_processes
        else None,
    )


def _violations(around: Sequence[Poll]) -> dict[str, float]:
    """By how much each counter grew; a policy that is not answered for is left out."""
    if len(around) < 2:
        return {}
    first, last = around[0].state.violation_seconds, around[-1].state.violation_seconds
    return {policy: round(max(0.0, last[policy] - first[policy]), 9) for policy in first if policy in last}


def _energy(polls: Sequence[Poll], windows: Sequence[Window]) -> float | None:
    """By how much the counter grew from the last answer before the first round to the first after the last."""
    before = [poll.state.energy_joules for poll in polls if windows and poll.end_seconds <= windows[0].begin_seconds]
    after = [poll.state.energy_joules for poll in polls if windows and poll.begin_seconds >= windows[-1].end_seconds]
    if not before or not after or before[-1] is None or after[0] is None:
        return None
    return round(after[0] - before[-1], 3)


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _owners(processes: frozenset[int] | None, worker: int) -> tuple[int | None, bool]:
    """How many of the processes are neither this one's nor the worker's; whether the worker's is among them."""
    if processes is None:
        return None, False
    workers = {process for process in processes if _session(process) == worker}
    foreign = [process for process in processes - workers if not _descends(process, os.getpid())]
    return len(foreign), bool(workers)


def _session(process: int) -> int:
    try:
        return os.getsid(process)
    except OSError:
        return -1


def _descends(process: int, ancestor: int) -> bool:
    """Whether a process is the ancestor, or its child, or a child of that."""
    while process > 1 and process != ancestor:
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended, or may not be looked at
            return False
    return process == ancestor
