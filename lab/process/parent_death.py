"""Ends a worker when its supervisor ends: an orphaned worker would disturb the next run on its GPU.

`python -m lab.process.parent_death COMMAND …` does the same for a program that knows nothing of this, such as a
profiler, and all that it starts: the process leads a group, starts the command in it, and ends the group with its
supervisor.
"""

import ctypes
import os
import signal
import subprocess
import sys

PARENT = "LAB_SUPERVISOR_PROCESS"
PR_SET_PDEATHSIG = 1


def mark_parent() -> dict[str, str]:
    """For the environment of a child: who its parent is, so that it can tell when that one is gone.

    Start the child from a thread that lives as long as the process: Linux takes that thread's end for the parent's.
    """
    return {PARENT: str(os.getpid())}


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel signal this process when its parent ends for any reason; at once if it has ended already.

    Workers get SIGKILL, because they may not react to others: stuck in a driver, or because of a library's handler.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, by, 0, 0, 0)
    expected = os.environ.get(PARENT)
    if expected and os.getppid() != int(expected):  # it ended before prctl could take hold
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    die_with_parent(signal.SIGTERM)
    try:
        code = subprocess.call(sys.argv[1:])
    except OSError as refusal:
        sys.exit(f"==ERROR== it does not start: {refusal.strerror}")
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
