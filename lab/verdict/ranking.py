"""Ranks the profiles of a case, and marks ties and places that too few sweeps support. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from lab.definition.families import families_of, leading
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a profile stands at a case by p50.

    `level`: shown to be slower than none by more than the margin that counts as equal; for the fastest itself, that it
    shares its place. `proven` is False where too few sweeps were measured to tell. `lead` is the speed-up of the
    fastest over this one, where the run says.
    """

    rank: int
    times_fastest: float  # p50 over the fastest p50
    level: bool
    proven: bool
    lead: Speedup | None = None

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
    return _rank(experiment, case, scope, _timed(experiment, case, scope))


def contest(experiment: ExperimentResult, case: str, scope: str = SCOPE) -> dict[str, Place]:
    """The same with one profile of each family: the one that a headline claim is about, or else the fastest."""
    subjects, family = leading(experiment.plan), families_of(experiment.plan)
    timed = _timed(experiment, case, scope)
    chosen = {family[cell.profile]: cell.profile for _, cell in reversed(timed)}
    chosen |= {family[cell.profile]: cell.profile for _, cell in reversed(timed) if cell.profile in subjects}
    return _rank(experiment, case, scope, [each for each in timed if each[1].profile in chosen.values()])


def _timed(experiment: ExperimentResult, case: str, scope: str) -> list[tuple[float, CellResult]]:
    return sorted(
        ((latency.p50_seconds, cell) for cell in experiment.measured(case) if (latency := cell.latencies.get(scope))),
        key=lambda pair: pair[0],
    )


def _rank(
    experiment: ExperimentResult, case: str, scope: str, timed: Sequence[tuple[float, CellResult]]
) -> dict[str, Place]:
    if not timed:
        return {}
    all_seconds = [seconds for seconds, _ in timed]
    names = [cell.profile for _, cell in timed]
    rest = {
        name: _behind(
            (experiment.compare(case, faster, name, scope) for faster in names[:number]),
            1 + all_seconds.index(all_seconds[number]),
            all_seconds[number] / all_seconds[0],
        )
        for number, name in enumerate(names)
        if number
    }
    shared = any(place.level for place in rest.values())
    proven = all(place.proven for place in rest.values())
    return {names[0]: Place(rank=1, times_fastest=1.0, level=shared, proven=proven), **rest}


def baselines(experiment: ExperimentResult) -> tuple[str, ...]:
    """Every profile that a claim compares with, in the order of the profiles."""
    named = {claim.baseline for claim in experiment.plan.claims}
    return tuple(profile.name for profile in experiment.plan.profiles if profile.name in named)


def _behind(leads: Iterator[Speedup | None], number: int, times_fastest: float) -> Place:
    """`leads` are the speed-ups of all faster ones over this one, the fastest's first. They are computed as far as they
    are asked for: mostly the fastest's shows already that this one is slower."""
    first = next(leads)
    slower = any(lead is not None and lead.low >= 1 + EQUIVALENCE_MARGIN for lead in chain([first], leads))
    return Place(
        rank=number,
        times_fastest=times_fastest,
        level=first is not None and not slower,
        proven=first is not None,
        lead=first,
    )
