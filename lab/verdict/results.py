"""What a judged run says: each cell summed up, each pair compared, each claim with its verdicts. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lab.definition.plan import Plan, PlannedClaim, PlannedExperiment, PlannedProfile
from lab.evidence import journal
from lab.evidence.chain import Seal
from lab.evidence.record import (
    Canary,
    Control,
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
from lab.verdict.ceilings import Ceilings
from lab.verdict.cells import SCOPE, CellResult, launch_floor_seconds
from lab.verdict.compare import Timed, speedup_between, split_between
from lab.verdict.excluded_rounds import ExcludedRounds
from lab.verdict.judge import WITH_USABLE_RATIO, Status, Verdict, mark_of_claim
from lab.verdict.statistics import Speedup, Split, geometric_mean
from lab.verdict.widening import session_floor, widened


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
    def usable_ratios(self) -> tuple[float, ...]:
        """Of the cases that were measured well enough."""
        return tuple(v.ratio for v in self.verdicts.values() if v.status in WITH_USABLE_RATIO and v.ratio is not None)

    @property
    def geometric_mean(self) -> float | None:
        """Of these ratios; None where there are none."""
        return geometric_mean(self.usable_ratios) if self.usable_ratios else None


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
        one_draw, floor = not self.drawn_once.isdisjoint((subject, baseline)), self.session_floor(case)
        return Split(
            end_to_end=widened(split.end_to_end, floor, self.control(case, "eager"), one_draw),
            device=widened(split.device, floor, self.control(case, "graph"), one_draw),
            launch=widened(split.launch, floor),
        )

    def session_floor(self, case: str) -> float:
        """The least standard deviation between sessions at a case."""
        return session_floor(self.plan.case(case), self.spoiled.power_limited(self.plan.name, case))

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
        return widened(speedup, self.session_floor(case), self.control(case, scope), one_draw)

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
    seal: Seal | None = None  # of its journal, where it was read from one

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
