"""The lab's own error rates, from published evidence: where the right answer is known, how often was it given? Pure."""

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.plan import Protocol
from lab.profiler.readings import DIRTY_FLUSH, INSTRUMENTS
from lab.verdict.judge import WITH_USABLE_RATIO, Status, Verdict
from lab.verdict.judge_run import judge_run
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import DECIDING_CONFIDENCE, Speedup, largest_rate

EXPERIMENT = "measurement-validity"
SESSION_SWEEPS = 5
SAME = "-again"  # claims of this ending compare a profile with itself
KNOWN_RATIOS = {"extra-1": 1.01, "extra-2": 1.02, "extra-5": 1.05}
REPEATED_FROM_SECONDS = 20e-6
REPEATED_WITHIN = 0.01
AGREES_WITHIN, AGREES_WITHIN_SECONDS = 0.02, 0.5e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfComparison:
    """Comparisons of a function with itself: none should be supported, one interval in twenty may exclude 1.

    What was rejected or has no evidence counts as a comparison too.
    """

    comparisons: int
    supported: int
    excluding_one: int

    @property
    def largest_supported_rate(self) -> float | None:
        return largest_rate(self.supported, self.comparisons)


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """Comparisons with known extra work."""

    claim: str
    known_ratio: float
    trials: int
    right: int | None  # verdicts that the experiment expects of a sound instrument; None where it expects any
    withheld: int  # as too noisy to judge
    excluding_one: int
    covering: int  # intervals that hold the known ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """Runs of one experiment under one protocol on GPUs of one model."""

    experiment: str
    gpu: str
    gpus: int  # different ones
    runs: int
    sources: int  # different states of the source that they measured
    cells: int  # of 20 µs and more
    within: int  # those whose p50 stayed within ±1 % of its median over the runs
    largest_deviation: float
    largest_at: str
    comparisons: int  # claims of a speed-up, at cases that more than one run judged
    disjoint: tuple[str, ...]  # those of which two runs' intervals do not meet
    changed: tuple[str, ...]  # those whose verdict is not the same in all runs
    flips: tuple[str, ...]  # those supported in one run and refuted in another
    protocol: str  # in words
    block: int  # samples, by the protocol

    @property
    def disjoint_count(self) -> int:
        return len(self.disjoint)

    @property
    def changed_count(self) -> int:
        return len(self.changed)

    @property
    def flip_count(self) -> int:
        return len(self.flips)


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """One cell as several instruments see it; the last three after a flush that leaves the cache dirty."""

    case: str
    profile: str
    p50_seconds: float
    seconds: Mapping[str, float]  # by instrument

    def agrees(self, instrument: str) -> bool:
        """Whether the lab's own clock, after the same kind of flush, says the same."""
        return _near(self.seconds[DIRTY_FLUSH], self.seconds[instrument])

    def agrees_cold(self, instrument: str) -> bool:
        """Whether device_cold, with its own flush, says the same."""
        return _near(self.p50_seconds, self.seconds[instrument])


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    sessions: int
    by_case: Mapping[str, SelfComparison]
    controls: SelfComparison  # the A/A controls that every other run carries
    power: tuple[Power, ...]
    repeats: tuple[Repeat, ...]
    agreements: tuple[Agreement, ...]

    @property
    def same(self) -> SelfComparison:
        return _added(self.by_case.values())


def study(runs: Sequence[RunResult]) -> Study:
    """What published runs say of the lab itself. Runs on a CPU are left out."""
    runs = [run for run in runs if run.machine.device == "cuda"]
    testing = [run for run in runs if any(e.name == EXPERIMENT for e in run.plan.experiments)]
    experiments = [_tests(session) for run in testing for session in sessions(run)]
    others = [run for run in runs if run not in testing]
    return Study(
        sessions=len(experiments),
        by_case=_by_case(experiments),
        controls=_controls(others),
        power=tuple(_power(name, experiments) for name in KNOWN_RATIOS),
        repeats=tuple(_repeats(runs)),
        agreements=tuple(agreement for run in runs for agreement in _agreements(run)),
    )


