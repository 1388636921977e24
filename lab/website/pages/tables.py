"""The tables of an experiment's page: a claim's verdicts case by case, and every cell."""

from collections.abc import Mapping
from typing import Any

from lab.definition.asked import asked, claim_sentence
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.verdict.cells import SCOPE
from lab.verdict.ranking import Place
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.pages.labels import baseline_title, case_label, profile_title, shape_label
from lab.website.pages.moved import traffic_verdict
from lab.website.pages.pooled import pooled_sentence
from lab.website.pages.tallies import supported_at
from lab.website.pages.views import CaseVerdict, ClaimView, ControlRow, GpuFigure, GpuRow, SplitRow


def claim_view(shown: Judged, claim: PlannedClaim, ledger: Ledger, trust: Mapping[str, Any]) -> ClaimView:
    path = ("claims", claim.name)
    cases, traffic = ledger.value(*path, "cases"), claim.measure == "traffic"
    mean = ledger.end(claim.name, "geometric_mean", show=format.times if traffic else format.threshold)
    compared = ledger.figure(*path, "compared")
    tally = supported_at(claim.name, ledger)
    if mean and compared:
        tally = (*tally, *_mean(mean, compared, ledger.value(*path, "judged")))
    threshold = ledger.figure(*path, "threshold", show=format.times if traffic else format.threshold)
    assert threshold is not None, "every claim has a threshold"
    return ClaimView(
        name=claim.name,
        text=claim_sentence(claim),
        status=ledger.value(*path, "status"),
        mark=ledger.value(*path, "mark"),
        subject=profile_title(shown, claim.subject),
        baseline=baseline_title(shown, claim),
        threshold=threshold,
        asked=asked(claim),
        scope=claim.scope,
        measure=claim.measure,
        tally=tally,
        rows=() if traffic else tuple(_case_verdict(shown, claim, case, ledger, trust) for case in cases),
        traffic_rows=tuple(traffic_verdict(shown, claim, case, ledger) for case in cases) if traffic else (),
        headline=claim.name in shown.plan.headlines,
        expected=" or ".join(claim.expected),
    )


def _mean(mean: Figure, compared: Figure, judged: int) -> Sentence:
    """Of one case there is none to be taken."""
    if compared.value == 1:
        return ("; ", mean)
    if compared.value == judged:
        return ("; geometric mean ", mean, " over all")
    return ("; geometric mean ", mean, " over the ", compared, " that could be judged")


def _case_verdict(
    shown: Judged, claim: PlannedClaim, case_name: str, ledger: Ledger, trust: Mapping[str, Any]
) -> CaseVerdict:
    case = next(c for c in shown.plan.cases if c.name == case_name)
    path = ("claims", claim.name, "cases", case_name)
    places = shown.places(case_name, claim.scope)

    def timed(profile: str) -> tuple[str, ...]:
        return "cells", case_name, profile, "scopes", claim.scope

    noisier = max(
        (claim.subject, claim.baseline), key=lambda profile: ledger.value(*timed(profile), "noise_ratio") or 0.0
    )
    return CaseVerdict(
        at=pointer(*path),
        case=shape_label(case),
        anchor=case_name,
        winner=_first(shown, places),
        subject_p50=ledger.figure(*timed(claim.subject), "p50_seconds", show=format.microseconds),
        baseline_p50=ledger.figure(*timed(claim.baseline), "p50_seconds", show=format.microseconds),
        ratio=ledger.ratio(*path),
        interval=ledger.interval(*path),
        pooled=pooled_sentence(trust, shown, claim, case_name),
        noise=ledger.figure(*timed(noisier), "noise_ratio", show=format.noise),
        status=ledger.value(*path, "status"),
        mark=", ".join(part for part in (ledger.value(*path, "mark"), "CPU evidence" if shown.on_cpu else "") if part),
        reason=ledger.value(*path, "reason"),
    )


def _first(shown: Judged, places: Mapping[str, Place]) -> str:
    """The fastest profile, and whether that is more than the measurement can tell."""
    return next((profile_title(shown, name) + place.doubt for name, place in places.items()), "–")


def split_rows(shown: Judged, case: PlannedCase, ledger: Ledger) -> tuple[SplitRow, ...]:
    """Where the speed-up of an eager call comes from at a case, for each headline claim."""
    rows = []
    for claim in shown.plan.claims:
        path = ("splits", case.name, claim.name)
        if ledger.value(*path):
            parts = tuple(
                (ledger.ratio(*path, part), ledger.interval(*path, part)) for part in ("end_to_end", "device", "launch")
            )
            pair = f"{profile_title(shown, claim.subject)} over {profile_title(shown, claim.baseline)}"
            rows.append(SplitRow(at=pointer(*path), pair=pair, parts=parts))
    return tuple(rows)


def control_row(shown: Judged, case: PlannedCase, ledger: Ledger) -> ControlRow | None:
    """None where the case had no control."""
    path = ("controls", case.name)
    profile = ledger.value(*path, "profile")
    if not profile:
        return None
    return ControlRow(
        case=case_label(case),
        anchor=case.name,
        profile=profile_title(shown, profile),
        ratio=ledger.ratio(*path, "scopes", SCOPE),
        interval=ledger.interval(*path, "scopes", SCOPE),
        spoiled=ledger.figure(*path, "spoiled_share", show=format.whole_percent),
        sweeps=ledger.figure("cells", case.name, profile, "sweeps"),
    )


def gpu_row(case: PlannedCase, ledger: Ledger) -> GpuRow | None:
    """None where nobody told."""
    path = ("gpu", case.name)
    figures = tuple(GpuFigure(name, unit, ledger.figure(*path, key, show=show)) for key, name, unit, show in GPU)
    if not any(each.figure for each in figures):
        return None
    return GpuRow(at=pointer(*path), case=case_label(case), anchor=case.name, figures=figures)


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _megahertz(hertz: float) -> str:
    return f"{hertz / 1e6:.0f}"


# In the data; as a heading; its unit; how it is shown.
GPU = (
    ("lowest_spin_hertz", "Lowest SM clock, by spins", "MHz", _megahertz),
    ("lowest_sm_hertz", "Lowest SM clock, by NVML", "MHz", _megahertz),
    ("largest_power_watts", "Largest power", "W", _whole),
    ("largest_temperature_celsius", "Highest temperature", "°C", _whole),
    ("energy_joules_per_sweep", "Energy of a sweep", "J", _whole),
)
