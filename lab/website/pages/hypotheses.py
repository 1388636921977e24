"""What was expected of each profile, and beside it what the profiler counted and how near the limit it came."""

from dataclasses import dataclass

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.kernels import essentials
from lab.website.pages.labels import case_label


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A profile: `seen` is what the profiler told at its largest profiled case; empty where it told nothing."""

    name: str
    title: str
    technique: str
    hypothesis: str
    signal: str
    case: str
    case_label: str
    seen: Sentence
    attained: Figure | None  # in per cent of the limit there


def hypotheses(item: Judged, ledger: Ledger) -> tuple[Hypothesis, ...]:
    return tuple(_hypothesis(item, profile, ledger) for profile in item.plan.profiles)


def _hypothesis(item: Judged, profile: PlannedProfile, ledger: Ledger) -> Hypothesis:
    case = _largest_profiled(item, profile, ledger)
    return Hypothesis(
        name=profile.name,
        title=profile.title,
        technique=profile.technique,
        hypothesis=profile.hypothesis,
        signal=profile.signal,
        case=case.name if case else "",
        case_label=case_label(case) if case else "",
        seen=essentials(case, profile, ledger) if case else (),
        attained=ledger.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained", show=format.share)
        if case
        else None,
    )


def _largest_profiled(item: Judged, profile: PlannedProfile, ledger: Ledger) -> PlannedCase | None:
    """The case with the most bytes at which the profiler counted this profile's kernels."""
    counted = [
        case
        for case in item.plan.included_cases
        if ledger.value("cells", case.name, profile.name, "counters", "launches")
    ]
    return max(counted, key=lambda case: case.least_bytes, default=None)