def sessions(run: RunResult) -> Iterator[RunResult]:
    """A long run as runs of five sweeps each, judged one by one; what is left over is left out."""
    for first in range(0, run.plan.protocol.sweeps - SESSION_SWEEPS + 1, SESSION_SWEEPS):
        sweeps = range(first, first + SESSION_SWEEPS)
        yield judge_run(run.plan, [record for record in run.records if getattr(record, "sweep", first) in sweeps])


def can_fail(expected: Sequence[str]) -> bool:
    """Whether a claim on the lab itself tells anything: some verdict on what was measured would be a wrong one."""
    return bool(expected) and not {*WITH_USABLE_RATIO, Status.RERUN_NOISE} <= set(expected)


def _tests(run: RunResult) -> ExperimentResult:
    return next(experiment for experiment in run.experiments if experiment.plan.name == EXPERIMENT)


def _by_case(experiments: Iterable[ExperimentResult]) -> dict[str, SelfComparison]:
    counted: dict[str, list[SelfComparison]] = {}
    for experiment in experiments:
        for claim in experiment.claims:
            if claim.claim.name.endswith(SAME):
                for case, verdict in claim.verdicts.items():
                    counted.setdefault(case, []).append(_compared(verdict))
    return {case: _added(parts) for case, parts in sorted(counted.items())}


def _controls(runs: Iterable[RunResult]) -> SelfComparison:
    """Of cells that were measured: the controls of cheats tell nothing."""
    parts = []
    for experiment in itertools.chain.from_iterable(run.experiments for run in runs):
        for case in experiment.plan.included_cases:
            if control := experiment.control(case.name):
                excluding = not control.low <= 1 <= control.high
                parts.append(
                    SelfComparison(comparisons=1, supported=int(_claimable(control)), excluding_one=int(excluding))
                )
    return _added(parts)


def _claimable(control: Speedup) -> bool:
    """Whether a claim of the usual threshold would hold, of either name over the other."""
    low, high = control.interval(DECIDING_CONFIDENCE)
    return low >= USUAL_THRESHOLD or high <= 1 / USUAL_THRESHOLD


def _compared(verdict: Verdict) -> SelfComparison:
    speedup = verdict.speedup
    return SelfComparison(
        comparisons=1,
        supported=int(verdict.status == Status.SUPPORTED),
        excluding_one=int(speedup is not None and not speedup.low <= 1 <= speedup.high),
    )


def _added(parts: Iterable[SelfComparison]) -> SelfComparison:
    parts = list(parts)
    return SelfComparison(
        comparisons=sum(part.comparisons for part in parts),
        supported=sum(part.supported for part in parts),
        excluding_one=sum(part.excluding_one for part in parts),
    )


def _power(name: str, experiments: Iterable[ExperimentResult]) -> Power:
    claims = [claim for experiment in experiments for claim in experiment.claims if claim.claim.name == name]
    verdicts = [(verdict, claim.claim.expected) for claim in claims for verdict in claim.verdicts.values()]
    speedups = [verdict.speedup for verdict, _ in verdicts if verdict.speedup]
    return Power(
        claim=name,
        known_ratio=KNOWN_RATIOS[name],
        trials=len(verdicts),
        right=sum(verdict.status in expected for verdict, expected in verdicts)
        if all(can_fail(expected) for _, expected in verdicts)
        else None,
        withheld=sum(verdict.status == Status.RERUN_NOISE for verdict, _ in verdicts),
        excluding_one=sum(not each.low <= 1 <= each.high for each in speedups),
        covering=sum(each.low <= KNOWN_RATIOS[name] <= each.high for each in speedups),
    )


def _repeats(runs: Sequence[RunResult]) -> Iterator[Repeat]:
    groups: dict[tuple[str, str, str], list[tuple[RunResult, ExperimentResult]]] = {}
    for run in runs:
        for experiment in run.experiments:
            key = (experiment.plan.name, run.machine.gpu, repr(run.plan.protocol))
            groups.setdefault(key, []).append((run, experiment))
    for (name, gpu, _), members in sorted(groups.items()):
        if len(members) > 1:
            yield _repeat(name, gpu, [run for run, _ in members], [experiment for _, experiment in members])


