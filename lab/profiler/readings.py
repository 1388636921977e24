"""Other instruments, after timing: a process of their own measures the cells again, to compare with the lab's clock.

They explain how far the lab's times can be trusted; no verdict rests on them. A process that crashes or falls
silent costs the reading it was at; another process takes the rest.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.definition.plan import Plan, PlannedExperiment
from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.record import Reading
from lab.evidence.source import OWN_MODULE, child_environment
from lab.supervisor.channel import Garbled, Reader
from lab.supervisor.orphan import mark_parent
from lab.supervisor.process import SIGNALS, TERM_SECONDS

DO_BENCH = "triton do_bench"
DIRTY_FLUSH = "lab, dirty flush"
NVBENCH = "nvbench"
INSTRUMENTS = (DO_BENCH, DIRTY_FLUSH, NVBENCH)
DEADLINE_SECONDS = 120.0  # without a sign of life
EXIT_SECONDS = 30.0  # for the process to end after its last frame
Item = tuple[str, str, str]  # case, profile, instrument


def wanted_readings(experiment: PlannedExperiment) -> list[Item]:
    """Every cell of the experiment by every instrument."""
    return [(case.name, profile.name, each) for case, profile in experiment.cells() for each in INSTRUMENTS]


def read_instruments(
    plan: Plan,
    experiment: PlannedExperiment,
    directory: Path,
    waiting: list[Item],
    environment: Mapping[str, str] = {},
) -> Iterator[Reading]:
    """Each of these readings once: its time, or why there is none. environment: as in lab.profiler.ncu.Request."""
    if plan.device != "cuda":
        for item in waiting:
            yield _silent(experiment, item, "needs a CUDA GPU, and this run measures the CPU")
        return
    while waiting:
        attempt = Attempt(experiment, directory, waiting, environment)
        yield from attempt.readings()
        for item in attempt.lost():
            yield _silent(experiment, item, attempt.ended)
        waiting = attempt.spared()


class Attempt:
    """One process that is asked for some readings."""

    def __init__(
        self,
        experiment: PlannedExperiment,
        directory: Path,
        asked: list[Item],
        environment: Mapping[str, str] = {},
    ) -> None:
        self.experiment = experiment
        self.directory = directory
        self.asked = asked
        self.environment = environment
        self.delivered: set[Item] = set()
        self.at: Item | None = None  # what the process announced last
        self.ended = ""

    def readings(self) -> Iterator[Reading]:
        """What the process delivers, until it is done, dies or falls silent; then `ended` says which."""
        with self._process() as (process, reader):
            try:
                for frame in Reader(reader).frames(DEADLINE_SECONDS, ended=lambda: process.poll() is not None):
                    if reading := self._taken(frame):
                        yield reading
                ended = _ending(process.wait(EXIT_SECONDS))
            except (TimeoutError, Garbled) as problem:
                ended = str(problem)
            except subprocess.TimeoutExpired:
                ended = "closed its channel and stayed"
        self.ended = f"the process {ended}; see logs/{self._log.name}"

    def _taken(self, frame: Any) -> Reading | None:
        """The reading in a frame, or none where it announces one; Garbled where nothing such was asked for."""
        told = _decoded(frame)
        item = told.case, told.profile, told.instrument
        if told.experiment != self.experiment.name or item not in self.asked or item in self.delivered:
            raise Garbled("told of a reading that it was not asked for")
        if isinstance(told, Reading):
            self.delivered.add(item)
            return told
        self.at = item
        return None

    def lost(self) -> list[Item]:
        """What the end of the process is laid to: the reading it was at, else all that it still owed."""
        owed = [item for item in self.asked if item not in self.delivered]
        return [self.at] if self.at in owed else [] if self.delivered else owed

    def spared(self) -> list[Item]:
        lost = self.lost()
        return [item for item in self.asked if item not in self.delivered and item not in lost]

    @property
    def _log(self) -> Path:
        return self.directory / "logs" / f"instruments-{self.experiment.name}.log"

    @contextmanager
    def _process(self) -> Iterator[tuple[subprocess.Popen[Any], int]]:
        """The process, asked, and the end of its pipe; its whole group ends with the block."""
        self._log.parent.mkdir(exist_ok=True)
        reader, writer = os.pipe()
        arguments = ["lab.profiler.instruments", str(self.directory), self.experiment.name, str(writer)]
        with self._log.open("a") as output:
            process = subprocess.Popen(
                [sys.executable, *OWN_MODULE, *arguments],
                stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], start_new_session=True,
                env={**child_environment(), **self.environment, **mark_parent()},
            )  # fmt: skip
        os.close(writer)
        try:
            _ask(process, self.asked)
            yield process, reader
        finally:
            os.close(reader)
            _end(process)


@dataclass(frozen=True, slots=True)
class _Announced:
    """A reading that is taken now."""

    experiment: str
    case: str
    profile: str
    instrument: str


def _decoded(frame: Any) -> Reading | _Announced:
    try:
        if frame["kind"] == "stage":
            return _Announced(*(str(part) for part in frame["content"]))
        return from_data(Reading, frame["content"])
    except (RunError, LookupError, TypeError) as problem:
        raise Garbled(f"sent a frame that is none of ours: {problem}") from None


def _ask(process: subprocess.Popen[Any], asked: list[Item]) -> None:
    # One that died at once says how with its exit code.
    with suppress(BrokenPipeError), process.stdin as orders:  # type: ignore[union-attr]
        orders.write(json.dumps(asked).encode())


def _end(process: subprocess.Popen[Any]) -> None:
    """Ask the process and all that it started to end, then make them."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        # Not waited for: an ended leader keeps the group's number from being given to another.
        give_up = time.monotonic() + TERM_SECONDS
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) and time.monotonic() < give_up:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {SIGNALS.get(-code, f'signal {-code}')}"
    return f"ended with code {code}" if code else "ended without this reading"


def _silent(experiment: PlannedExperiment, item: Item, reason: str) -> Reading:
    case, profile, instrument = item
    return Reading(
        experiment=experiment.name, case=case, profile=profile, instrument=instrument, seconds=None, reason=reason
    )
