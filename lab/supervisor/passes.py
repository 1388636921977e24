"""The passes after timing, which explain it and time nothing: counters, and other instruments."""

import time
from collections.abc import Callable, Mapping, Sequence

from lab.definition.plan import Plan, PlannedExperiment
from lab.evidence.machine import fingerprint
from lab.evidence.record import FlushCheck
from lab.profiler.ahead import CountersAhead
from lab.profiler.nsight import check_flush, profile_experiment
from lab.profiler.readings import read_instruments, wanted_readings
from lab.supervisor.caches import Caches
from lab.supervisor.progress import in_words
from lab.supervisor.resume import TOLD_BY_WORKERS, refuse_other_machine
from lab.supervisor.run_state import RunState, key_of
from lab.supervisor.sweeps import is_counted

Say = Callable[[str], None]


def explain(
    plan: Plan, experiments: Sequence[PlannedExperiment], state: RunState, caches: Caches | None, say: Say,
    flush: bool = True, ahead: CountersAhead | None = None,
) -> float:  # fmt: skip
    """All passes over these experiments that are still lacking; seconds that they took. `flush`: check that too.
    `ahead`: what was loaded for the first of them."""
    began = time.monotonic()
    environment = caches.for_passes().environment if caches else {}
    if plan.profiling or plan.instruments:
        # No sweep may have begun in this process: the run may lie on another box than before.
        refuse_other_machine(state, fingerprint(plan.device, {}), TOLD_BY_WORKERS)
    if plan.profiling:
        for experiment in [each for each in experiments if each in plan.counted]:
            _profile(plan, experiment, state, environment, say, ahead)
        if flush and plan.device == "cuda" and not any(isinstance(record, FlushCheck) for record in state.records):
            state.keep(check_flush(state.directory, plan.device))
    if plan.instruments:
        for experiment in experiments:
            _read(plan, experiment, state, environment, say)
    return time.monotonic() - began


def _profile(
    plan: Plan, experiment: PlannedExperiment, state: RunState, environment: Mapping[str, str], say: Say,
    ahead: CountersAhead | None,
) -> None:  # fmt: skip
    if is_counted(plan, experiment, state):
        return
    say(f"profiling {experiment.name} with Nsight Compute, all cells in one pass; its log is ncu/{experiment.name}.log")
    began = time.monotonic()
    loaded = ahead.of(experiment) if ahead else None
    records = list(
        profile_experiment(plan, experiment, state.directory, state.cells.values(), environment, loaded, say)
    )
    counted = state.counted()
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
