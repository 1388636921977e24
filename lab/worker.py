"""One sweep in one fresh process: `python -m lab.worker RUN_DIRECTORY SWEEP DESCRIPTOR`, started by lab.run.

What is already measured comes in on stdin as JSON; records and signs of life go out as frames.
"""

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from lab.catalogue import choose_experiments
from lab.channel import send
from lab.correctness import Check, call, check_profile, compare, verdict, worse
from lab.definition import Case, Experiment, Profile
from lab.machine import fingerprint
from lab.measure import Clock, make_clock, time_case
from lab.plan import Plan, PlannedExperiment, case_order, load_plan
from lab.record import Cell, Correctness, SweepStart, to_data

Emit = Callable[[str, Any], None]
PATHS = re.compile(r"/[\w.~-]+/[\w./~+-]+")
Key = tuple[str, str, str]  # experiment, case, profile


@dataclass(frozen=True, slots=True)
class Ready:
    """A profile that gave right results and may be timed."""

    profile: Profile
    function: Callable[..., Any]
    prepare_seconds: float
    correctness: Correctness


def main() -> None:
    directory, sweep, descriptor = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    done = {tuple(key) for key in json.load(sys.stdin)}
    plan = load_plan(directory)

    def emit(kind: str, content: Any) -> None:
        send(descriptor, {"kind": kind, "content": content})

    with torch.no_grad():
        run_sweep(plan, sweep, done, emit)
    emit("done", None)


def run_sweep(plan: Plan, sweep: int, done: set[Any], emit: Emit) -> None:
    clock = make_clock(plan.device, plan.protocol.block)
    start = SweepStart(
        sweep=sweep,
        process=f"{sweep}-{os.getpid()}",
        machine=fingerprint(plan.device, clock.properties()),
        launch_floor_seconds=round(clock.launch_floor_seconds(), 10),
        started_utc=now(),
    )
    emit("SweepStart", to_data(start))
    for planned in plan.experiments:
        (experiment,) = choose_experiments([planned.name])
        cases = {case.name: case for case in experiment.cases}
        for planned_case in case_order(plan, planned, sweep):
            todo = {
                profile.name
                for profile in planned.profiles_of(planned_case)
                if (planned.name, planned_case.name, profile.name) not in done
            }
            if todo:
                sweep_case = SweepCase(plan, planned, experiment, cases[planned_case.name], start, clock, emit)
                sweep_case.measure(todo)


@dataclass(frozen=True, slots=True)
class SweepCase:
    """Everything that one case of one sweep needs."""

    plan: Plan
    planned: PlannedExperiment
    experiment: Experiment
    case: Case
    start: SweepStart
    clock: Clock
    emit: Emit

    def measure(self, todo: set[str]) -> None:
        """Check every profile, time those that are right in interleaved rounds, send a record for each."""
        protocol, operator = self.plan.protocol, self.case.operator
        shuffler = random.Random(f"{self.plan.run_id}/{self.start.sweep}/{self.case.name}")
        seeds = tuple(shuffler.getrandbits(31) for _ in range(max(protocol.ring, protocol.seeds)))
        dtype = getattr(torch, self.case.dtype)
        profiles = [profile for profile in self.experiment.profiles if profile.name in todo]
        # A crash from here on is not to be laid to the case before.
        self._announce(profiles[0].name, stage="inputs")
        try:
            ring = [operator.inputs(self.case.shape, dtype, self.clock.device, seed) for seed in seeds]
            truths = [operator.reference(*arguments) for arguments in ring]
        except Exception as problem:  # such as no memory left: the case is lost, not the sweep
            for profile in profiles:
                self._send(profile.name, "failed", f"inputs: {fault(problem)}", None)
            return
        torch._dynamo.reset()
        prepared = [self._prepare(profile, ring, truths, seeds) for profile in profiles]
        ready = {item.profile.name: item for item in prepared if item}
        if not ready:
            return
        timed_checks: dict[str, Check] = {}

        def verify(name: str, ring_index: int, output: Any) -> None:
            timed_checks[name] = compare(operator, output, truths[ring_index], ring[ring_index])

        calls = {name: [partial(item.function, *inputs) for inputs in ring] for name, item in ready.items()}
        announce = partial(self._announce, stage="time")
        timings = time_case(self.clock, calls, protocol, shuffler, verify, announce)
        for name, item in ready.items():
            timed = verdict([timed_checks[name]], item.correctness.seeds)
            item = replace(item, correctness=worse(item.correctness, timed))
            if timed.passed:
                self._send(name, "measured", "", item, timings=(timings[name],))
            else:
                self._send(name, "wrong", f"a timed output was wrong: {timed.message}", item)

    def _prepare(self, profile: Profile, ring: list[Any], truths: list[Any], seeds: tuple[int, ...]) -> Ready | None:
        """Load, compile and check one profile; a profile that cannot be timed leaves its record here."""
        if reason := skip_reason(profile, self.clock.device):
            self._send(profile.name, "skipped", reason, None)
            return None
        self._announce(profile.name, stage="check")
        operator = self.case.operator
        began = time.perf_counter()
        try:
            function = profile.implementations[operator.name]()
            call(function, ring[0])
            seconds = round(time.perf_counter() - began, 6)
            correctness = check_profile(operator, function, ring, truths, seeds)
        except Exception as problem:  # any fault of a profile is a record of its cell, not the end of the sweep
            self._send(profile.name, "failed", fault(problem), None)
            # A CUDA fault can poison the process: then this raises, and the supervisor starts another.
            torch.zeros(1, device=self.clock.device).add_(1).item()
            return None
        item = Ready(profile, function, seconds, correctness)
        if not correctness.passed:
            self._send(profile.name, "wrong", correctness.message, item)
            return None
        return item

    def _send(self, profile: str, outcome: str, reason: str, item: Ready | None, timings: Any = ()) -> None:
        cell = Cell(
            experiment=self.planned.name,
            case=self.case.name,
            profile=profile,
            sweep=self.start.sweep,
            process=self.start.process,
            outcome=outcome,
            reason=reason,
            prepare_seconds=item.prepare_seconds if item else 0.0,
            correctness=item.correctness if item else None,
            timings=timings,
            finished_utc=now(),
        )
        self.emit("Cell", to_data(cell))

    def _announce(self, profile: str, stage: str) -> None:
        self.emit("stage", [self.planned.name, self.case.name, profile, stage])


def skip_reason(profile: Profile, device: str) -> str:
    """Why a profile cannot run here, or nothing."""
    if device not in profile.devices:
        return "needs a CUDA GPU, and this run measures the CPU"
    if profile.package and find_spec(profile.package) is None:
        return f"{profile.package} is not installed; the optional extra 'peers' brings it"
    return ""


def fault(problem: Exception) -> str:
    """An exception as one line without paths."""
    lines = str(problem).strip().splitlines()
    first = lines[0] if lines else ""
    return f"{type(problem).__name__}: {PATHS.sub('(path)', first)}"[:300]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


if __name__ == "__main__":
    main()
