"""Other instruments, after timing: a process of their own measures the cells again, to compare with the lab's clock.

They explain how far the lab's times can be trusted; no verdict rests on them. A process that crashes or falls
silent costs the reading it was at; another process takes the rest.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.definition.plan import Plan, PlannedExperiment
from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.record import Reading
from lab.process.channel import Garbled, Reader
from lab.process.child import Child, ending

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
    """Each of these readings once: its time, or why there is none. `environment`: variables that the process gets."""
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
    """One process that takes some readings."""

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
        with self._process() as (child, reader):
            try:
                for frame in Reader(reader).frames(DEADLINE_SECONDS, ended=lambda: child.exit_status() is not None):
                    if reading := self._taken(frame):
                        yield reading
                ended = _ending(child.exit_status(EXIT_SECONDS))
            except (TimeoutError, Garbled) as problem:
                ended = str(problem)
        self.ended = f"the process {ended}; see logs/{self._log.name}"

    def _taken(self, frame: Any) -> Reading | None:
        """The reading in a frame, or None if the frame announces one. Garbled if it was not ordered."""
        message = _decoded(frame)
        item = message.case, message.profile, message.instrument
        if message.experiment != self.experiment.name or item not in self.asked or item in self.delivered:
            raise Garbled("sent a reading that was not ordered")
        if isinstance(message, Reading):
            self.delivered.add(item)
            return message
        self.at = item
        return None

    def lost(self) -> list[Item]:
        """The readings blamed for the end of the process: the one it announced last, else all that were left."""
        owed = [item for item in self.asked if item not in self.delivered]
        return [self.at] if self.at in owed else [] if self.delivered else owed

    def spared(self) -> list[Item]:
        lost = self.lost()
        return [item for item in self.asked if item not in self.delivered and item not in lost]

    @property
    def _log(self) -> Path:
        return self.directory / "logs" / f"instruments-{self.experiment.name}.log"

    @contextmanager
    def _process(self) -> Iterator[tuple[Child, int]]:
        """The process, with its order, and the end of its pipe; it and all that it started end with the block."""
        self._log.parent.mkdir(exist_ok=True)
        reader, writer = os.pipe()
        arguments = [str(self.directory), self.experiment.name, str(writer)]
        with self._log.open("a") as output:
            child = Child(
                "lab.profiler.instruments", arguments, output, environment=self.environment, descriptors=[writer]
            )
        os.close(writer)
        try:
            child.order(json.dumps(self.asked))
            yield child, reader
        finally:
            os.close(reader)
            child.end()


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
        raise Garbled(f"sent an invalid frame: {problem}") from None


def _ending(status: os.waitid_result | None) -> str:
    if status is None:
        return "closed its channel and stayed"
    if status.si_code == os.CLD_EXITED and status.si_status == 0:
        return "ended without this reading"
    return ending(status)


def _silent(experiment: PlannedExperiment, item: Item, reason: str) -> Reading:
    case, profile, instrument = item
    return Reading(
        experiment=experiment.name, case=case, profile=profile, instrument=instrument, seconds=None, reason=reason
    )
