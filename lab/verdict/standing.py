"""How one profile stands against the best of all others, over the cases of an experiment. Pure."""

from collections.abc import Iterable, Sequence
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
    level_share: float  # of the cases, those at or above `level`
    ahead_share: float  # those above 1


def standings(experiment: ExperimentResult, profile: str, scope: str) -> tuple[Standing, ...]:
    """Of every case that the profile and a rival were measured at; the worst first."""
    results = []
    for case in experiment.plan.included_cases:
        times = {
            name: latency.p50_seconds
            for (case_name, name), cell in experiment.cells.items()
            if case_name == case.name and (latency := cell.latencies.get(scope))
        }
        own = times.pop(profile, None)
        if own is not None and times:
            rival = min(times, key=lambda name: times[name])
            results.append(Standing(case=case.name, scope=scope, seconds=own, rival=rival, rival_seconds=times[rival]))
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
        level_share=sum(ratio >= level for ratio in ratios) / count,
        ahead_share=sum(ratio > 1 for ratio in ratios) / count,
    )
