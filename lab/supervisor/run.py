"""The supervisor: plan → sweeps in fresh processes → journal. What was measured survives a crash.

A worker that crashes or falls silent costs the cell it was at; another worker measures the rest.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from lab.definition.plan import Plan
from lab.errors import RunError
from lab.evidence.nvml import first_visible, visible_gpu
from lab.profiler.ahead import CountersAhead
from lab.supervisor.caches import Caches
from lab.supervisor.ending import finish, refuse_nothing
from lab.supervisor.lock import gpu_lock, run_lock
from lab.supervisor.passes import explain
from lab.supervisor.resume import open_run
from lab.supervisor.sweeps import measure_sweeps
from lab.supervisor.watch import Watcher

Say = Callable[[str], None]


def run(plan: Plan, directory: Path, say: Say) -> None:
    """Measure all that the plan still lacks. RunError where the run is finished, in use, or another's, and where
    another run is on the GPU. Call it from the main thread: workers end with the thread that started them."""
    began = time.monotonic()
    with own_directory(directory), visible_gpu(plan.device) as gpu:
        with gpu_lock(plan.device, gpu.identity if gpu else first_visible()):
            state = open_run(plan, directory)
            with (
                Caches(directory) if plan.protocol.fresh_caches else nullcontext() as caches,
                CountersAhead() as counters,
            ):
                ahead_seconds = measure_sweeps(plan, state, Watcher(gpu), caches, say, counters)
                refuse_nothing(state)
                profiling_seconds = explain(plan, plan.experiments, state, caches, say, ahead=counters)
        finish(state, began=began, ahead_seconds=ahead_seconds, profiling_seconds=profiling_seconds, say=say)


@contextmanager
def own_directory(directory: Path) -> Iterator[None]:
    """Make a run's directory, and be alone in it. RunError where that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise RunError(f"{directory}: cannot be made a run's directory: {refusal.strerror}") from None
    with run_lock(directory):
        yield
