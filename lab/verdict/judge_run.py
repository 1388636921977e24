"""Plan + journal → the results of a run: each cell summed up, each claim judged. Pure but for `load_run`."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from lab.definition.experiment import CEILINGS
from lab.definition.plan import Plan, PlannedClaim, PlannedExperiment
from lab.definition.plan_file import load_plan
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import (
    Canary,
    Cell,
    Control,
    Counters,
    FlushCheck,
    Reading,
    Record,
    RunFinish,
    RunStart,
    SweepFinish,
    SweepStart,
    Watch,
)
from lab.verdict.ceilings import ceilings_of
from lab.verdict.cells import CellResult, cell_result
from lab.verdict.compare import clock_step_seconds, compared_processes
from lab.verdict.excluded_rounds import NOTHING, ExcludedRounds, excluded_rounds
from lab.verdict.judge import Side, Verdict, judge_case, judge_claim
from lab.verdict.judge_memory import MemorySide, judge_memory
from lab.verdict.judge_traffic import TrafficSide, judge_traffic
from lab.verdict.results import ClaimResult, ExperimentResult, RunResult
from lab.verdict.traffic import least_moved
from lab.verdict.valid_records import valid_records
from lab.verdict.widening import profiles_drawn_once

# What computing raises for records that cannot come from a measurement: unknown names, empty rounds.
UNMEASURED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
Of = TypeVar("Of")
Key = TypeVar("Key", bound=Hashable)


def load_run(directory: Path) -> RunResult:
    """Read and judge a run directory. RunError where nothing in it can be read."""
    plan = load_plan(directory)
    path = journal.find(directory)
    if path is None:
        raise RunError(f"{directory}: no {journal.NAME} beside its plan; measure the run, or copy all of it here")
    contents = journal.read(path)
    if contents.damages and not all(
        any(isinstance(r, kind) for r in contents.records) for kind in (RunStart, SweepStart)
    ):
        first = contents.damages[0]
        raise RunError(
            f"{path}: {len(contents.damages)} lines cannot be used, and no sweep is left: line {first.line_number} "
            f"{first.reason}; copy it here again"
        )
    try:
        return replace(judge_run(plan, contents.records, contents.damages), seal=contents.seal)
    except UNMEASURED as problem:
        raise RunError(
            f"{directory}: cannot be judged, for its records cannot be a measurement of its plan "
            f"({type(problem).__name__}: {problem}); copy it here again"
        ) from problem


def judge_run(plan: Plan, records: Sequence[Record], damages: tuple[journal.Damage, ...] = ()) -> RunResult:
    records, invalid = valid_records(plan, records, {damage.line_number for damage in damages})
    start, sweeps = _first(records, RunStart), _of_kind(records, SweepStart)
    if start is None or not sweeps:
        raise RunError(f"run {plan.run_id!r}: its journal holds no sweep yet; measure it first")
    if start.plan_digest != plan.digest:
        raise RunError(f"run {plan.run_id!r}: plan.json is not the plan that the journal was begun with")
    finish, canaries = _first(records, RunFinish), _of_kind(records, Canary)
    spoiled = excluded_rounds(_of_kind(records, Watch), canaries)
    of_experiment = _grouped(records, lambda record: getattr(record, "experiment", ""))
    result = RunResult(
        plan=plan,
        start=start,
        finished_utc=finish.finished_utc if finish else "",
        sweeps=sweeps,
        experiments=tuple(
            _judge_experiment(e, of_experiment.get(e.name, ()), sweeps, spoiled, profiles_drawn_once(plan, e))
            for e in plan.experiments
        ),
        damages=tuple(sorted((*damages, *invalid), key=lambda damage: damage.line_number)),
        records=tuple(records),
        canaries=canaries,
        sweep_ends=_of_kind(records, SweepFinish),
        readings=_of_kind(records, Reading),
        flush=_first(records, FlushCheck),
        finish=finish,
    )
    measured = next((experiment for experiment in result.experiments if experiment.plan.name == CEILINGS), None)
    if measured is None:
        return result
    return replace(result, ceilings=ceilings_of(measured.plan, measured.cells, result.launch_floor_seconds))


def unmeasured(plan: PlannedExperiment) -> ExperimentResult:
    """An experiment that no evidence speaks of yet."""
    return _judge_experiment(plan, (), (), NOTHING)


def _judge_experiment(
    plan: PlannedExperiment,
    records: tuple[Record, ...],
    sweeps: Sequence[SweepStart],
    spoiled: ExcludedRounds,
    drawn_once: frozenset[str] = frozenset(),
) -> ExperimentResult:
    """`records`: those of this experiment. They are grouped once: a run may have ten thousand cells."""
    measured = _grouped(_of_kind(records, Cell), lambda cell: (cell.case, cell.profile))
    counted = {(each.case, each.profile): each for each in _of_kind(records, Counters)}
    cells = {
        key: cell_result(plan, case, profile.name, measured.get(key, ()), counted.get(key), sweeps, spoiled)
        for case in plan.cases
        for profile in plan.profiles
        for key in [(case.name, profile.name)]
    }
    timed = [cell for result in cells.values() for cell in result.cells]
    unjudged = ExperimentResult(
        plan=plan,
        cells=cells,
        claims=(),
        controls=_grouped(_of_kind(records, Control), lambda control: control.case),
        spoiled=spoiled,
        step_seconds={scope: clock_step_seconds(timed, scope) for scope in plan.scopes},
        watches=_grouped(_of_kind(records, Watch), lambda watch: watch.case),
        drawn_once=drawn_once,
        records=records,
    )
    return replace(unjudged, claims=_judge_claims(unjudged))


def _of_kind(records: Iterable[Record], kind: type[Of]) -> tuple[Of, ...]:
    return tuple(record for record in records if isinstance(record, kind))


def _first(records: Iterable[Record], kind: type[Of]) -> Of | None:
    return next((record for record in records if isinstance(record, kind)), None)


def _grouped(records: Iterable[Of], key_of: Callable[[Of], Key]) -> dict[Key, tuple[Of, ...]]:
    groups: dict[Key, list[Of]] = {}
    for record in records:
        groups.setdefault(key_of(record), []).append(record)
    return {key: tuple(group) for key, group in groups.items()}


def _judge_claims(experiment: ExperimentResult) -> tuple[ClaimResult, ...]:
    """Each claim at each case of the run."""
    included = {case.name for case in experiment.plan.included_cases}
    claims = []
    for claim in experiment.plan.claims:
        verdicts = {case: _verdict(experiment, claim, case) for case in claim.cases if case in included}
        claims.append(ClaimResult(claim=claim, status=judge_claim(list(verdicts.values())), verdicts=verdicts))
    return tuple(claims)


def _verdict(experiment: ExperimentResult, claim: PlannedClaim, case: str) -> Verdict:
    if claim.measure == "traffic":
        return _traffic_verdict(experiment, claim, case)
    if claim.measure == "memory":
        return _memory_verdict(experiment, claim, case)
    subject, baseline = experiment.cells[case, claim.subject], experiment.cells[case, claim.baseline]
    speedup = experiment.compare(case, claim.subject, claim.baseline, claim.scope)
    shared = () if speedup else compared_processes(baseline.cells, subject.cells, claim.scope, experiment.spoiled)
    return judge_case(
        _side(subject, claim.scope),
        _side(baseline, claim.scope),
        speedup,
        claim.threshold,
        experiment.control(case, claim.scope),
        experiment.spoiled_share(case),
        len(shared),
    )


def _traffic_verdict(experiment: ExperimentResult, claim: PlannedClaim, case_name: str) -> Verdict:
    case = experiment.plan.case(case_name)
    baseline = experiment.cells[case_name, claim.baseline] if claim.baseline else None
    return judge_traffic(
        _traffic_side(experiment.cells[case_name, claim.subject], claim.scope),
        _traffic_side(baseline, claim.scope) if baseline else least_moved(case),
        claim.threshold,
    )


def _memory_verdict(experiment: ExperimentResult, claim: PlannedClaim, case_name: str) -> Verdict:
    case = experiment.plan.case(case_name)
    baseline = experiment.cells[case_name, claim.baseline] if claim.baseline else None
    return judge_memory(
        _memory_side(experiment.cells[case_name, claim.subject]),
        _memory_side(baseline) if baseline else case.written_bytes,
        claim.threshold,
    )


def _memory_side(cell: CellResult) -> MemorySide:
    needed = [each.memory_bytes for each in cell.cells if each.memory_bytes is not None]
    return MemorySide(outcome=cell.outcome, reason=cell.reason, peak_bytes=tuple(needed))


def _traffic_side(cell: CellResult, scope: str) -> TrafficSide:
    uncounted = ""
    if cell.counters is None:
        uncounted = "the run was measured without profiling, or ended before it"
    elif cell.counters.outcome == "blocked":
        uncounted = f"its counters are blocked: {cell.counters.reason}"
    elif cell.traffic is None:
        uncounted = "the profiler gave no DRAM bytes for one of its kernels"
    return TrafficSide(
        outcome=cell.outcome,
        reason=cell.reason,
        traffic=cell.traffic,
        uncounted=uncounted,
        impossible=cell.impossible.get(scope, ""),
    )


def _side(cell: CellResult, scope: str) -> Side:
    outcome, reason = cell.outcome, cell.reason
    if outcome == "measured" and scope not in cell.latencies:
        outcome, reason = "failed", cell.unmeasured.get(scope, f"it has no time in scope {scope}")
    return Side(
        outcome=outcome,
        reason=reason,
        latency=cell.latencies.get(scope),
        void_share=cell.void_shares.get(scope, 0.0),
        impossible=cell.impossible.get(scope, ""),
    )
