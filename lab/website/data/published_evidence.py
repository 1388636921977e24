"""The evidence of one run: which run it is, how it measured, where its time went, and what it is addressed by."""

import statistics
from dataclasses import dataclass
from typing import Annotated

from lab.verdict.neighbours import processes_beside
from lab.verdict.results import ExperimentResult, RunResult
from lab.website.data.typed import Digest, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceData:
    """Which run it is, how it measured, and what it is addressed by; of a preview the digest is empty."""

    digest: Digest
    commit: Annotated[str, "The one whose source was measured."]
    run_id: str
    schema_of_run: int
    cut_short: str
    source_digest: str
    plan_digest: str
    policy_version_of_run: int
    started_utc: str
    finished_utc: str
    gpus: Annotated[int | None, "That measured; null of a CPU."]
    in_turn: Annotated[bool | None, "Whether of several GPUs only one measured at a time; null of one GPU."]
    sweeps: int
    fewest_sweeps: int
    most_sweeps: int
    rounds: int
    block: int
    isolated: Annotated[bool, "The host waited until a timed call had ended before it enqueued the next one."]
    launch_floor_seconds: float
    empty_seconds: float
    median_launch_floor_seconds: float
    median_empty_seconds: float
    damages: Annotated[dict[str, str], "By line of the journal, why it was not used."]
    experiments: Annotated[list[str], "All that the run measured."]
    include: Annotated[list[str], "The --include flags that it was given, without the prefix."]
    metric_set: str
    profiling: bool
    instruments: bool
    processes: Annotated[int, "That began to measure: more than there were sweeps, where some died."]
    wall_seconds: float | None
    profiling_seconds: float | None
    stage_seconds: Annotated[dict[str, float], "By stage, in seconds over all sweeps."]


def evidence_data(result: ExperimentResult, run: RunResult, digest: str, commit: str) -> EvidenceData:
    sweeps = _sweeps_by_case(result).values()
    asked_for = {case.only_with for each in run.plan.experiments for case in each.included_cases}
    return taken(
        EvidenceData, run.start, run.plan.protocol, run.plan, run.sweeps[0],
        digest=digest, commit=commit or run.start.commit, schema_of_run=run.start.schema,
        gpus=len(run.boards) if run.machine.device == "cuda" else None,
        in_turn=not processes_beside(run) if len(run.boards) > 1 else None,
        isolated=run.plan.protocol.isolated or run.machine.device != "cuda",  # a CPU's calls are over when they return
        cut_short=run.finish.cut_short if run.finish else "", policy_version_of_run=run.plan.policy_version,
        finished_utc=run.finished_utc, fewest_sweeps=min(sweeps, default=0), most_sweeps=max(sweeps, default=0),
        median_launch_floor_seconds=statistics.median(each.launch_floor_seconds for each in run.sweeps),
        median_empty_seconds=statistics.median(each.empty_seconds for each in run.sweeps),
        damages={str(damage.line_number): damage.reason for damage in run.damages},
        experiments=[each.name for each in run.plan.experiments], include=sorted(asked_for - {""}),
        processes=len({(sweep.sweep, sweep.process) for sweep in run.sweeps}),
        # 0 is what a record says that never asked; None what an interrupted run does not know.
        wall_seconds=run.finish.wall_seconds or None if run.finish else None,
        profiling_seconds=run.finish.profiling_seconds or None if run.finish else None,
        stage_seconds=_stage_seconds(run),
    )  # fmt: skip


def _stage_seconds(run: RunResult) -> dict[str, float]:
    """Where the time of its processes went, over all sweeps."""
    stages: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    return dict(sorted(stages.items()))


def _sweeps_by_case(result: ExperimentResult) -> dict[str, int]:
    """How many sweeps measured a case: more where the first ones left it imprecise."""
    latencies_by_case = {
        case.name: [latency for cell in result.measured(case.name) for latency in cell.latencies.values()]
        for case in result.plan.cases
    }
    return {
        case: max(len(each.sweep_p50_seconds) for each in latencies)
        for case, latencies in latencies_by_case.items()
        if latencies
    }
