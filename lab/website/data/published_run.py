"""What a run was asked for beside times, and what it cost, as data: the same in each of its experiments."""

from typing import Any

from lab.verdict.results import RunResult
from lab.website.data.rounding import rounded


def run_data(run: RunResult) -> dict[str, Any]:
    """`processes` began to measure: more than there were sweeps, where some died; `stage_seconds` are of them all.

    `experiments` are all that the run measured; `include` the flags by which it took in cases that it leaves out.
    """
    stages: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    finish = run.finish
    return {
        "experiments": [each.name for each in run.plan.experiments],
        "include": sorted({case.only_with for each in run.plan.experiments for case in each.included_cases} - {""}),
        "metric_set": run.plan.metric_set,
        "profiling": run.plan.profiling,
        "instruments": run.plan.instruments,
        "processes": len({(sweep.sweep, sweep.process) for sweep in run.sweeps}),
        # 0 is what a record says that never asked; None what an interrupted run does not know.
        "wall_seconds": rounded(finish.wall_seconds) or None if finish else None,
        "profiling_seconds": rounded(finish.profiling_seconds) or None if finish else None,
        "stage_seconds": {stage: rounded(seconds) for stage, seconds in sorted(stages.items())},
    }
