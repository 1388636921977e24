"""All sweeps of a run: those that were planned, then as many more as compilers and precision ask for."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from lab.definition.plan import Plan, PlannedExperiment
from lab.profiler.ahead import CountersAhead
from lab.supervisor.caches import Caches
from lab.supervisor.estimate import Estimate
from lab.supervisor.extra_sweeps import all_cells, another_sweep, extra_cells, recompiled_cells
from lab.supervisor.precompilation import PROCESS_BYTES, Precompilation
from lab.supervisor.progress import RunProgress
from lab.supervisor.quarantine import is_crash, not_loadable
from lab.supervisor.run_state import Key, RunState, key_of
from lab.supervisor.sweep import Sweep
from lab.supervisor.watch import Watcher
from lab.supervisor.worker_pool import WorkerPool

# On a CPU that others use too, threads wait for one another longer than they work.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ}
COUNTERS_SECONDS = 1.5  # of a cell, by Nsight Compute: what is expected until that pass begins


def measure_sweeps(
    plan: Plan,
    state: RunState,
    watcher: Watcher,
    caches: Caches | None,
    say: Callable[[str], None],
    counters: CountersAhead,
) -> float:
    """Measure what is lacking, and load the process that then takes counters. Seconds that compiling ahead took."""
    protocol, every, drawn = plan.protocol, all_cells(plan), recompiled_cells(plan)
    beyond = range(protocol.sweeps, protocol.most_sweeps)
    known = dict.fromkeys(range(protocol.sweeps), every) | {sweep: drawn for sweep in beyond if drawn}
    lacking = {(sweep, key) for sweep, wanted in known.items() for key in state.lacking(sweep, wanted)}
    if state.cells:
        count = sum(map(len, known.values()))
        say(f"resuming: {count - len(lacking)} of {count} cells are measured")
    uncounted = [each for each in plan.counted if not is_counted(plan, each, state)] if plan.profiling else []
    if lacking and uncounted:
        counters.start(plan, uncounted[0], state.directory, state.cells.values())

    def load_the_rest() -> None:
        ahead.finish()
        counters.wait_until_loaded(protocol.deadline_seconds)

    with (
        RunProgress(_estimate(plan, lacking), len(state.cells), len(known)) as progress,
        compiling_ahead(plan, state, caches, {key for _, key in lacking}, progress.say) as ahead,
        WorkerPool(
            state.directory,
            protocol.deadline_seconds,
            progress.say,
            caches,
            load_the_rest,
            {} if plan.device == "cuda" else ONE_THREAD,
        ) as pool,  # fmt: skip
    ):
        foreseen = {sweep for sweep, _ in lacking}
        for number in range(max(protocol.sweeps, protocol.most_sweeps)):
            wanted = every if number in range(protocol.sweeps) else extra_cells(plan, state.before(number))
            if not wanted:
                break
            if number in beyond and (again := state.lacking(number, wanted)):
                progress.more((number, key) for key in again)
                progress.say(another_sweep(again))
            following = foreseen.union(beyond if number in beyond else ())
            Sweep(plan, number, wanted, state, pool, watcher, progress).complete(
                sorted(sweep for sweep in following if sweep > number)
            )
        return ahead.seconds


def not_for_this_device(plan: Plan) -> set[Key]:
    return {
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
        if plan.device not in profile.devices
    }


def is_counted(plan: Plan, experiment: PlannedExperiment, state: RunState) -> bool:
    """Whether the counters of all its cells are on record."""
    cells = {(experiment.name, case.name, profile.name) for case, profile in experiment.cells()}
    return cells - not_for_this_device(plan) <= state.counted()


@contextmanager
def compiling_ahead(
    plan: Plan,
    state: RunState,
    caches: Caches | None,
    lacking: Collection[Key],
    say: Callable[[str], None],
    sharing: int = 1,
) -> Iterator[Precompilation]:
    """Compiling, in processes of their own beside the workers that load. Without caches there is nothing to do.
    `sharing`: how many do this on the same host at once."""
    with Precompilation(state.directory, plan.protocol.deadline_seconds, say) as ahead:
        if caches and lacking:
            crashed = {key_of(cell) for cell in state.cells.values() if is_crash(cell)}
            left_out = crashed | not_for_this_device(plan)
            cells = [key for key in all_cells(plan) if key in lacking and key not in left_out]
            recompiled = _recompiled(plan)  # first, because they take longest
            cells.sort(key=lambda key: key not in recompiled)
            ahead.start(caches, cells, not_loadable(state.cells.values()), sharing, _large(plan))
        yield ahead


def _estimate(plan: Plan, lacking: Collection[tuple[int, Key]]) -> Estimate:
    idle = not_for_this_device(plan)
    names = {each.name for each in plan.counted} if plan.profiling and plan.device == "cuda" else set()
    counted = sum(key[0] in names and key not in idle for key in all_cells(plan))
    return Estimate(
        ahead=set(lacking),
        idle=idle,
        recompiled=_recompiled(plan),
        fresh=plan.protocol.fresh_caches,
        after_seconds=COUNTERS_SECONDS * counted,
    )


def _large(plan: Plan) -> set[Key]:
    """The cells whose call reads more than a process that compiles ahead may take, such as a whole model."""
    return {
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
        if case.read_bytes > PROCESS_BYTES
    }


def _recompiled(plan: Plan) -> set[Key]:
    return {
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
        if profile.recompiles
    }
