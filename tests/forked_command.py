"""`lab COMMAND` in a process of its own, which has imported already what is no part of the lab: a fork of this one.

For tests of how a command ends: to import MLflow or PyTorch takes most of its time. What belongs to the lab it imports
anew, under its own variables. It cannot use a database that this process has open. A command that measures is started
or forked elsewhere: see `warm_workers`.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked_worker
from _pytest.assertion.rewrite import AssertionRewritingHook
from waiting import killed_at_the_limit

ANEW = ("lab", "experiments")


class Command:
    """One that runs. `stdout`: where its output goes, if not to who reads it here; `stderr` may go there too."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        file_bytes: int = 0,
        frozen: Path | None = None,
    ) -> None:
        command = ["-m", "lab.cli", *arguments]
        order = {"command": [sys.executable, *command], "environment": env, "folder": str(cwd), "descriptors": ()}
        limits = {"file_bytes": file_bytes, "frozen": frozen and str(frozen)}
        (output, to_output), (errors, to_errors) = os.pipe(), os.pipe()
        received = [os.open(os.devnull, os.O_RDONLY), to_output if stdout == subprocess.PIPE else stdout]
        received.append(to_errors if stderr == subprocess.PIPE else received[1])
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become_and_end(order | limits | {"received": received}, command)
        for descriptor in (received[0], to_output, to_errors):
            os.close(descriptor)
        self.stdout, self.stderr = (os.fdopen(each, encoding="utf-8") for each in (output, errors))

    def end(self) -> "subprocess.CompletedProcess[str]":
        """Wait until it has ended; with what has not been read of its outputs."""
        with killed_at_the_limit(self.pid):
            with self.stdout, self.stderr, ThreadPoolExecutor() as readers:
                output, errors = readers.map(lambda file: file.read(), (self.stdout, self.stderr))
            return subprocess.CompletedProcess("lab", self.wait(), output, errors)

    def poll(self, options: int = os.WNOHANG) -> int | None:
        if self._code is None and (ended := os.waitpid(self.pid, options))[0]:
            self._code = os.waitstatus_to_exitcode(ended[1])
        return self._code

    def wait(self) -> int:
        code = self.poll(0)
        assert code is not None
        return code


def _become_and_end(order: Mapping[str, object], command: Sequence[str]) -> None:
    code = 1
    try:
        forked_worker.become(dict(order))
        forked_worker.confine(dict(order))
        for name in [name for name in sys.modules if name.partition(".")[0] in ANEW]:
            del sys.modules[name]
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, AssertionRewritingHook)]
        forked_worker.run(command)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)
