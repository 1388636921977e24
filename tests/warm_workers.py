"""Real worker processes that do not import torch anew: each is forked from a process that has imported it.

Importing takes most of the CPU time of a worker that measures toys. A test that starts many workers through
`lab.process.child` asks for the fixture `warm_workers`; all else about its workers is real: an own process and session,
the channel, the log, the environment, and how they end. Tests that start the command line have workers from scratch.

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
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
import small_caches

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
        forking = SimpleNamespace(**vars(subprocess) | {"Popen": self._start})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lab.process.child.subprocess", forking)
            yield

    def _start(self, command: Sequence[str], **how: Any) -> Any:
        if tuple(command[1:3]) != OWN_MODULE or command[3] not in MODULES:
            return subprocess.Popen(command, **how)
        order = {"command": command, "environment": how["env"]}
        return Fork(self._socket, order, how["stdout"].fileno(), how["pass_fds"])


class Fork:
    """A worker, with what `lab.process.child` uses of subprocess.Popen."""

    def __init__(self, forks: socket.socket, order: Mapping[str, Any], output: int, descriptors: Sequence[int]) -> None:
        self.returncode: int | None = None
        order = {**order, "folder": os.getcwd(), "descriptors": descriptors}
        reader, writer = os.pipe()
        self.stdin = os.fdopen(writer, "wb")
        try:
            socket.send_fds(forks, [json.dumps(order).encode()], [reader, output, *descriptors])
        finally:
            os.close(reader)
        self.pid = int(forks.recv(100))

    def wait(self, timeout: float) -> None:
        give_up = monotonic() + timeout
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            if monotonic() > give_up:
                raise subprocess.TimeoutExpired("a worker", timeout)
            sleep(0.01)
        self.returncode = os.waitstatus_to_exitcode(ended[1])
