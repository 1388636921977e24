"""Who is fastest at a case, said no more firmly than the measurement allows. Pure."""

from dataclasses import dataclass

from lab.judge import EQUIVALENCE_MARGIN, Status
from lab.results import CellResult, ExperimentResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """`level`: not shown to differ from the fastest by more than the margin that counts as equal."""

    rank: int
    level: bool
    text: str


def rank(experiment: ExperimentResult, case: str) -> dict[str, Place]:
    """Places of the measured profiles by p50, fastest first."""
    timed = sorted(
        ((cell.latency.p50_seconds, cell) for cell in experiment.measured(case) if cell.latency and _valid(cell)),
        key=lambda pair: pair[0],
    )
    if not timed:
        return {}
    best_seconds, best = timed[0]
    level = {cell.profile for _, cell in timed[1:] if _level(experiment, case, best, cell)}
    places = {best.profile: Place(rank=1, level=bool(level), text="1 level" if level else "1 FASTEST")}
    for number, (seconds, cell) in enumerate(timed[1:], start=2):
        if cell.profile in level:
            text = f"{number} level"
        else:
            text = f"{number} takes {seconds / best_seconds:.2f}×"
        places[cell.profile] = Place(rank=number, level=cell.profile in level, text=text)
    return places


def baselines(experiment: ExperimentResult) -> tuple[str, ...]:
    """Every profile that a claim compares with, in the order of the profiles."""
    named = {result.claim.baseline for result in experiment.claims}
    return tuple(profile.name for profile in experiment.plan.profiles if profile.name in named)


def headline_status(experiment: ExperimentResult, claim: str) -> Status:
    return next(result.status for result in experiment.claims if result.claim.name == claim)


def _valid(cell: CellResult) -> bool:
    return not cell.beats_physics


def _level(experiment: ExperimentResult, case: str, best: CellResult, other: CellResult) -> bool:
    speedup = experiment.compare(case, best.profile, other.profile)
    return speedup is not None and speedup.low < 1 + EQUIVALENCE_MARGIN
