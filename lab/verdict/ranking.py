"""Who is fastest at a case, said no more firmly than the measurement allows. Pure."""

from dataclasses import dataclass

from lab.verdict.cells import SCOPE
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a profile stands at a case by p50.

    `level`: not shown to be slower than the fastest by more than the margin that counts as equal; for
    the fastest itself, that it shares its place. `proven` is False where too few sweeps were measured
    to tell.
    """

    rank: int
    times_fastest: float  # p50 over the fastest p50
    level: bool
    proven: bool

    @property
    def text(self) -> str:
        """'1 FASTEST', '1 FASTEST (tie)', '2 tie', '4: 1.57× the time', and '… (unproven)': sorts by place."""
        if not self.proven:
            return f"{self.rank}: {self.times_fastest:.2f}× the time (unproven)" if self.rank > 1 else "1 unproven"
        if self.rank == 1:
            return f"1 FASTEST{self.doubt}"
        return f"{self.rank} tie" if self.level else f"{self.rank}: {self.times_fastest:.2f}× the time"

    @property
    def doubt(self) -> str:
        """What to add to the name of the fastest: ' (tie)', ' (unproven)' or nothing."""
        if not self.proven:
            return " (unproven)"
        return " (tie)" if self.level else ""


def rank(experiment: ExperimentResult, case: str, scope: str = SCOPE) -> dict[str, Place]:
    """The place of each profile timed in this scope, fastest first; empty where none was."""
    timed = sorted(
        ((found.p50_seconds, cell) for cell in experiment.measured(case) if (found := cell.latencies.get(scope))),
        key=lambda pair: pair[0],
    )
    if not timed:
        return {}
    all_seconds = [seconds for seconds, _ in timed]
    best = timed[0][1]
    rest = {
        cell.profile: _behind(
            experiment.compare(case, best.profile, cell.profile, scope),
            1 + all_seconds.index(seconds),
            seconds / all_seconds[0],
        )
        for seconds, cell in timed[1:]
    }
    shared = any(place.level for place in rest.values())
    proven = all(place.proven for place in rest.values())
    return {best.profile: Place(rank=1, times_fastest=1.0, level=shared, proven=proven), **rest}


def baselines(experiment: ExperimentResult) -> tuple[str, ...]:
    """Every profile that a claim compares with, in the order of the profiles."""
    named = {claim.baseline for claim in experiment.plan.claims}
    return tuple(profile.name for profile in experiment.plan.profiles if profile.name in named)


def _behind(lead: Speedup | None, number: int, times_fastest: float) -> Place:
    """`lead` is the speed-up of the fastest over this one."""
    level = lead is not None and lead.low < 1 + EQUIVALENCE_MARGIN
    return Place(rank=number, times_fastest=times_fastest, level=level, proven=lead is not None)
