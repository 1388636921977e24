"""A worker dies with its supervisor: one that measures on for nobody would disturb the next run on its GPU."""

import ctypes
import os
import signal
import sys

PARENT = "LAB_SUPERVISOR_PROCESS"
PR_SET_PDEATHSIG = 1


def mark_parent() -> dict[str, str]:
    """For the environment of a child: who its parent is, so that it can tell when that one is gone.

    Start the child from a thread that lives as long as the process: Linux takes that thread's end for the parent's.
    """
    return {PARENT: str(os.getpid())}


def die_with_parent() -> None:
    """Have this process killed when its parent ends, however that ends; at once where it has ended already."""
    if sys.platform != "linux":
        return
    # SIGKILL, because a worker may be deaf to every other signal: stuck in a driver, or by a library's handler.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    expected = os.environ.get(PARENT)
    if expected and os.getppid() != int(expected):  # it ended before prctl could take hold
        os.kill(os.getpid(), signal.SIGKILL)
