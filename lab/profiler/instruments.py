"""Other instruments on one experiment: `python -m lab.profiler.instruments RUN_DIRECTORY EXPERIMENT DESCRIPTOR`.

Started by lab.profiler.readings; which readings are wanted comes in on stdin as JSON, they go out as frames. Every
instrument calls a profile with the same inputs each time, as nvbench does: its flush makes them cold. All of
them leave the cache full of written lines, whose write-back falls into the timed window; the lab's clock reads
its lines back first. So they read more than the lab's `device_cold`, and "lab, dirty flush", the lab's clock
with a flush that only writes, tells whether that is the whole difference.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from triton.testing import do_bench

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import Case, Experiment, Profile
from lab.definition.plan_file import load_plan
from lab.evidence.codec import to_data
from lab.evidence.record import Reading
from lab.process.channel import send
from lab.process.parent_death import die_with_parent
from lab.profiler.nvbench import Answer, cold_medians
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH, Item
from lab.worker.device import CudaClock
from lab.worker.faults import fault, skip_reason
from lab.worker.guard import Guard
from lab.worker.guarded_names import make_guard

SEED = 1
REPETITION_MILLISECONDS = 200
BLOCKS, BLOCK = 10, 20
SPIN_SECONDS = 500e-6  # longer than any host takes to enqueue a call
SEPARATOR = "|"
Call = Callable[[], Any]


class InstrumentClock(Protocol):
    """What this pass needs of the lab's own clock."""

    device: str

    def cold_seconds(self, runs: list[Call], *, flush_reads: bool, spin_seconds: float) -> list[float]: ...

    def on_stream(self, address: int) -> AbstractContextManager[Any]: ...


def main() -> None:
    die_with_parent()
    guard = make_guard()
    directory, name, descriptor = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    wanted: list[Item] = [(case, profile, instrument) for case, profile, instrument in json.load(sys.stdin)]
    planned = load_plan(directory).experiment(name)
    (experiment,) = choose_experiments([planned.name])
    with torch.no_grad():
        Pass(experiment, CudaClock(), directory, partial(send, descriptor), guard).read(wanted)


@dataclass(frozen=True, slots=True)
class Pass:
    """Takes readings of one experiment's cells and sends each as soon as it is known."""

    experiment: Experiment
    clock: InstrumentClock
    directory: Path
    send: Callable[[Any], None]
    guard: Guard = field(default_factory=make_guard)

    def read(self, wanted: Iterable[Item]) -> None:
        """nvbench comes last, because it gives its times only when all are taken."""
        able = [item for item in wanted if self._able(item)]
        for item in able:
            if item[2] in METHODS:
                self._send(item, self._asked(item))
        if asked := {SEPARATOR.join(item[:2]): item for item in able if item[2] == NVBENCH}:
            preparations = {name: partial(self._prepare, item) for name, item in asked.items()}
            folder = self.directory / "nvbench"
            folder.mkdir(exist_ok=True)
            answers = cold_medians(preparations, self.clock.on_stream, folder / f"{self.experiment.name}.json")
            for name, item in asked.items():
                self._send(item, answers[name])

    def _able(self, item: Item) -> bool:
        """Whether the profile can run here; one that cannot has its reading sent."""
        _, profile = self._cell(item)
        if reason := skip_reason(profile, self.clock.device):
            self._send(item, (None, reason))
        return not reason

    def _asked(self, item: Item) -> Answer:
        try:
            return METHODS[item[2]](self.clock, self._prepare(item)), ""
        except Exception as problem:  # a fault of one cell costs that cell
            return None, fault(problem)

    def _prepare(self, item: Item) -> Call:
        """The cell's call, compiled and run; nothing is left for the GPU to do."""
        case, profile = self._cell(item)
        self._end_if_poisoned()
        self.guard.broken()  # puts right what the profile before replaced, or left active
        self.send({"kind": "stage", "content": [self.experiment.name, *item]})
        torch._dynamo.reset()
        inputs = case.operator.inputs(case.shape, getattr(torch, case.dtype), self.clock.device, SEED)
        call = partial(profile.implementations[case.operator.name](), *inputs)
        self.clock.cold_seconds([call] * 3, flush_reads=False, spin_seconds=0.0)
        return call

    def _end_if_poisoned(self) -> None:
        """A CUDA fault may leave nothing usable in this process: end it, so that the reading before is blamed."""
        try:
            torch.zeros(1, device=self.clock.device).add_(1).item()
        except RuntimeError as problem:
            print(problem, file=sys.stderr, flush=True)
            os._exit(1)  # nvbench would take an exception for a fault of the benchmark

    def _cell(self, item: Item) -> tuple[Case, Profile]:
        case = next(case for case in self.experiment.cases if case.name == item[0])
        return case, next(profile for profile in self.experiment.profiles if profile.name == item[1])

    def _send(self, item: Item, answer: Answer) -> None:
        case, profile, instrument = item
        seconds, reason = answer
        reading = Reading(
            experiment=self.experiment.name, case=case, profile=profile, instrument=instrument,
            seconds=None if seconds is None else round(seconds, 10), reason=reason,
        )  # fmt: skip
        self.send({"kind": "Reading", "content": to_data(reading)})


def by_do_bench(clock: InstrumentClock, call: Call) -> float:
    return float(do_bench(call, rep=REPETITION_MILLISECONDS, return_mode="median")) * 1e-3


def by_dirty_flush(clock: InstrumentClock, call: Call) -> float:
    blocks = [clock.cold_seconds([call] * BLOCK, flush_reads=False, spin_seconds=SPIN_SECONDS) for _ in range(BLOCKS)]
    return statistics.median(seconds for block in blocks for seconds in block)


METHODS: dict[str, Callable[[InstrumentClock, Call], float]] = {DO_BENCH: by_do_bench, DIRTY_FLUSH: by_dirty_flush}

if __name__ == "__main__":
    main()
