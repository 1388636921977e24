"""A sweep of doubling profiles in this process: what its worker would say of them, as the supervisor hears it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from factory import DOUBLING, FAST_BEATS_PLAIN, SMALL, machine, plan_of, profile, small_experiment

from lab.definition.experiment import Loader, Operator
from lab.definition.plan import Protocol
from lab.evidence.record import Cell, Record
from lab.supervisor.reported_times import ReportedTimes
from lab.supervisor.watch import Watcher
from lab.supervisor.worker_protocol import WorkerProtocol
from lab.worker import cpu, measure_sweep
from lab.worker.cpu import CpuClock
from lab.worker.stage_timer import StageTimer

QUICK = Protocol(rounds=3, fewest_rounds=3, block=6, warmup_seconds=0.002)


def swept(
    monkeypatch: pytest.MonkeyPatch,
    profiles: Mapping[str, Loader],
    *,
    clock: type[CpuClock] = CpuClock,
    operator: Operator = DOUBLING,
    kernels: Mapping[str, str] | None = None,
    sweep: int = 0,
    **changes: Any,
) -> dict[str, Cell]:
    """The cells of `profiles`, in this order, by name; the honest `plain` and `fast` stand before and after them."""
    names = ("plain", *profiles, "fast")
    loaders = {name: profiles.get(name, lambda: lambda x: x * 2) for name in names}
    subjects = tuple(
        profile(name, implementations={operator.name: load}, kernels=kernels if name in profiles else None)
        for name, load in loaders.items()
    )
    case = dataclasses.replace(SMALL, operator=operator)
    claim = dataclasses.replace(FAST_BEATS_PLAIN, baseline=subjects[0], subject=subjects[-1], cases=(case,))
    experiment = small_experiment(cases=(case,), profiles=subjects, claims=(claim,), headlines=(claim,), **changes)
    monkeypatch.setattr(measure_sweep, "choose_experiments", lambda names: (experiment,))
    monkeypatch.setattr(measure_sweep, "fingerprint", lambda *asked: machine("cpu"))  # asks git and the driver
    monkeypatch.setattr(measure_sweep, "make_clock", lambda device: clock())
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 1 << 12)
    plan = plan_of("here", device="cpu", experiments=[experiment], protocol=QUICK)
    todo = {(experiment.name, case.name, name) for name in names}
    messages, reported = WorkerProtocol(sweep, todo, Watcher(None)), ReportedTimes()
    kept: list[Record] = []
    at: list[str] = []

    def emit(kind: str, content: Any) -> None:
        if kind == "stage":
            at[:] = content
        if reported.accepts(kind, content, at) or kind in ("load", "loaded", "done"):
            return
        if not (kind == "stage" and content[3] == "load"):
            kept.extend(reported.as_reported(record) for record in messages.take(kind, content))

    guard, functions = measure_sweep.load(plan, set(), emit)
    measure_sweep.measure(plan, sweep, todo, todo, guard, functions, StageTimer(), emit)
    messages.finish()
    return {record.profile: record for record in kept if isinstance(record, Cell)}


def blamed(cells: Mapping[str, Cell]) -> dict[str, str]:
    """The reasons of those that are not measured."""
    return {name: cell.reason for name, cell in cells.items() if cell.outcome != "measured"}
