"""Which implementation is the fastest: at a case, among the best of each family, and of a search's configurations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from lab.definition.families import families_of
from lab.definition.plan import PlannedExperiment
from lab.verdict.ranking import Place
from lab.verdict.search import Search
from lab.website.data.typed import ByProfile, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceData:
    """`level`: shown to be slower than none; `proven`: enough sweeps to tell. `ratio`: in a contest of families, how
    many times as fast the fastest is, with its interval."""

    family: str
    profile: str
    rank: int
    times_fastest: float
    level: bool
    proven: bool
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialData:
    sweeps_ahead: int
    sweeps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchData:
    """How often each configuration was ahead of the rule, and which won."""

    winner: str
    scope: str
    sweeps_fastest: int
    claims: Annotated[list[str], "Those of the trials, the fastest first."]
    trials: ByProfile[TrialData]


def places_data(plan: PlannedExperiment, places: Mapping[str, Place], leads: bool = False) -> list[PlaceData]:
    families = families_of(plan)
    return [
        taken(PlaceData, place, place.lead if leads else None, family=families[profile], profile=profile)
        for profile, place in places.items()
    ]


def search_data(search: Search) -> SearchData:
    return taken(
        SearchData, search,
        winner=search.winner.profile.name if search.winner else "",
        claims=[trial.claim for trial in search.trials],
        trials={
            trial.profile.name: TrialData(sweeps_ahead=trial.sweeps_ahead, sweeps=len(trial.sweep_ratios))
            for trial in search.trials
            if trial.sweep_ratios
        },
    )  # fmt: skip
