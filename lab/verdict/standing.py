"""How the subjects of an experiment's claims stand against the best of their rivals, over its cases. Pure.

A rival has the subject that the claims hold against it: one that works in place is compared with one that does so too.
Two profiles are compared over the sweeps that measured both: an extra sweep leaves out those that are precise already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from lab.definition.plan import PlannedExperiment
from lab.verdict.compare import rounds_of
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.results import ExperimentResult

BySweep = Mapping[int, float]  # the median of each sweep
Subjects = Mapping[str, str]  # by rival
LEVEL = 1 - EQUIVALENCE_MARGIN  # the ratio to a rival from which on a kernel is level with it


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One case in one scope. `ratio` is the best rival's p50 over its subject's: above 1 the subject is the faster one,
    and from `bar` on it is as fast as is asked for. Both are of the sweeps that measured the two."""

    case: str
    scope: str
    subject: str
    seconds: float
    rival: str
    rival_seconds: float
    bar: float

    @property
    def ratio(self) -> float:
        return self.rival_seconds / self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """The distribution of ratios: the smallest, the one that 5 % are below, the middle one, and shares of cases."""

    cases: int
    smallest: float
    low: float
    median: float
    level_cases: int  # within 2 % of the best rival, or ahead of it
    bar_cases: int  # at or above what is asked for there, which may be less
    ahead_share: float  # of the cases, those above 1

    @property
    def level_share(self) -> float:
        return self.level_cases / self.cases

    @property
    def bar_share(self) -> float:
        return self.bar_cases / self.cases


def bar_of(plan: PlannedExperiment) -> float:
    """The ratio to a rival that the claims ask for."""
    return plan.claims[0].threshold


def subjects(plan: PlannedExperiment, scope: str) -> Subjects:
    """The subject of each rival that a claim in the scope names."""
    return {claim.baseline: claim.subject for claim in plan.claims if claim.scope == scope}


def standings(experiment: ExperimentResult, scope: str) -> tuple[Standing, ...]:
    """Of every case that a rival and its subject were measured at; the worst first."""
    held, bar = subjects(experiment.plan, scope), bar_of(experiment.plan)
    results = []
    for case in experiment.plan.included_cases:
        results += standing(case.name, scope, sweep_seconds(experiment, case.name, scope), held, bar)
    return worst_first(results)


def standing(case: str, scope: str, seconds: Mapping[str, BySweep], held: Subjects, bar: float) -> list[Standing]:
    """The one of a case, from the times of all its profiles; none where no sweep measured a rival and its subject."""
    against = [
        Standing(
            case=case, scope=scope, subject=subject, rival=rival, bar=bar,
            seconds=median(seconds[subject][sweep] for sweep in shared),
            rival_seconds=median(seconds[rival][sweep] for sweep in shared),
        )
        for rival, subject in held.items()
        if (shared := seconds.get(subject, {}).keys() & seconds.get(rival, {}).keys())
    ]  # fmt: skip
    return [min(against, key=lambda standing: standing.ratio)] if against else []


def sweep_seconds(experiment: ExperimentResult, case: str, scope: str) -> dict[str, BySweep]:
    """The times of each profile that has any."""
    cells = {profile.name: experiment.cells[case, profile.name] for profile in experiment.plan.profiles}
    return {
        name: dict(
            zip(
                (each.sweep for each in cell.cells if rounds_of(each, scope, experiment.spoiled)),
                latency.sweep_p50_seconds,
                strict=True,
            )
        )
        for name, cell in cells.items()
        if (latency := cell.latencies.get(scope))
    }


def uneven_sweep_seconds(experiment: ExperimentResult, case: str, scope: str) -> dict[str, BySweep]:
    """The same where not every sweep measured all of them; else none."""
    seconds = sweep_seconds(experiment, case, scope)
    return seconds if len({frozenset(times) for times in seconds.values()}) > 1 else {}


def worst_first(results: Iterable[Standing]) -> tuple[Standing, ...]:
    return tuple(sorted(results, key=lambda standing: standing.ratio))


def unmeasured(experiment: ExperimentResult, scope: str) -> tuple[str, ...]:
    """The cases at which a subject has no time. They count against it, and are listed separately."""
    held = set(subjects(experiment.plan, scope).values())
    return tuple(
        case.name
        for case in experiment.plan.included_cases
        if any(scope not in experiment.cells[case.name, subject].latencies for subject in held)
    )


def spread(standings: Iterable[Standing], without_time: int = 0) -> Spread:
    """`without_time`: so many more cases, at which a subject was refused, reach nothing. ValueError where
    there are no standings."""
    ranked = worst_first(standings)
    ratios = [standing.ratio for standing in ranked]
    if not ratios:
        raise ValueError("no case was measured with a rival; a distribution needs one")
    count = len(ratios)
    return Spread(
        cases=count + without_time,
        smallest=ratios[0],
        low=ratios[int(0.05 * count)],
        median=(ratios[(count - 1) // 2] + ratios[count // 2]) / 2,
        level_cases=sum(ratio >= LEVEL for ratio in ratios),
        bar_cases=sum(standing.ratio >= standing.bar for standing in ranked),
        ahead_share=sum(ratio > 1 for ratio in ratios) / (count + without_time),
    )
