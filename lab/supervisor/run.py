"""The supervisor: plan → sweeps in fresh processes → journal. What was measured survives a crash.

A worker that crashes or falls silent costs the cell it was at; another worker measures the rest.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from lab.definition.plan import Plan, PlannedExperiment
from lab.errors import RunError
from lab.evidence.machine import fingerprint
from lab.evidence.moment import now
from lab.evidence.nvml import first_visible, visible_gpu
from lab.evidence.record import FlushCheck, RunFinish
from lab.profiler.nsight import check_flush, profile_experiment
from lab.profiler.readings import read_instruments, wanted_readings
from lab.supervisor.caches import Caches
from lab.supervisor.costs import where_time_went
from lab.supervisor.lock import gpu_lock, run_lock
from lab.supervisor.progress import in_words
from lab.supervisor.resume import TOLD_BY_WORKERS, open_run, refuse_other_machine
from lab.supervisor.run_state import RunState, key_of
from lab.supervisor.sweeps import measure_sweeps, not_for_this_device
from lab.supervisor.watch import Watcher

Say = Callable[[str], None]


def run(plan: Plan, directory: Path, say: Say) -> None:
    """Measure all that the plan still lacks. RunError where the run is finished, in use, or another's, and where
    another run is on the GPU. Call it from the main thread: workers end with the thread that started them."""
    began = time.monotonic()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise RunError(f"{directory}: cannot be made a run's directory: {refusal.strerror}") from None
    with run_lock(directory), visible_gpu(plan.device) as gpu:
        with gpu_lock(plan.device, gpu.identity if gpu else first_visible()):
            state = open_run(plan, directory)
            with Caches(directory) if plan.protocol.fresh_caches else nullcontext() as caches:
                ahead_seconds = measure_sweeps(plan, state, Watcher(gpu), caches, say)
                _refuse_nothing(state)
                profiling_seconds = _explain(plan, state, caches, say)
        wall_seconds = time.monotonic() - began
        spent = [None if state.resumed else round(seconds, 3) for seconds in (wall_seconds, profiling_seconds)]
        state.keep(RunFinish(finished_utc=now(), wall_seconds=spent[0], profiling_seconds=spent[1]))
        for line in where_time_went(
            state.records, wall_seconds=wall_seconds, ahead_seconds=ahead_seconds,
            profiling_seconds=profiling_seconds, resumed=state.resumed,
        ):  # fmt: skip
            say(line)


def _refuse_nothing(state: RunState) -> None:
    """RunError where no cell was measured. The journal is set aside, so that the run can be started again."""
    outcomes = Counter(cell.outcome for cell in state.cells.values())
    if outcomes["measured"]:
        return
    reasons = Counter(cell.reason for cell in state.cells.values())
    often = "; ".join(f"{reason or 'no reason'} ({count} cells)" for reason, count in reasons.most_common(3))
    aside = state.set_aside()
    raise RunError(
        f"{state.directory}: nothing was measured: {often}. What happened is kept in {aside.name}, and the run can be "
        "started again under its name"
    )


def _explain(plan: Plan, state: RunState, caches: Caches | None, say: Say) -> float:
    """The passes after timing, which explain it and time nothing; seconds that they took."""
    began = time.monotonic()
    environment = caches.for_passes().environment if caches else {}
    if plan.profiling or plan.instruments:
        # No sweep may have begun in this process: the run may lie on another box than before.
        refuse_other_machine(state, fingerprint(plan.device, {}), TOLD_BY_WORKERS)
    if plan.profiling:
        for experiment in plan.experiments:
            _profile(plan, experiment, state, environment, say)
        if plan.device == "cuda" and not any(isinstance(record, FlushCheck) for record in state.records):
            state.keep(check_flush(state.directory, plan.device))
    if plan.instruments:
        for experiment in plan.experiments:
            _read(plan, experiment, state, environment, say)
    return time.monotonic() - began


def _profile(
    plan: Plan, experiment: PlannedExperiment, state: RunState, environment: Mapping[str, str], say: Say
) -> None:
    cells = {(experiment.name, case.name, profile.name) for case, profile in experiment.cells()}
    counted = state.counted()
    if cells - not_for_this_device(plan) <= counted:
        return
    say(f"profiling {experiment.name} with Nsight Compute, all cells in one pass; its log is ncu/{experiment.name}.log")
    began = time.monotonic()
    records = list(profile_experiment(plan, experiment, state.directory, state.cells.values(), environment))
    for counters in records:
        if key_of(counters) not in counted:
            state.keep(counters)
    measured = sum(counters.outcome == "measured" for counters in records)
    say(f"  counters of {measured} of {len(records)} cells in {in_words(time.monotonic() - began)}")
    for reason in sorted({counters.reason for counters in records if counters.outcome == "blocked"}):
        say(f"  counters: blocked: {reason}")


def _read(plan: Plan, experiment: PlannedExperiment, state: RunState, environment: Mapping[str, str], say: Say) -> None:
    taken = state.read_already(experiment.name)
    wanted = wanted_readings(experiment)
    waiting = [item for item in wanted if item not in taken]
    if not waiting:
        return
    say(f"reading {experiment.name} with other instruments")
    for reading in read_instruments(plan, experiment, state.directory, waiting, environment):
        state.keep(reading)  # as it comes: an interruption costs only what is not read yet
        taken[reading.case, reading.profile, reading.instrument] = reading
    say(f"  {sum(reading.seconds is not None for reading in taken.values())} of {len(wanted)} readings")
