"""What one process does for one sweep: load what it will call, then measure case by case."""

import os
from typing import Any

import torch

from lab.definition.catalogue import choose_experiments
from lab.definition.plan import Plan, case_order
from lab.evidence.codec import to_data
from lab.evidence.machine import fingerprint
from lab.evidence.moment import now
from lab.evidence.record import Canary, SweepFinish, SweepStart
from lab.worker.background_work import BackgroundWork
from lab.worker.device import make_clock
from lab.worker.faults import fault, skip_reason
from lab.worker.guard import Guard, Tampering
from lab.worker.guarded_names import authors_modules, make_guard
from lab.worker.inductor import import_compiler
from lab.worker.stage_timer import StageTimer
from lab.worker.sweep_case import SweepCase
from lab.worker.sweep_context import Emit, Key, Loaded, SweepContext


def load(plan: Plan, left_out: set[Any], emit: Emit) -> tuple[Guard, dict[Key, Loaded]]:
    """The guard, and every function by (experiment, operator, profile), or the exception that its loader raised.

    `left_out`: (experiment, profile) of those that took a process down when they were loaded.
    """
    if any(profile.recompiles for planned in plan.experiments for profile in planned.profiles):
        import_compiler()
    guard = make_guard()
    functions: dict[Key, Loaded] = {}
    for planned in plan.experiments:
        (experiment,) = choose_experiments([planned.name])
        guard.broken()  # puts right what importing the experiments replaced, before any profile can be blamed for it
        guard.remember(authors_modules())
        wanted = {case.op for case in planned.included_cases}
        for profile in experiment.profiles:
            if (planned.name, profile.name) in left_out or skip_reason(profile, plan.device):
                continue
            for op in sorted(wanted & profile.implementations.keys()):
                case = next(case.name for case in planned.included_cases if case.op == op)
                emit("stage", [planned.name, case, profile.name, "load"])
                try:
                    functions[planned.name, op, profile.name] = profile.implementations[op]()
                except Exception as problem:  # costs only cells of this profile, and is reported when they come
                    functions[planned.name, op, profile.name] = problem
                if violation := guard.broken_by_loading():
                    functions[planned.name, op, profile.name] = Tampering(f"{violation} when it was loaded")
    return guard, functions


def measure(
    plan: Plan, sweep: int, todo: set[Any], edges: set[Any], guard: Guard, functions: dict[Key, Loaded],
    stage_timer: StageTimer, emit: Emit, place: str = "",
) -> None:  # fmt: skip
    """Measure the cells of the order, those in `edges` with edge inputs too. `place` ends this process's name.

    Each cell is announced first, so that a crash of this process costs only the announced cell.
    """
    try:
        with stage_timer("start"):
            clock = make_clock(plan.device)
        context = SweepContext(
            plan,
            sweep,
            f"{sweep}-{os.getpid()}{place}",
            clock,
            functions,
            guard,
            stage_timer,
            emit,
            edges,
            BackgroundWork(),
        )
        with torch.no_grad():
            _run(context, todo)
    except Exception as problem:
        emit("fault", fault(problem))
        raise


def _run(context: SweepContext, todo: set[Any]) -> None:
    """Case by case in the sweep's random order."""
    with context.stage_timer("start"):
        _start(context)
        _canary(context, "", "")
    for planned in context.plan.experiments:
        (experiment,) = choose_experiments([planned.name])
        cases = {case.name: case for case in experiment.cases}
        for planned_case in case_order(context.plan, planned, context.sweep):
            names = {key[2] for key in todo if key[:2] == (planned.name, planned_case.name)}
            if names:
                SweepCase(context, planned, planned_case, experiment, cases[planned_case.name]).measure(names)
                _canary(context, planned.name, planned_case.name)
    finish = SweepFinish(
        sweep=context.sweep, process=context.process, finished_utc=now(),
        stage_seconds={stage: round(seconds, 3) for stage, seconds in context.stage_timer.seconds.items()},
    )  # fmt: skip
    context.emit("SweepFinish", to_data(finish))


def _start(context: SweepContext) -> None:
    floor_seconds, empty_seconds = context.clock.floors()
    start = SweepStart(
        sweep=context.sweep,
        process=context.process,
        machine=fingerprint(context.plan.device, context.clock.properties()),
        launch_floor_seconds=round(floor_seconds, 10),
        empty_seconds=round(empty_seconds, 10),
        started_utc=now(),
    )
    context.emit("SweepStart", to_data(start))


def _canary(context: SweepContext, experiment: str, after: str) -> None:
    with context.stage_timer("canaries"):
        reading = context.clock.canary()
    if reading:
        canary = Canary(
            sweep=context.sweep, process=context.process, after=after,
            copy_seconds=round(reading[0], 10), spin_hertz=reading[1], experiment=experiment,
        )  # fmt: skip
        context.emit("Canary", to_data(canary))
