"""What Nsight Compute runs: each cell's call, in a named range.

`python -m lab.profiler.profiled RUN_DIRECTORY EXPERIMENT FAILURES [PROFILE …] ORDER`. It loads everything, except the
profiles that are named, because they have taken a process down, and leaves the GPU alone until its order comes: the
cells to leave out, and variables that name the compilers' caches. Then each profile is loaded again, compiled and
called before its range opens, so that only its own launches are seen. FAILURES is written: one line of JSON for each
cell whose call could not be shown, with the reason.
"""

import json
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import torch

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import Case, Experiment, Profile
from lab.definition.plan import PlannedExperiment
from lab.definition.plan_file import load_plan
from lab.process.order import awaited
from lab.profiler.raw_page import RANGE_SEPARATOR
from lab.worker.device import profiled_range, release_memory
from lab.worker.faults import fault, skip_reason
from lab.worker.guard import Guard
from lab.worker.guarded_names import make_guard
from lab.worker.inductor import import_compiler

SEED = 1
CALLS_BEFORE = 3


def main() -> None:
    directory, name, failures, *not_loaded, order_path = sys.argv[1:]
    plan = load_plan(Path(directory))
    planned = plan.experiment(name)
    experiment = load(planned, plan.device, not_loaded)
    if (order := awaited(Path(order_path))) is None:
        return
    os.environ.update(order["environment"])
    guard = make_guard()  # after that, because it puts variables back
    included = {case.name for case in planned.included_cases}
    with torch.no_grad(), Path(failures).open("w", encoding="utf-8") as file:
        for case in experiment.cases:
            if case.name not in included:
                continue
            profiles = [p for p in experiment.profiles if case.operator.name in p.implementations]
            profiles = [p for p in profiles if range_name(case.name, p.name) not in order["left_out"]]
            for profile, reason in show(case, profiles, plan.device, guard):
                print(json.dumps([case.name, profile, reason]), file=file, flush=True)


def load(planned: PlannedExperiment, device: str, left_out: Collection[str]) -> Experiment:
    """The experiment, when all that its profiles import is imported. A failure is ignored: it occurs again in `show`,
    which reports it. `left_out`: profiles that are not loaded."""
    import_compiler()
    guard = make_guard()
    (experiment,) = choose_experiments([planned.name])
    wanted = {case.op for case in planned.included_cases}
    for profile in experiment.profiles:
        if profile.name in left_out or skip_reason(profile, device):
            continue
        for op in sorted(wanted & profile.implementations.keys()):
            with suppress(Exception):
                profile.implementations[op]()
            guard.broken()  # puts right what it replaced, or left active, before the next is loaded
    return experiment


def range_name(case: str, profile: str) -> str:
    return RANGE_SEPARATOR.join((case, profile))


def show(case: Case, profiles: Collection[Profile], device: str, guard: Guard) -> Iterator[tuple[str, str]]:
    """Call each profile in its range. Yields (profile, reason) of those that fail; the others are still called."""
    release_memory()  # ncu saves and restores all that this process holds, for every launch
    try:
        inputs = case.operator.inputs(case.shape, getattr(torch, case.dtype), device, SEED)
    except Exception as problem:  # such as no memory left: the other cases may do with less
        for profile in profiles:
            yield profile.name, f"inputs: {fault(problem)}"
        return
    torch._dynamo.reset()
    for profile in profiles:
        if reason := skip_reason(profile, device):
            yield profile.name, reason
            continue
        try:
            function = profile.implementations[case.operator.name]()
            for _ in range(CALLS_BEFORE):
                function(*inputs)
            with profiled_range(range_name(case.name, profile.name)):
                function(*inputs)
        except Exception as problem:
            yield profile.name, fault(problem)
        guard.broken()  # puts right what it replaced, or left active, before the next is looked at


if __name__ == "__main__":
    main()
