"""What Nsight Compute runs: each cell's call, in a named range.

`python -m lab.profiler.profiled RUN_DIRECTORY EXPERIMENT FAILURES [CELL …]`. Each profile is loaded, compiled and
called before its range opens, so that only its own launches are seen. The cells that are named are left out. FAILURES
is written: one line of JSON for each cell whose call could not be shown, with the reason.
"""

import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import torch

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import Case, Profile
from lab.definition.plan_file import load_plan
from lab.profiler.raw_page import RANGE_SEPARATOR
from lab.worker.device import profiled_range, release_memory
from lab.worker.faults import fault, skip_reason
from lab.worker.guard import Guard
from lab.worker.guarded_names import make_guard

SEED = 1
CALLS_BEFORE = 3


def main() -> None:
    guard = make_guard()
    directory, name, failures, left_out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
    plan = load_plan(directory)
    (experiment,) = choose_experiments([name])
    included = {case.name for case in plan.experiment(name).included_cases}
    with torch.no_grad(), failures.open("w", encoding="utf-8") as file:
        for case in experiment.cases:
            if case.name not in included:
                continue
            profiles = [p for p in experiment.profiles if case.operator.name in p.implementations]
            profiles = [p for p in profiles if range_name(case.name, p.name) not in left_out]
            for profile, reason in show(case, profiles, plan.device, guard):
                print(json.dumps([case.name, profile, reason]), file=file, flush=True)


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
