"""One worker process: start it, wait until it has loaded, give it cells, read its messages, end it."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.process.channel import FramesTimeout, Garbled, Reader
from lab.process.child import Child, ending, killed_from_outside
from lab.supervisor.reported_times import ReportedTimes
from lab.supervisor.run_state import Key

EXIT_SECONDS = 30.0  # for a process to end after its last frame
LOG_BYTES = 1 << 20  # kept of a worker's output
FLOOD_BYTES = 16 << 20  # of it on disk, cut while it measures: a flood of output must not fill the disk


class WorkerEnded(Exception):
    """A worker ended before it was done. The message says how, as in 'the worker ...'."""

    def __init__(self, how: str, from_outside: bool = False) -> None:
        super().__init__(how)
        self.from_outside = from_outside  # killed by a signal that another process or the kernel sends


class DeadlinePassed(WorkerEnded):
    """The supervisor ended it because the whole sweep took too long, which is no fault of the current cell."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to measure: cells of a sweep, and those of them to check with edge inputs too."""

    sweep: int
    todo: Sequence[Key]
    edges: Sequence[Key]
    place: str = ""  # ends the process's name where a run has several hosts, whose process ids may be the same


class WorkerProcess:
    """Frames come from it, records of one sweep; always call `end`."""

    def __init__(
        self, directory: Path, log: Path, left_out: Sequence[tuple[str, str]], environment: Mapping[str, str]
    ) -> None:
        self.log = log
        self.at: list[str] = []  # experiment, case, profile and stage that it announced last
        self.fault = ""  # the exception that it reports before it ends
        self.reported = ReportedTimes()
        log.parent.mkdir(exist_ok=True)
        reader, writer = os.pipe()
        self._descriptor, self._reader, self._ended = reader, Reader(reader), False
        extra = [json.dumps(left_out)] if left_out else []
        try:
            with log.open("a") as output:
                self._child = Child(
                    "lab.worker", [str(directory), str(writer), *extra], output,
                    environment={"TORCHINDUCTOR_COMPILE_THREADS": "1", **environment}, descriptors=[writer],
                )  # fmt: skip
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait_until_loaded(self, silence_seconds: float) -> None:
        for kind, _ in self._frames(silence_seconds, 0.0):
            if kind == "loaded":
                self.at = []
                return

    def measure(self, order: Order, silence_seconds: float, limit_seconds: float) -> Iterator[tuple[str, Any]]:
        """Give it its order; (kind, content) of what it sends until it is done."""
        self._child.order(json.dumps(dataclasses.asdict(order)))
        for kind, content in self._frames(silence_seconds, limit_seconds):
            if kind == "done":
                self._child.exit_status(EXIT_SECONDS)
                return
            yield kind, content

    def end(self) -> None:
        """End the process and all that it started."""
        if self._ended:
            return
        self._ended = True
        os.close(self._descriptor)
        self._child.end()
        _keep_tail(self.log, LOG_BYTES)

    def last_output(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def _frames(self, silence_seconds: float, limit_seconds: float) -> Iterator[tuple[str, Any]]:
        """Its messages, one after another; WorkerEnded where they end."""
        try:
            for frame in self._reader.frames(silence_seconds, limit_seconds, self._has_ended):
                if not isinstance(frame, dict) or "kind" not in frame:
                    raise Garbled("sent a frame without a kind: this breaks the protocol")
                kind, content = str(frame["kind"]), frame.get("content")
                if kind == "stage" and content:
                    self.at = [str(part) for part in content]
                elif kind == "fault":
                    self.fault = str(content)
                if not self.reported.accepts(kind, content, self.at):
                    yield kind, content
        except FramesTimeout as problem:
            raise DeadlinePassed(str(problem)) from None
        except (TimeoutError, Garbled) as problem:
            raise WorkerEnded(str(problem)) from None
        status = self._child.exit_status(EXIT_SECONDS)
        if status is None:
            raise WorkerEnded("closed its channel and stayed")
        raise WorkerEnded(ending(status), killed_from_outside(status))

    def _has_ended(self) -> bool:
        """Whether the worker has ended. Polled while it runs, so it also keeps its log short."""
        _keep_tail(self.log, FLOOD_BYTES)
        return self._child.exit_status() is not None


def _keep_tail(log: Path, most_bytes: int) -> None:
    """Keep only the end of a log that is longer than this; the worker goes on appending to it."""
    if log.stat().st_size > most_bytes:
        with log.open("rb") as file:
            file.seek(-LOG_BYTES, os.SEEK_END)
            tail = file.read()
        log.write_bytes(b"(cut)\n" + tail)
