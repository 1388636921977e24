"""Waiting for events in other processes, and a clock that runs ahead while one hangs."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

LIMIT_SECONDS = 600.0  # for what never happens: no busy machine is so slow


def wait_until(happened: Callable[[], object], otherwise: str) -> None:
    give_up = time.monotonic() + LIMIT_SECONDS
    while not happened():
        assert time.monotonic() < give_up, otherwise
        time.sleep(0.02)


@contextmanager
def killed_at_the_limit(process: int) -> Iterator[None]:
    """What waits meanwhile for a child of this process waits no longer than the limit."""
    timer = Timer(LIMIT_SECONDS, os.kill, (process, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wait_until_ended(process: int) -> None:
    wait_until(lambda: not is_running(process), f"process {process} lives on")


def is_running(process: int) -> bool:
    """Whether there is such a process that is no dead child of somebody who has not asked about it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def clock_that_runs_while(hanging: Path, seconds_a_look: float = 10_000.0) -> Callable[[], float]:
    """A clock that goes ahead with each look at it while the process lives whose id stands last in a file: a deadline
    passes because something hangs, and not because a busy machine is slow."""
    ahead_seconds = 0.0

    def clock() -> float:
        nonlocal ahead_seconds
        processes = hanging.read_text().split() if hanging.exists() else []
        if processes and is_running(int(processes[-1])):
            ahead_seconds += seconds_a_look
        return time.monotonic() + ahead_seconds

    return clock
