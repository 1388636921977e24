"""Every cell of an experiment in one table, and for each case how sure its times are; more is on the case's page."""

from dataclasses import dataclass

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.kernels import essentials
from lab.website.pages.labels import case_label


@dataclass(frozen=True, kw_only=True, slots=True)
class Time:
    """One cell: its p50, or why there is none. `best` marks the fastest of its case."""

    p50: Figure | None
    outcome: str
    best: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLine:
    """One case and all that is said of it on the experiment's page."""

    name: str
    label: str
    included: bool
    least: Figure | None
    times: tuple[Time, ...]
    fastest: str
    essentials: Sentence  # of the fastest profile's kernels
    noisiest: str
    noise: Figure | None
    spread: Figure | None  # the widest
    widest: str
    power_capped: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EveryCell:
    profiles: tuple[PlannedProfile, ...]
    rows: tuple[CaseLine, ...]
    upright: bool  # profiles are rows, for there are more of them than a page is wide


MOST_COLUMNS = 10


def every_cell(item: Judged, ledger: Ledger) -> EveryCell:
    profiles = item.plan.profiles
    return EveryCell(
        profiles=profiles,
        rows=tuple(_row(item, case, ledger) for case in item.plan.cases),
        upright=len(profiles) > max(MOST_COLUMNS, len(item.plan.cases)),
    )


def _row(item: Judged, case: PlannedCase, ledger: Ledger) -> CaseLine:
    measured = case.included and bool(item.evidence)
    places = item.places(case.name, SCOPE) if measured else {}
    names = {profile.name: profile for profile in item.plan.profiles}
    first = next(iter(places), "")
    noisiest, widest = _largest(item, case, "noise_ratio"), _largest(item, case, "between_sweep_spread")
    return CaseLine(
        name=case.name,
        label=case_label(case),
        included=measured,
        least=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
        times=tuple(_time(item, case, profile, first, measured, ledger) for profile in item.plan.profiles),
        fastest=names[first].title + places[first].doubt if first else "–",
        essentials=essentials(case, names[first], ledger) if _counted(case, first, ledger) else (),
        noisiest=names[noisiest].title if noisiest else "",
        noise=ledger.figure("cells", case.name, noisiest, "noise_ratio", show=format.noise) if noisiest else None,
        widest=names[widest].title if widest else "",
        spread=ledger.figure("cells", case.name, widest, "between_sweep_spread", show=format.share) if widest else None,
        power_capped=bool(ledger.value("gpu", case.name, "power_capped")),
    )


def _time(item: Judged, case: PlannedCase, profile: PlannedProfile, first: str, measured: bool, ledger: Ledger) -> Time:
    outcome = item.cell(case.name, profile.name)["outcome"] if measured else ""
    return Time(
        p50=ledger.figure("cells", case.name, profile.name, "p50_seconds", show=format.microseconds),
        outcome="" if outcome in ("measured", "not-planned") else outcome,
        best=profile.name == first,
    )


def _counted(case: PlannedCase, profile: str, ledger: Ledger) -> bool:
    return bool(profile and ledger.value("cells", case.name, profile, "counters", "launches"))


def _largest(item: Judged, case: PlannedCase, name: str) -> str:
    """The profile whose value of that name is the largest at a case; empty where none has one."""
    found = {
        profile.name: value
        for profile in item.plan.profiles
        if (value := item.cell(case.name, profile.name).get(name)) is not None
    }
    return max(found, key=lambda profile: found[profile], default="")
