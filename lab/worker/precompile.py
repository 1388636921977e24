"""Compiles while nothing is timed: `python -m lab.worker.precompile RUN_DIRECTORY`, see lab.supervisor.precompilation.

Its order comes on stdin: cells to call once, edge inputs included, and profiles not to load. Nothing is recorded. Only
the binaries are kept; what autotuners choose on a busy GPU is thrown away.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import Case, Profile
from lab.definition.plan_file import load_plan
from lab.process.parent_death import die_with_parent
from lab.worker.edges import edge_inputs
from lab.worker.faults import fault, skip_reason
from lab.worker.guard import Guard
from lab.worker.guarded_names import make_guard

SEED = 1


def main() -> None:
    die_with_parent()
    guard = make_guard()
    order = json.loads(sys.stdin.read())
    plan = load_plan(Path(sys.argv[1]))
    cells = {tuple(cell) for cell in order["cells"]}
    left_out = {tuple(pair) for pair in order["left_out"]}
    with torch.no_grad():
        for planned in plan.experiments:
            (experiment,) = choose_experiments([planned.name])
            for case in experiment.cases:
                profiles = [
                    profile
                    for profile in experiment.profiles
                    if (planned.name, case.name, profile.name) in cells
                    and (planned.name, profile.name) not in left_out
                    and not skip_reason(profile, plan.device)
                ]
                if profiles:
                    compile_case(case, profiles, plan.device, guard)


def compile_case(case: Case, profiles: list[Profile], device: str, guard: Guard) -> None:
    """Call each profile with the case's inputs and its edge inputs.

    A failure is ignored: it occurs again in the sweep, which records it.
    """
    if "torch._dynamo" in sys.modules:  # importing it takes seconds; without it nothing was compiled
        torch._dynamo.reset()
    dtype = getattr(torch, case.dtype)
    for profile in profiles:
        try:
            function = profile.implementations[case.operator.name]()
        except Exception as problem:
            print(f"{case.name} {profile.name}: {fault(problem)}", flush=True)
            continue
        _try(case, profile, function, lambda: case.operator.inputs(case.shape, dtype, device, SEED))
        for _, arguments in edge_inputs(case.operator, case.shape, dtype, device, own_form=profile.recompiles):
            _try(case, profile, function, partial(tuple, arguments))
        # As a sweep does: torch.compile sets variables that would have Triton compile the next profile otherwise.
        guard.broken()


def _try(case: Case, profile: Profile, function: Callable[..., Any], inputs: Callable[[], tuple[Any, ...]]) -> None:
    try:
        function(*inputs())
    except Exception as problem:
        print(f"{case.name} {profile.name}: {fault(problem)}", flush=True)


if __name__ == "__main__":
    main()
