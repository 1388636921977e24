"""A child process that leads a group of its own and ends with all that it started."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import IO, Any

from lab.errors import RunError
from lab.evidence.source import OWN_MODULE, child_environment
from lab.process.leftovers import KILLED_SECONDS, LOOK_SECONDS, MARK, adopt_orphans, kill_leftovers, new_mark
from lab.process.parent_death import mark_parent

TERM_SECONDS = 5.0  # between SIGTERM and SIGKILL
SIGNALS = {number.value: number.name for number in signal.Signals}
# Sent by another process or by the kernel when memory runs out; a fault of the program's own raises none of these.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class Child:
    """A module of this tree, run with arguments in a process of its own. Always call `end`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        output: IO[Any],
        *,
        environment: Mapping[str, str] = {},
        descriptors: Sequence[int] = (),
    ) -> None:
        adopt_orphans()
        self._mark = new_mark()
        self._process = subprocess.Popen(
            [sys.executable, *OWN_MODULE, module, *arguments],
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, pass_fds=descriptors,
            start_new_session=True,
            env={**child_environment(), **environment, **mark_parent(), MARK: self._mark},
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, text: str) -> None:
        """Write to its stdin, and close it. A child that has ended says how by its exit status."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as orders:
            orders.write(text.encode())

    def exit_status(self, patience_seconds: float = 0.0) -> os.waitid_result | None:
        """How it ended, or None where it has not within the time. The process stays to be waited for."""
        give_up = monotonic() + patience_seconds
        while True:
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if status or monotonic() >= give_up:
                return status
            sleep(LOOK_SECONDS)

    def end(self, grace_seconds: float = TERM_SECONDS) -> None:
        """Terminate the process group, then kill it, and what the child started outside of it."""
        if self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        # Until it is waited for, an ended leader keeps the group's number from being given to another.
        with suppress(ProcessLookupError):  # it ended in between, and somebody else has waited for it
            if grace_seconds and self.exit_status() is None:
                os.killpg(self.pid, signal.SIGTERM)
                self.exit_status(grace_seconds)
            os.killpg(self.pid, signal.SIGKILL)
        try:
            self._process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            raise RunError(
                f"process {self.pid} does not end although it was killed: the GPU's driver holds it; "
                "the run can go on where it is once that process is gone"
            ) from None
        kill_leftovers(self._mark, self.pid)


def ending(status: os.waitid_result) -> str:
    """How a process ended, in words that follow its name."""
    if status.si_code == os.CLD_EXITED:
        return f"ended with code {status.si_status}"
    return f"was killed by {SIGNALS.get(status.si_status, f'signal {status.si_status}')}"


def killed_from_outside(status: os.waitid_result) -> bool:
    """Whether it was ended by a signal that probably came from another process or the kernel."""
    return status.si_code != os.CLD_EXITED and status.si_status in FROM_OUTSIDE
