"""How one profile stands against the best of all others, over the cases of an experiment. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.verdict.results import ExperimentResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One case in one scope. `ratio` is the best rival's p50 over the profile's own: above 1 it is the faster one."""

    case: str
    scope: str
    seconds: float
    rival: str
    rival_seconds: float

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
    level_cases: int  # at or above `level`
    ahead_share: float  # of the cases, those above 1

    @property
    def level_share(self) -> float:
        return self.level_cases / self.cases


def standings(experiment: ExperimentResult, profile: str, scope: str) -> tuple[Standing, ...]:
    """Of every case that the profile and a rival were measured at; the worst first."""
    results = []
    for case in experiment.plan.included_cases:
        times = {
            name: latency.p50_seconds
            for (case_name, name), cell in experiment.cells.items()
            if case_name == case.name and (latency := cell.latencies.get(scope))
        }
        results += standing(case.name, scope, times, profile)
    return worst_first(results)


def standing(case: str, scope: str, seconds: Mapping[str, float], profile: str) -> list[Standing]:
    """The one of a case, from the times of all its profiles; none where the profile or every rival lacks one."""
    rivals = {name: time for name, time in seconds.items() if name != profile}
    if profile not in seconds or not rivals:
        return []
    rival = min(rivals, key=lambda name: rivals[name])
    return [Standing(case=case, scope=scope, seconds=seconds[profile], rival=rival, rival_seconds=rivals[rival])]


def worst_first(results: Iterable[Standing]) -> tuple[Standing, ...]:
    return tuple(sorted(results, key=lambda standing: standing.ratio))


def unmeasured(experiment: ExperimentResult, profile: str, scope: str) -> tuple[str, ...]:
    """The cases at which the profile has no time. They count against it, and are listed separately."""
    return tuple(
        case.name
        for case in experiment.plan.included_cases
        if scope not in experiment.cells[case.name, profile].latencies
    )


def spread(standings: Iterable[Standing], level: float) -> Spread:
    """ValueError where there are none."""
    ratios: Sequence[float] = sorted(standing.ratio for standing in standings)
    if not ratios:
        raise ValueError("no case was measured with a rival; a distribution needs one")
    count = len(ratios)
    return Spread(
        cases=count,
        smallest=ratios[0],
        low=ratios[int(0.05 * count)],
        median=(ratios[(count - 1) // 2] + ratios[count // 2]) / 2,
        level_cases=sum(ratio >= level for ratio in ratios),
        ahead_share=sum(ratio > 1 for ratio in ratios) / count,
    )
