"""One worker process: started, loaded, given its cells, heard to its end. It never outlives this process."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.errors import RunError
from lab.evidence.source import OWN_MODULE, child_environment
from lab.supervisor.channel import Garbled, Reader, TookTooLong
from lab.supervisor.ledger import Key
from lab.supervisor.orphan import mark_parent
from lab.supervisor.testimony import Testimony

TERM_SECONDS = 5.0  # between asking a worker to end and ending it
EXIT_SECONDS = 30.0  # for a process to end after its last frame
KILLED_SECONDS = 60.0
LOG_BYTES = 1 << 20  # kept of what a worker says
FLOOD_BYTES = 16 << 20  # of it on disk, cut while it measures: a flood of output must not fill the disk
SIGNALS = {number.value: number.name for number in signal.Signals}


class WorkerEnded(Exception):
    """A worker came to its end before it was done. The message says how, as in 'the worker ...'."""


class DeadlinePassed(WorkerEnded):
    """It was ended for what it took in all, which is no fault of what it was at."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to measure: cells of a sweep, and those of them that it asks for edge inputs too."""

    sweep: int
    todo: Sequence[Key]
    edges: Sequence[Key]


class WorkerProcess:
    """Frames come from it, records of one sweep; `end` it whatever happens."""

    def __init__(
        self, directory: Path, log: Path, left_out: Sequence[tuple[str, str]], environment: Mapping[str, str]
    ) -> None:
        self.log = log
        self.at: list[str] = []  # experiment, case, profile and stage that it announced last
        self.fault = ""  # the exception that it says it dies of
        self.testimony = Testimony()
        log.parent.mkdir(exist_ok=True)
        reader, writer = os.pipe()
        self._descriptor, self._reader = reader, Reader(reader)
        extra = [json.dumps(left_out)] if left_out else []
        try:
            with log.open("a") as output:
                self._process = subprocess.Popen(
                    [sys.executable, *OWN_MODULE, "lab.worker", str(directory), str(writer), *extra],
                    stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], start_new_session=True,
                    env={**child_environment(), "TORCHINDUCTOR_COMPILE_THREADS": "1", **environment, **mark_parent()},
                )  # fmt: skip
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_loaded(self, silence_seconds: float) -> None:
        for kind, _ in self._frames(silence_seconds, 0.0):
            if kind == "loaded":
                self.at = []
                return

    def measure(self, order: Order, silence_seconds: float, limit_seconds: float) -> Iterator[tuple[str, Any]]:
        """Give it its order; (kind, content) of what it sends until it is done."""
        with suppress(BrokenPipeError), self._process.stdin as orders:  # type: ignore[union-attr]
            orders.write(json.dumps(dataclasses.asdict(order)).encode())
        for kind, content in self._frames(silence_seconds, limit_seconds):
            if kind == "done":
                self._exit_status(EXIT_SECONDS)
                return
            yield kind, content

    def end(self) -> None:
        """Ask the process and all that it started to end, then make them."""
        if self._process.returncode is not None:
            return
        os.close(self._descriptor)
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        # Until it is waited for, an ended leader keeps the group's number from being given to another.
        if self._exit_status(0.0) is None:
            os.killpg(self.pid, signal.SIGTERM)
            self._exit_status(TERM_SECONDS)
        os.killpg(self.pid, signal.SIGKILL)
        try:
            self._process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            raise RunError(
                f"process {self.pid} does not end although it was killed: the GPU's driver holds it; "
                "the run can go on where it is once that process is gone"
            ) from None
        _keep_tail(self.log, LOG_BYTES)

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def _frames(self, silence_seconds: float, limit_seconds: float) -> Iterator[tuple[str, Any]]:
        """What it sends, forever: WorkerEnded where that ends."""
        try:
            for frame in self._reader.frames(silence_seconds, limit_seconds, self._looked_after):
                if not isinstance(frame, dict) or "kind" not in frame:
                    raise Garbled("sent a frame without a kind: it is not speaking our protocol")
                kind, content = str(frame["kind"]), frame.get("content")
                if kind == "stage" and content:
                    self.at = [str(part) for part in content]
                elif kind == "fault":
                    self.fault = str(content)
                if not self.testimony.takes(kind, content, self.at):
                    yield kind, content
        except TookTooLong as problem:
            raise DeadlinePassed(str(problem)) from None
        except (TimeoutError, Garbled) as problem:
            raise WorkerEnded(str(problem)) from None
        raise WorkerEnded(self._ending())

    def _looked_after(self) -> bool:
        """Whether it has ended; what it says meanwhile is kept from filling the disk."""
        _keep_tail(self.log, FLOOD_BYTES)
        return self._exit_status(0.0) is not None

    def _ending(self) -> str:
        status = self._exit_status(EXIT_SECONDS)
        if status is None:
            return "closed its channel and stayed"
        if status.si_code == os.CLD_EXITED:
            return f"ended with code {status.si_status}"
        return f"was killed by {SIGNALS.get(status.si_status, f'signal {status.si_status}')}"

    def _exit_status(self, patience_seconds: float) -> os.waitid_result | None:
        """How it ended, or None where it has not within the time. It stays to be waited for."""
        give_up = time.monotonic() + patience_seconds
        while True:
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if status or time.monotonic() >= give_up:
                return status
            time.sleep(0.01)


def _keep_tail(log: Path, most_bytes: int) -> None:
    """Cut it where it is longer than this. Whoever writes to it meanwhile appends."""
    if log.stat().st_size > most_bytes:
        with log.open("rb") as file:
            file.seek(-LOG_BYTES, os.SEEK_END)
            tail = file.read()
        log.write_bytes(b"(cut)\n" + tail)
