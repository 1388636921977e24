"""The tables of an experiment's page: a claim's verdicts case by case, and every cell."""

from collections.abc import Callable, Mapping
from typing import Any

from lab.definition.plan import PlannedCase, PlannedClaim, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.verdict.ranking import Place
from lab.website import format
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.judged import Judged
from lab.website.pages.labels import baseline_title, case_label, profile_title, shape_label
from lab.website.pages.moved import traffic_verdict
from lab.website.pages.views import (
    CaseVerdict,
    CaseView,
    CellView,
    ClaimView,
    ControlRow,
    GpuRow,
    ScopeRow,
    SplitRow,
)


def claim_view(shown: Judged, claim: PlannedClaim, ledger: Ledger) -> ClaimView:
    path = ("claims", claim.name)
    cases, traffic = ledger.value(*path, "cases"), claim.measure == "traffic"
    supported, judged = ledger.figure(*path, "supported"), ledger.figure(*path, "judged")
    mean = ledger.figure(*path, "geometric_mean", show=format.times if traffic else format.threshold)
    compared = ledger.figure(*path, "compared")
    tally: Sentence = ("supported at ", supported or "none", " of ", judged or "no", " cases")
    if mean and compared:
        tally = (*tally, "; geometric mean ", mean, " over ", compared)
    threshold = ledger.figure(*path, "threshold", show=format.times if traffic else format.threshold)
    assert threshold is not None, "every claim has a threshold"
    return ClaimView(
        name=claim.name,
        text=claim.text,
        status=ledger.value(*path, "status"),
        subject=profile_title(shown, claim.subject),
        baseline=baseline_title(shown, claim),
        threshold=threshold,
        scope=claim.scope,
        measure=claim.measure,
        tally=tally,
        rows=() if traffic else tuple(_case_verdict(shown, claim, case, ledger) for case in cases),
        traffic_rows=tuple(traffic_verdict(shown, claim, case, ledger) for case in cases) if traffic else (),
        headline=claim.name in shown.plan.headlines,
        expected=" or ".join(claim.expected),
    )


def _case_verdict(shown: Judged, claim: PlannedClaim, case_name: str, ledger: Ledger) -> CaseVerdict:
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
        noise=ledger.figure(*timed(noisier), "noise_ratio", show=format.noise),
        status=ledger.value(*path, "status"),
        mark=", ".join(part for part in (ledger.value(*path, "mark"), "CPU evidence" if shown.on_cpu else "") if part),
        reason=ledger.value(*path, "reason"),
    )


def _first(shown: Judged, places: Mapping[str, Place]) -> str:
    """The fastest profile, and whether that is more than the measurement can tell."""
    return next((profile_title(shown, name) + place.doubt for name, place in places.items()), "–")


def case_view(shown: Judged, case: PlannedCase, ledger: Ledger) -> CaseView:
    planned, places = shown.plan.profiles_of(case), shown.places(case.name, SCOPE)
    return CaseView(
        name=case.name,
        label=case_label(case),
        description=case.description,
        included=case.included and bool(shown.evidence),
        least_megabytes=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
        cells=tuple(
            _cell(shown.cell(case.name, profile.name), case, profile, places.get(profile.name), ledger)
            for profile in planned
        ),
        scopes=shown.plan.scopes,
        power_capped=bool(ledger.value("gpu", case.name, "power_capped")),
        scope_rows=tuple(row for profile in planned if (row := _scope_row(shown, case, profile, ledger))),
    )


def _scope_row(shown: Judged, case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> ScopeRow | None:
    scopes = shown.plan.scopes
    if len(scopes) < 2 or shown.cell(case.name, profile.name)["outcome"] != "measured":
        return None
    path = ("cells", case.name, profile.name, "scopes")
    times = tuple(ledger.figure(*path, scope, "p50_seconds", show=format.microseconds) for scope in scopes)
    return ScopeRow(at=pointer(*path), profile=profile.title, times=times)


def split_rows(shown: Judged, ledger: Ledger) -> tuple[SplitRow, ...]:
    """Where the speed-up of an eager call comes from, for each headline claim and case."""
    rows = []
    for case in shown.plan.included_cases:
        for claim in shown.plan.claims:
            path = ("splits", case.name, claim.name)
            if ledger.value(*path):
                parts = tuple(
                    (ledger.ratio(*path, part), ledger.interval(*path, part))
                    for part in ("end_to_end", "device", "launch")
                )
                pair = f"{profile_title(shown, claim.subject)} over {profile_title(shown, claim.baseline)}"
                rows.append(SplitRow(at=pointer(*path), case=case_label(case), pair=pair, parts=parts))
    return tuple(rows)


def control_rows(shown: Judged, ledger: Ledger) -> tuple[ControlRow, ...]:
    rows = []
    for case in shown.plan.included_cases:
        path = ("controls", case.name)
        if profile := ledger.value(*path, "profile"):
            rows.append(
                ControlRow(
                    case=case_label(case),
                    profile=profile_title(shown, profile),
                    ratio=ledger.ratio(*path, "scopes", SCOPE),
                    interval=ledger.interval(*path, "scopes", SCOPE),
                    spoiled=ledger.figure(*path, "spoiled_share", show=lambda v: f"{v:.0%}"),
                    sweeps=ledger.figure("cells", case.name, profile, "sweeps"),
                )
            )
    return tuple(rows)


def gpu_rows(shown: Judged, ledger: Ledger) -> tuple[GpuRow, ...]:
    shows: dict[str, Callable[[float], str]] = {
        "lowest_spin_hertz": lambda v: f"{v / 1e6:.0f}", "lowest_sm_hertz": lambda v: f"{v / 1e6:.0f}",
        "largest_power_watts": lambda v: f"{v:.0f}", "largest_temperature_celsius": lambda v: f"{v:.0f}",
        "energy_joules_per_sweep": lambda v: f"{v:.0f}",
    }  # fmt: skip
    rows = []
    for case in shown.plan.included_cases:
        path = ("gpu", case.name)
        figures = tuple(ledger.figure(*path, name, show=show) for name, show in shows.items())
        if any(figures):
            rows.append(GpuRow(at=pointer(*path), case=case_label(case), figures=figures))
    return tuple(rows)


def _cell(
    cell: Mapping[str, Any], case: PlannedCase, profile: PlannedProfile, place: Place | None, ledger: Ledger
) -> CellView:
    path = ("cells", case.name, profile.name)

    def figure(name: str, show: Callable[[Any], str]) -> Figure | None:
        return ledger.figure(*path, name, show=show)

    return CellView(
        at=pointer(*path),
        profile=profile.title,
        outcome=cell["outcome"],
        reason=cell["reason"],
        place=f"fastest{place.doubt}" if place and place.rank == 1 else "",
        enqueue=figure("enqueue_seconds", format.microseconds) if cell.get("enqueue_seconds") else None,
        host_bound=cell.get("host_bound", False),
        p50=figure("p50_seconds", format.microseconds),
        p95=figure("p95_seconds", format.microseconds),
        noise=figure("noise_ratio", format.noise),
        gigabytes=figure("bytes_per_second", format.gigabytes_per_second),
        error=figure("worst_tolerance_share", lambda v: f"{v:.2f}"),
        launch_bound=cell.get("launch_bound", False),
    )
