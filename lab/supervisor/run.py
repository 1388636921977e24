"""The supervisor: plan → sweeps in fresh processes → journal. Whatever dies, what was measured stays.

A worker that crashes or falls silent costs the cell it was at; another worker measures the rest.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lab.definition.plan import Plan, PlannedExperiment
from lab.errors import RunError
from lab.evidence.machine import fingerprint
from lab.evidence.moment import now
from lab.evidence.nvml import first_visible, visible_gpu
from lab.evidence.record import FlushCheck, RunFinish, SweepFinish
from lab.profiler.nsight import check_flush, profile_experiment
from lab.profiler.readings import read_instruments, wanted_readings
from lab.supervisor.crew import Crew
from lab.supervisor.ledger import Key, Ledger, key_of
from lab.supervisor.lock import gpu_lock, run_lock
from lab.supervisor.progress import RunProgress, in_words
from lab.supervisor.quarantine import quarantined
from lab.supervisor.resume import TOLD_BY_WORKERS, open_run, refuse_other_machine
from lab.supervisor.sweep import Sweep
from lab.supervisor.watch import Watcher
from lab.verdict.precision import imprecise_cases

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
            ledger = open_run(plan, directory)
            _time(plan, ledger, Watcher(gpu), say)
            profiling_seconds = _explain(plan, ledger, say)
        wall_seconds = time.monotonic() - began
        spent = [None if ledger.resumed else round(seconds, 3) for seconds in (wall_seconds, profiling_seconds)]
        ledger.keep(RunFinish(finished_utc=now(), wall_seconds=spent[0], profiling_seconds=spent[1]))
        say(_where_time_went(ledger, wall_seconds, profiling_seconds))


def _time(plan: Plan, ledger: Ledger, watcher: Watcher, say: Say) -> None:
    """The planned sweeps, then as many more as precision asks for."""
    sweeps, protocol = range(plan.protocol.sweeps), plan.protocol
    every = [(experiment.name, case.name, profile.name) for experiment in plan.experiments
             for case, profile in experiment.cells()]  # fmt: skip
    lacking = [(sweep, key) for sweep in sweeps for key in ledger.lacking(sweep, every)]
    if ledger.cells:
        done = len(every) * len(sweeps) - len(lacking)
        say(f"resuming: {done} of {len(every) * len(sweeps)} cells are measured")
    with (
        RunProgress(lacking, _not_for_this_device(plan), len(ledger.cells), len(sweeps)) as progress,
        Crew(ledger.directory, protocol.deadline_seconds, progress.say) as crew,
    ):
        incomplete = sorted({sweep for sweep, _ in lacking})
        for position, number in enumerate(incomplete, start=1):
            Sweep(plan, number, every, ledger, crew, watcher, progress).complete(incomplete[position:])
        for number in range(protocol.sweeps, protocol.most_sweeps):
            wanted = _imprecise(plan, every, ledger, number)
            if not wanted:
                break
            if again := ledger.lacking(number, wanted):
                progress.more((number, key) for key in again)
                progress.say(f"{len({key[:2] for key in wanted})} cases are not precise enough yet")
                Sweep(plan, number, wanted, ledger, crew, watcher, progress).complete(
                    range(number + 1, protocol.most_sweeps)
                )


def _imprecise(plan: Plan, every: list[Key], ledger: Ledger, sweep: int) -> list[Key]:
    """The cells of one sweep more. Told from the sweeps before it, so that a resumed run asks the same."""
    cases = imprecise_cases(plan, ledger.before(sweep))
    before = [cell for cell in ledger.cells.values() if cell.sweep < sweep]
    return [
        key
        for key in every
        if key[:2] in cases and not quarantined(before, key[0], key[2], plan.protocol.crashes)
    ]  # fmt: skip


def _not_for_this_device(plan: Plan) -> list[Key]:
    return [
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
        if plan.device not in profile.devices
    ]


def _explain(plan: Plan, ledger: Ledger, say: Say) -> float:
    """The passes after timing, which explain it and time nothing; seconds that they took."""
    began = time.monotonic()
    if plan.profiling or plan.instruments:
        # No sweep may have begun in this process: the run may lie on another box than before.
        refuse_other_machine(ledger, fingerprint(plan.device, {}), TOLD_BY_WORKERS)
    if plan.profiling:
        for experiment in plan.experiments:
            _profile(plan, experiment, ledger, say)
        if plan.device == "cuda" and not any(isinstance(record, FlushCheck) for record in ledger.records):
            ledger.keep(check_flush(ledger.directory, plan.device))
    if plan.instruments:
        for experiment in plan.experiments:
            _read(plan, experiment, ledger, say)
    return time.monotonic() - began


def _profile(plan: Plan, experiment: PlannedExperiment, ledger: Ledger, say: Say) -> None:
    cells = {(experiment.name, case.name, profile.name) for case, profile in experiment.cells()}
    counted = ledger.counted()
    if cells - set(_not_for_this_device(plan)) <= counted:
        return
    say(f"profiling {experiment.name} with Nsight Compute, all cells in one pass; its log is ncu/{experiment.name}.log")
    began = time.monotonic()
    found = list(profile_experiment(plan, experiment, ledger.directory, ledger.cells.values()))
    for counters in found:
        if key_of(counters) not in counted:
            ledger.keep(counters)
    measured = sum(counters.outcome == "measured" for counters in found)
    say(f"  counters of {measured} of {len(found)} cells in {in_words(time.monotonic() - began)}")
    for reason in sorted({counters.reason for counters in found if counters.outcome == "blocked"}):
        say(f"  counters: blocked: {reason}")


def _read(plan: Plan, experiment: PlannedExperiment, ledger: Ledger, say: Say) -> None:
    taken = ledger.read_already(experiment.name)
    wanted = wanted_readings(experiment)
    waiting = [item for item in wanted if item not in taken]
    if not waiting:
        return
    say(f"reading {experiment.name} with other instruments")
    for reading in read_instruments(plan, experiment, ledger.directory, waiting):
        ledger.keep(reading)  # as it comes: an interruption costs only what is not read yet
        taken[reading.case, reading.profile, reading.instrument] = reading
    say(f"  {sum(reading.seconds is not None for reading in taken.values())} of {len(wanted)} readings")


def _where_time_went(ledger: Ledger, wall_seconds: float, profiling_seconds: float) -> str:
    finishes = [record for record in ledger.records if isinstance(record, SweepFinish)]
    spent: Counter[str] = Counter()
    for finish in finishes:
        spent.update(finish.stage_seconds)
    stages = [f"{stage} {seconds:.1f} s" for stage, seconds in spent.items()]
    inside = f"{len(finishes)} worker processes: {', '.join(stages) or 'nothing'}"
    before = "; what the run cost before it was resumed is not known" if ledger.resumed else ""
    return f"time: {wall_seconds:.1f} s now; in {inside}; profiling {profiling_seconds:.1f} s{before}"
