"""Plan + journal → what a reader needs: each cell summed up, each pair compared, each claim judged. Pure."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from lab.definition.experiment import CEILINGS
from lab.definition.plan import Plan, PlannedClaim, PlannedExperiment, PlannedProfile
from lab.definition.plan_file import load_plan
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import (
    Canary,
    Cell,
    Control,
    Counters,
    FlushCheck,
    Machine,
    Reading,
    Record,
    RunFinish,
    RunStart,
    SweepFinish,
    SweepStart,
    Watch,
)
from lab.verdict.ceilings import Ceilings, ceilings_of
from lab.verdict.cells import SCOPE, CellResult, cell_result, launch_floor_seconds
from lab.verdict.compare import Timed, clock_step_seconds, compared_processes, speedup_between, split_between
from lab.verdict.excluded_rounds import NOTHING, ExcludedRounds, excluded_rounds
from lab.verdict.judge import WEIGHED, Side, Status, Verdict, judge_case, judge_claim, mark_of_claim
from lab.verdict.judge_memory import MemorySide, judge_memory
from lab.verdict.judge_traffic import TrafficSide, judge_traffic
from lab.verdict.statistics import Speedup, Split, geometric_mean
from lab.verdict.traffic import least_moved
from lab.verdict.valid_records import valid_records
from lab.verdict.widening import profiles_drawn_once, session_floor, widened

# What computing raises for records that cannot come from a measurement: unknown names, empty rounds.
UNMEASURED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
Of = TypeVar("Of")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimResult:
    """A claim with its verdict at each case of this run."""

    claim: PlannedClaim
    status: Status
    verdicts: Mapping[str, Verdict]

    @property
    def mark(self) -> str:
        """ "one draw" where its verdict rests on such evidence, or nothing."""
        return mark_of_claim(list(self.verdicts.values()), self.status)

    @property
    def weighed_ratios(self) -> tuple[float, ...]:
        """Of the cases whose samples or counters were fit to be weighed."""
        return tuple(v.ratio for v in self.verdicts.values() if v.status in WEIGHED and v.ratio is not None)

    @property
    def geometric_mean(self) -> float | None:
        """Of these ratios; None where there are none."""
        return geometric_mean(self.weighed_ratios) if self.weighed_ratios else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentResult:
    plan: PlannedExperiment
    cells: Mapping[tuple[str, str], CellResult]
    claims: tuple[ClaimResult, ...]
    controls: Mapping[str, tuple[Control, ...]]  # by case
    spoiled: ExcludedRounds
    step_seconds: Mapping[str, float]  # the clock's step, by scope
    watches: Mapping[str, tuple[Watch, ...]]  # by case: the GPU while it was timed
    drawn_once: frozenset[str]  # profiles whose code an autotuner chose once for all sweeps
    records: tuple[Record, ...]  # those of this experiment, in the order of the journal
    # Claims, ranks and tables ask for the same pair, and every pair of a case for its control.
    _compared_before: dict[tuple[str, ...], Speedup | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def compare(self, case: str, subject: str, baseline: str, scope: str = SCOPE) -> Speedup | None:
        """How many times as fast the subject is in a scope, with the interval that holds on any board of the model."""
        if subject > baseline:  # the same pair, which is compared once
            other = self.compare(case, baseline, subject, scope)
            return other.reversed() if other else None
        return self._once((case, subject, baseline, scope), lambda: self._compare(case, subject, baseline, scope))

    def control(self, case: str, scope: str = SCOPE) -> Speedup | None:
        """The A/A control of a case: the speed-up of a profile over itself, whose true value is 1."""
        return self._once((case, scope), lambda: self._control(case, scope))

    def split(self, case: str, subject: str, baseline: str) -> Split | None:
        """The device's part and the launch's of an eager speed-up, each with an interval as wide as `compare` gives it.

        What an autotuner chooses changes the device's part, and hardly that of the launch.
        """
        split = split_between(self.cells[case, baseline].cells, self.cells[case, subject].cells, self.spoiled)
        if split is None:
            return None
        one_draw, floor = not self.drawn_once.isdisjoint((subject, baseline)), self._session_floor(case)
        return Split(
            end_to_end=widened(split.end_to_end, floor, self.control(case, "eager"), one_draw),
            device=widened(split.device, floor, self.control(case, "graph"), one_draw),
            launch=widened(split.launch, floor),
        )

    def spoiled_share(self, case: str) -> float:
        """Share of the case's rounds that was left out."""
        return self.spoiled.share(self.plan.name, case)

    def _once(self, key: tuple[str, ...], compare: Callable[[], Speedup | None]) -> Speedup | None:
        if key not in self._compared_before:
            self._compared_before[key] = compare()
        return self._compared_before[key]

    def _compare(self, case: str, subject: str, baseline: str, scope: str) -> Speedup | None:
        speedup = self._compared(self.cells[case, baseline].cells, self.cells[case, subject].cells, scope)
        if speedup is None:
            return None
        one_draw = not self.drawn_once.isdisjoint((subject, baseline))
        return widened(speedup, self._session_floor(case), self.control(case, scope), one_draw)

    def _session_floor(self, case: str) -> float:
        return session_floor(self.plan.case(case))

    def _control(self, case: str, scope: str) -> Speedup | None:
        controls = self.controls.get(case, ())
        if not controls:
            return None
        return self._compared(self.cells[case, controls[0].profile].cells, controls, scope)

    def _compared(self, baseline: Sequence[Timed], subject: Sequence[Timed], scope: str) -> Speedup | None:
        return speedup_between(baseline, subject, scope, self.spoiled, self.step_seconds.get(scope, 0.0))

    def measured(self, case: str) -> list[CellResult]:
        """The measured cells of a case, in the order of the profiles."""
        return [self.cells[case, profile.name] for profile in self.measured_profiles(case)]

    def measured_profiles(self, case: str) -> list[PlannedProfile]:
        return [p for p in self.plan.profiles if self.cells[case, p.name].outcome == "measured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """A whole run, judged. `damages` are journal lines that were not used, with the reason; `records` all others."""

    plan: Plan
    start: RunStart
    finished_utc: str  # empty while unfinished
    sweeps: tuple[SweepStart, ...]
    experiments: tuple[ExperimentResult, ...]
    damages: tuple[journal.Damage, ...]
    records: tuple[Record, ...]
    canaries: tuple[Canary, ...] = ()
    sweep_ends: tuple[SweepFinish, ...] = ()
    readings: tuple[Reading, ...] = ()
    flush: FlushCheck | None = None
    finish: RunFinish | None = None
    ceilings: Ceilings | None = None  # of its GPU, where it measured them
    seal: journal.Seal | None = None  # of its journal, where it was read from one

    @property
    def machine(self) -> Machine:
        return self.sweeps[0].machine

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards that it was measured on, as `Machine.gpu_id` names them."""
        return tuple(sorted({start.machine.gpu_id for start in self.sweeps}))

    @property
    def board(self) -> str:
        """All of them as one name: only runs on the same boards are runs on one machine."""
        return "+".join(self.boards)

    @property
    def board_of(self) -> dict[tuple[int, str], str]:
        """The board of each process, by sweep and process."""
        return {(start.sweep, start.process): start.machine.gpu_id for start in self.sweeps}

    @property
    def launch_floor_seconds(self) -> float:
        return launch_floor_seconds(self.sweeps)

    def speedup_verdicts(self) -> Iterator[tuple[ExperimentResult, PlannedClaim, str, Verdict]]:
        """Each claim of a speed-up at each case, with its verdict; the lab's tests of itself are left out."""
        for experiment in self.experiments:
            for result in () if experiment.plan.self_test else experiment.claims:
                if result.claim.measure == "speedup":
                    for case, verdict in result.verdicts.items():
                        yield experiment, result.claim, case, verdict


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
    start = next((record for record in records if isinstance(record, RunStart)), None)
    sweeps = tuple(record for record in records if isinstance(record, SweepStart))
    if start is None or not sweeps:
        raise RunError(f"run {plan.run_id!r}: its journal holds no sweep yet; measure it first")
    if start.plan_digest != plan.digest:
        raise RunError(f"run {plan.run_id!r}: plan.json is not the plan that the journal was begun with")
    finish = next((record for record in records if isinstance(record, RunFinish)), None)
    canaries = tuple(record for record in records if isinstance(record, Canary))
    spoiled = excluded_rounds([record for record in records if isinstance(record, Watch)], canaries)
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
        sweep_ends=tuple(record for record in records if isinstance(record, SweepFinish)),
        readings=tuple(record for record in records if isinstance(record, Reading)),
        flush=next((record for record in records if isinstance(record, FlushCheck)), None),
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
    measured = _grouped((r for r in records if isinstance(r, Cell)), lambda cell: (cell.case, cell.profile))
    counted = {(r.case, r.profile): r for r in records if isinstance(r, Counters)}
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
        controls=_grouped((r for r in records if isinstance(r, Control)), lambda control: control.case),
        spoiled=spoiled,
        step_seconds={scope: clock_step_seconds(timed, scope) for scope in plan.scopes},
        watches=_grouped((r for r in records if isinstance(r, Watch)), lambda watch: watch.case),
        drawn_once=drawn_once,
        records=records,
    )
    return replace(unjudged, claims=_judge_claims(unjudged))


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