def _repeat(name: str, gpu: str, runs: Sequence[RunResult], members: Sequence[ExperimentResult]) -> Repeat:
    verdicts = _verdicts(members)
    statuses = {place: {verdict.status for verdict in group} for place, group in verdicts.items()}
    deviations = _deviations(members)
    largest_at = max(deviations, key=lambda cell: deviations[cell], default="")
    return Repeat(
        experiment=name,
        gpu=gpu,
        gpus=len({board for run in runs for board in run.boards}),
        runs=len(runs),
        sources=len({run.start.source_digest for run in runs}),
        cells=len(deviations),
        within=sum(deviation <= REPEATED_WITHIN for deviation in deviations.values()),
        largest_deviation=deviations.get(largest_at, 0.0),
        largest_at=largest_at,
        comparisons=len(verdicts),
        disjoint=tuple(place for place, group in verdicts.items() if _disjoint(group)),
        changed=tuple(place for place, seen in statuses.items() if len(seen) > 1),
        flips=tuple(place for place, seen in statuses.items() if {Status.SUPPORTED, Status.REFUTED} <= seen),
        protocol=_protocol_words(runs[0].plan.protocol),
        block=runs[0].plan.protocol.block,
    )


def _protocol_words(protocol: Protocol) -> str:
    """What tells the protocols of published runs apart."""
    size = f"{protocol.sweeps} × {protocol.rounds} × {protocol.block}"
    caches = "a cache a sweep" if protocol.fresh_caches else "one cache"
    return ", ".join([size, caches, *(["isolated"] if protocol.isolated else [])])


def _deviations(members: Sequence[ExperimentResult]) -> dict[str, float]:
    """Of each cell that is long enough: how far a run's p50 was from the median over the runs, at most."""
    deviations: dict[str, float] = {}
    for key in dict.fromkeys(itertools.chain.from_iterable(e.cells for e in members)):
        seconds = [cell.latency.p50_seconds for e in members if (cell := e.cells.get(key)) and cell.latency]
        middle = statistics.median(seconds) if len(seconds) > 1 else 0.0
        if middle >= REPEATED_FROM_SECONDS:
            deviations[" ".join(key)] = max(abs(value / middle - 1) for value in seconds)
    return deviations


def _verdicts(members: Sequence[ExperimentResult]) -> dict[str, list[Verdict]]:
    """The verdicts of each "claim at case" that more than one run judged; of speed-ups, for times are what repeats."""
    verdicts: dict[str, list[Verdict]] = {}
    for experiment in members:
        for claim in (claim for claim in experiment.claims if claim.claim.measure == "speedup"):
            for case, verdict in claim.verdicts.items():
                verdicts.setdefault(f"{claim.claim.name} at {case}", []).append(verdict)
    return {place: group for place, group in verdicts.items() if len(group) > 1}


def _disjoint(verdicts: Sequence[Verdict]) -> bool:
    speedups = [verdict.speedup for verdict in verdicts if verdict.speedup]
    return len(speedups) > 1 and max(speedup.low for speedup in speedups) > min(speedup.high for speedup in speedups)


def _agreements(run: RunResult) -> Iterator[Agreement]:
    """The cells that every instrument read."""
    readings: dict[tuple[str, str, str], dict[str, float]] = {}
    for reading in run.readings:
        if reading.seconds is not None:
            place = (reading.experiment, reading.case, reading.profile)
            readings.setdefault(place, {})[reading.instrument] = reading.seconds
    for experiment in run.experiments:
        for (case, profile), cell in experiment.cells.items():
            seconds = readings.get((experiment.plan.name, case, profile), {})
            if cell.latency and seconds.keys() == set(INSTRUMENTS):
                yield Agreement(case=case, profile=profile, p50_seconds=cell.latency.p50_seconds, seconds=seconds)


def _near(mine: float, other: float) -> bool:
    return abs(mine - other) <= max(AGREES_WITHIN * other, AGREES_WITHIN_SECONDS)
