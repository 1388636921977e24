"""Processes that a child started in sessions of their own: they outlive its group, and are found and killed here.

Each child has a mark in its environment, which all that it starts inherits. What it leaves behind when it ends becomes
this process's child (Linux calls this process a child subreaper), so that only children need to be looked through.
A program that was started with an emptied environment has no mark, and is left alone.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

MARK = "LAB_CHILD"
PR_SET_CHILD_SUBREAPER = 36
KILLED_SECONDS = 60.0  # for a process to end after SIGKILL
LOOK_SECONDS = 0.01
_numbers = count(1)


def new_mark() -> str:
    return f"{os.getpid()}-{next(_numbers)}"


@cache
def adopt_orphans() -> None:
    """Make this process the parent of processes that its descendants leave behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_leftovers(mark: str, group: int) -> None:
    """Kill every process with this mark. Call once the child that had it has ended; `group` is the child's.

    Killing one makes its children ours, so this looks again until it finds none.
    """
    give_up = time.monotonic() + KILLED_SECONDS
    _reap(-group, give_up)
    while (left := [child for child in _children() if _has_mark(child, mark)]) and time.monotonic() < give_up:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            _reap(process, give_up)


def _reap(which: int, give_up: float) -> None:
    """Wait for a child, or for all of a group (as in os.waitpid), until it has ended or the time is up."""
    with suppress(ChildProcessError):
        while time.monotonic() < give_up:
            ended, _ = os.waitpid(which, os.WNOHANG)
            if not ended:
                time.sleep(LOOK_SECONDS)


def _children() -> set[int]:
    children: set[int] = set()
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children |= {int(child) for child in thread.read_text().split()}
    return children


def _has_mark(process: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
