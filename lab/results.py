"""Plan + journal → what a reader needs: each cell summed up, each pair compared, each claim judged. Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import journal
from lab.errors import RunError
from lab.judge import Side, Status, Verdict, judge_case, judge_claim
from lab.plan import Plan, PlannedCase, PlannedClaim, PlannedExperiment, PlannedProfile, load_plan
from lab.record import Cell, Correctness, Counters, Machine, Record, RunFinish, RunStart, SweepStart, Timing
from lab.roofline import beats_physics, bytes_per_second, near_launch_floor
from lab.statistics import Latency, Speedup, latency, speedup

SCOPE = "device_cold"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellResult:
    """One case × profile over all sweeps. `outcome` may also be not-planned or unfinished."""

    case: str
    profile: str
    outcome: str
    reason: str
    latency: Latency | None = None
    void_share: float = 0.0
    enqueue_seconds: float = 0.0
    prepare_seconds: float = 0.0
    bytes_per_second: float | None = None  # None where the time is too near the launch floor
    near_floor: bool = False
    launch_bound: bool = False  # an eager caller waits for the host longer than for the GPU
    beats_physics: bool = False
    correctness: tuple[Correctness, ...] = ()
    counters: Counters | None = None
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimResult:
    """A claim with its verdict at each case of this run."""

    claim: PlannedClaim
    status: Status
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentResult:
    plan: PlannedExperiment
    cells: Mapping[tuple[str, str], CellResult]
    claims: tuple[ClaimResult, ...]

    def compare(self, case: str, subject: str, baseline: str) -> Speedup | None:
        return compare(self.cells[case, baseline].cells, self.cells[case, subject].cells)

    def measured(self, case: str) -> list[CellResult]:
        """The measured cells of a case, in the order of the profiles."""
        return [self.cells[case, profile.name] for profile in self.measured_profiles(case)]

    def measured_profiles(self, case: str) -> list[PlannedProfile]:
        return [p for p in self.plan.profiles if self.cells[case, p.name].outcome == "measured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """A whole run, judged. `damages` are journal lines that were not used, with the reason."""

    plan: Plan
    start: RunStart
    finished_utc: str  # empty while unfinished
    sweeps: tuple[SweepStart, ...]
    experiments: tuple[ExperimentResult, ...]
    damages: tuple[journal.Damage, ...]

    @property
    def machine(self) -> Machine:
        return self.sweeps[0].machine


def load_run(directory: Path) -> RunResult:
    """Read and judge a run directory. RunError where nothing in it can be read."""
    plan = load_plan(directory)
    held = journal.read(directory / journal.NAME)
    return judge_run(plan, held.records, held.damages)


def judge_run(plan: Plan, records: Sequence[Record], damages: tuple[journal.Damage, ...] = ()) -> RunResult:
    records, strangers = _sift(plan, records, {damage.line_number for damage in damages})
    start = next((record for record in records if isinstance(record, RunStart)), None)
    sweeps = tuple(record for record in records if isinstance(record, SweepStart))
    if start is None or not sweeps:
        raise RunError(f"run {plan.run_id!r}: its journal holds no sweep yet; measure it first")
    if start.plan_digest != plan.digest:
        raise RunError(f"run {plan.run_id!r}: plan.json is not the plan that the journal was begun with")
    return RunResult(
        plan=plan,
        start=start,
        finished_utc=next((r.finished_utc for r in records if isinstance(r, RunFinish)), ""),
        sweeps=sweeps,
        experiments=tuple(_judge_experiment(e, records, sweeps) for e in plan.experiments),
        damages=tuple(sorted((*damages, *strangers), key=lambda damage: damage.line_number)),
    )


def _sift(plan: Plan, records: Sequence[Record], damaged: set[int]) -> tuple[list[Record], list[journal.Damage]]:
    """Set aside cells that cannot be this run's: repeated, of a sweep not planned, or of a process unknown.

    A copied line would otherwise count as one more sweep, and sweeps are what the interval rests on.
    """
    kept: list[Record] = []
    strangers: list[journal.Damage] = []
    known = {(start.sweep, start.process) for start in records if isinstance(start, SweepStart)}
    seen: set[tuple[int, str, str, str]] = set()
    lines = (number for number in itertools.count(1) if number not in damaged)
    for line_number, record in zip(lines, records, strict=False):
        reason = ""
        if isinstance(record, Cell):
            key = (record.sweep, record.experiment, record.case, record.profile)
            if key in seen:
                reason = "repeats a cell of this sweep"
            elif not 0 <= record.sweep < plan.protocol.sweeps:
                reason = f"sweep {record.sweep} is not in the plan"
            elif (record.sweep, record.process) not in known:
                reason = f"process {record.process!r} began no sweep in this journal"
            seen.add(key)
        if reason:
            strangers.append(journal.Damage(line_number=line_number, reason=reason))
        else:
            kept.append(record)
    return kept, strangers


def unmeasured(plan: PlannedExperiment) -> ExperimentResult:
    """An experiment that no evidence speaks of yet."""
    return _judge_experiment(plan, (), ())


def compare(baseline: Sequence[Cell], subject: Sequence[Cell]) -> Speedup | None:
    """Speed-up over the sweeps in which one process timed both."""
    paired = [
        (b_timing.rounds, s_timing.rounds)
        for b in baseline
        for s in subject
        if (b.sweep, b.process) == (s.sweep, s.process)
        and (b_timing := timing_of(b)) is not None
        and (s_timing := timing_of(s)) is not None
        and len(b_timing.rounds) == len(s_timing.rounds)
    ]
    return speedup([pair[0] for pair in paired], [pair[1] for pair in paired]) if paired else None


def timing_of(cell: Cell, scope: str = SCOPE) -> Timing | None:
    return next((timing for timing in cell.timings if timing.scope == scope), None)


def _judge_experiment(
    plan: PlannedExperiment, records: Sequence[Record], sweeps: Sequence[SweepStart]
) -> ExperimentResult:
    cells = {
        (case.name, profile.name): _cell_result(plan, case, profile.name, records, sweeps)
        for case in plan.cases
        for profile in plan.profiles
    }
    included = {case.name for case in plan.included_cases}
    claims = tuple(_judge_claim(claim, cells, included) for claim in plan.claims)
    return ExperimentResult(plan=plan, cells=cells, claims=claims)


def _cell_result(
    plan: PlannedExperiment,
    case: PlannedCase,
    profile: str,
    records: Sequence[Record],
    sweeps: Sequence[SweepStart],
) -> CellResult:
    if not case.included:
        return CellResult(
            case=case.name, profile=profile, outcome="not-planned", reason=f"needs --include-{case.only_with}"
        )
    if profile not in {p.name for p in plan.profiles_of(case)}:
        return CellResult(
            case=case.name, profile=profile, outcome="not-planned", reason=f"does not implement {case.op}"
        )
    key = (plan.name, case.name, profile)
    cells = tuple(r for r in records if isinstance(r, Cell) and (r.experiment, r.case, r.profile) == key)
    counters = next((r for r in records if isinstance(r, Counters) and (r.experiment, r.case, r.profile) == key), None)
    outcome, reason = _outcome(cells)
    if outcome != "measured":
        return CellResult(
            case=case.name, profile=profile, outcome=outcome, reason=reason, cells=cells, counters=counters,
            correctness=tuple(c.correctness for c in cells if c.correctness),
        )  # fmt: skip
    return _measured(case, profile, reason, cells, counters, sweeps)


def _outcome(cells: Sequence[Cell]) -> tuple[str, str]:
    """One outcome for all sweeps: a wrong result anywhere is wrong; one good sweep is a measurement."""
    for outcome in ("wrong", "measured", "failed", "skipped"):
        if found := [cell for cell in cells if cell.outcome == outcome]:
            if outcome == "measured" and len(found) < len(cells):
                other = next(cell for cell in cells if cell.outcome != "measured")
                return (
                    outcome,
                    f"{len(cells) - len(found)} of {len(cells)} sweeps {other.outcome}: {other.reason}",
                )
            return outcome, found[0].reason
    return "unfinished", "the run was interrupted before this cell"


def _measured(
    case: PlannedCase,
    profile: str,
    reason: str,
    cells: tuple[Cell, ...],
    counters: Counters | None,
    sweeps: Sequence[SweepStart],
) -> CellResult:
    timings = [timing for cell in cells if (timing := timing_of(cell))]
    summary = latency([timing.rounds for timing in timings])
    if summary is None:
        return CellResult(
            case=case.name, profile=profile, outcome="failed", cells=cells, reason="every sample was void"
        )
    void = sum(sum(timing.void) for timing in timings)
    enqueue = sorted(timing.enqueue_seconds for timing in timings)[len(timings) // 2]
    floor = sorted(sweep.launch_floor_seconds for sweep in sweeps)[len(sweeps) // 2]
    near_floor = near_launch_floor(summary.p50_seconds, floor)
    return CellResult(
        case=case.name,
        profile=profile,
        outcome="measured",
        reason=reason,
        latency=summary,
        void_share=void / (void + summary.samples),
        enqueue_seconds=enqueue,
        prepare_seconds=max(cell.prepare_seconds for cell in cells),
        bytes_per_second=None if near_floor else bytes_per_second(summary.p50_seconds, case),
        near_floor=near_floor,
        launch_bound=summary.p50_seconds < 2 * enqueue,
        beats_physics=beats_physics(summary.p50_seconds, case, sweeps[0].machine),
        correctness=tuple(cell.correctness for cell in cells if cell.correctness),
        counters=counters,
        cells=cells,
    )


def _judge_claim(claim: PlannedClaim, cells: Mapping[tuple[str, str], CellResult], included: set[str]) -> ClaimResult:
    verdicts = {case: verdict for case, verdict in _verdicts(claim, cells) if case in included}
    return ClaimResult(claim=claim, status=judge_claim(list(verdicts.values())), verdicts=verdicts)


def _verdicts(claim: PlannedClaim, cells: Mapping[tuple[str, str], CellResult]) -> Iterator[tuple[str, Verdict]]:
    for case in claim.cases:
        subject, baseline = cells[case, claim.subject], cells[case, claim.baseline]
        ratio = compare(baseline.cells, subject.cells)
        yield case, judge_case(_side(subject), _side(baseline), ratio, claim.threshold)


def _side(cell: CellResult) -> Side:
    return Side(
        outcome=cell.outcome,
        reason=cell.reason,
        latency=cell.latency,
        void_share=cell.void_share,
        beats_physics=cell.beats_physics,
    )
