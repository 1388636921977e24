"""What Nsight Compute runs: each cell's call, in a named range. Called with RUN_DIRECTORY EXPERIMENT.

Each profile is loaded, compiled and called before its range opens, so that only its own launches are seen.
"""

import sys
from pathlib import Path

import torch

from lab.definition.catalogue import choose_experiments
from lab.definition.plan import load_plan
from lab.worker.device import profiled_range
from lab.worker.sweep_case import fault, skip_reason
from lab.worker.watched import make_guard

RANGE_SEPARATOR = "|"
SEED = 1


def main() -> None:
    guard = make_guard()
    plan = load_plan(Path(sys.argv[1]))
    planned = plan.experiment(sys.argv[2])
    (experiment,) = choose_experiments([planned.name])
    included = {case.name for case in planned.included_cases}
    with torch.no_grad():
        for case in experiment.cases:
            if case.name not in included:
                continue
            dtype = getattr(torch, case.dtype)
            inputs = case.operator.inputs(case.shape, dtype, plan.device, SEED)
            torch._dynamo.reset()
            for profile in experiment.profiles:
                if case.operator.name not in profile.implementations or skip_reason(profile, plan.device):
                    continue
                try:
                    function = profile.implementations[case.operator.name]()
                    for _ in range(3):
                        function(*inputs)
                except Exception as problem:  # a profile's fault costs its own counters only
                    print(f"{case.name} {profile.name}: {fault(problem)}", file=sys.stderr, flush=True)
                    continue
                with profiled_range(RANGE_SEPARATOR.join((case.name, profile.name))):
                    function(*inputs)
                guard.broken()  # puts right what it replaced, or left active, before the next is looked at


if __name__ == "__main__":
    main()
