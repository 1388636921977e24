"""Real worker processes that do not import torch anew: each is forked from a process that has imported it.

Importing takes most of the CPU time of a worker that measures toys. A test that starts many workers through
`lab.process.child` asks for the fixture `warm_workers`; all else about its workers is real: an own process and session,
the channel, the log, the environment, and how they end.

A command line that a test starts has workers from scratch, and is started from scratch itself; unless the test has it
forked too, by `Forks.start` or `Forks.run`, because it asks how a command ends and not how it begins.

Before a cold call these workers flush a small cache, as `small_caches` says. In /proc, which shows the environment that
a program was started with, a fork has no mark of its own (see `lab.process.leftovers`); the programs that it starts
have it.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import small_caches
from waiting import LIMIT_SECONDS, killed_at_the_limit

from lab.evidence.source import OWN_MODULE, ROOT
from lab.process.leftovers import adopt_orphans

FORKED = Path(__file__).with_name("forked_worker.py")
MODULES = ("lab.worker", "lab.worker.precompile")


class Forks:
    """The process that is forked. Use as a context manager."""

    def __enter__(self) -> "Forks":
        adopt_orphans()  # a fork's own parent ends at once, so that it becomes a child of this process
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(FORKED), str(theirs.fileno())], pass_fds=[theirs.fileno()],
                env={**os.environ, **one_thread, "PYTHONPATH": small_caches.PYTHONPATH},
                cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait()

    @contextmanager
    def instead_of_starts(self) -> Iterator[None]:
        """Let `lab.process.child` have forks where it would start workers."""
        from lab.process import child

        child.subprocess = forking(self._socket)
        try:
            yield
        finally:
            child.subprocess = subprocess

    def start(
        self,
        command: Sequence[str],
        *,
        file_bytes: int = 0,
        frozen: Path | None = None,
        preload: Sequence[str] = (),
        **how: Any,
    ) -> "Fork":
        """A fork that becomes `python COMMAND`, and whose workers are forks as well; its outputs can be read.

        how: `cwd` and `env`. preload: modules that it imports once for itself and its workers. For the others see
        `forked_worker.confine`.
        """
        order = {"command": [sys.executable, *command], "environment": how["env"], "folder": str(how["cwd"])}
        order |= {"starts_workers": True, "file_bytes": file_bytes, "frozen": frozen and str(frozen)}
        order["preload"] = list(preload)
        (output, to_output), (errors, to_errors) = os.pipe(), os.pipe()
        try:
            return Fork(self._socket, order, (to_output, to_errors), outputs=(output, errors))
        finally:
            os.close(to_output)
            os.close(to_errors)


def forking(forks: socket.socket) -> Any:
    """The module `subprocess`, but that workers come from that socket."""

    def start(command: Sequence[str], **how: Any) -> Any:
        if tuple(command[1:3]) != OWN_MODULE or command[3] not in MODULES:
            return subprocess.Popen(command, **how)
        order = {"command": command, "environment": how["env"], "folder": os.getcwd(), "starts_workers": False}
        output = how["stdout"].fileno()
        return Fork(forks, order, (output, output), how["pass_fds"])

    return SimpleNamespace(**vars(subprocess) | {"Popen": start})


class Fork:
    """A process, with what is used here and in `lab.process.child` of subprocess.Popen."""

    def __init__(
        self,
        forks: socket.socket,
        order: Mapping[str, Any],
        to: tuple[int, int],
        descriptors: Sequence[int] = (),
        outputs: tuple[int, int] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._outputs = outputs and tuple(os.fdopen(output, encoding="utf-8") for output in outputs)
        reader, writer = os.pipe()
        self.stdin = os.fdopen(writer, "wb")
        try:
            message = json.dumps({**order, "descriptors": descriptors}).encode()
            socket.send_fds(forks, [message], [reader, *to, *descriptors])
        finally:
            os.close(reader)
        self.pid = int(forks.recv(100))

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> None:
        give_up = monotonic() + timeout
        while self.poll() is None:
            if monotonic() > give_up:
                raise subprocess.TimeoutExpired("a fork", timeout)
            sleep(0.01)

    def communicate(self) -> tuple[str, str]:
        """What it has written to its end."""
        assert self._outputs
        self.stdin.close()
        with killed_at_the_limit(self.pid), ThreadPoolExecutor() as readers:
            output, errors = readers.map(lambda file: file.read(), self._outputs)
        for file in self._outputs:
            file.close()
        self.wait(LIMIT_SECONDS)
        return output, errors
