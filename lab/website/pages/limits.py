"""How far each cell is from what the hardware allows: the table, and the roofline above it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.verdict.datasheet import MATRIX_KINDS
from lab.verdict.roofline import GRAPH
from lab.website import format
from lab.website.charts.roofline import Roof, Spot, roofline_chart, roofline_figure
from lab.website.data.judged import Judged
from lab.website.data.published_limits import LIMIT_SCOPES
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.pages.ceilings import KINDS, ceilings_sentence
from lab.website.pages.hardware_views import Attained, LimitGroup, LimitLine, LimitRow, LimitsSection
from lab.website.pages.labels import TITLES, case_label, series

UNDRAWN = "Not drawn, and in the table only: {}."
NO_FLOPS = "cells without operations to count"
LAUNCH_BOUND = "launch-bound cells"
SAME_MARKER = "profiles that would share the marker of another at its case"
IMPOSSIBLE = "cells that were rejected for their time"


def limits_section(shown: Judged, ledger: Ledger) -> LimitsSection | None:
    """None where the run did not measure its ceilings, and on the page of the ceilings themselves."""
    plan = shown.plan
    if ledger.value("limits") is None or plan.name == CEILINGS:
        return None
    profiles = tuple(p for p in plan.profiles if any(p in shown.measured_profiles(c.name) for c in plan.included_cases))
    all_spots = _spots(shown, ledger)
    spots = _told_apart(shown, all_spots)
    roofs = (_bandwidths(ledger), _rates(shown, ledger))
    drawn = bool(spots and roofs[0])
    return LimitsSection(
        ceilings=ceilings_sentence(ledger),
        profiles=tuple(profile.title for profile in profiles),
        lines=tuple(
            _line(shown, case, profiles, ledger) for case in plan.included_cases if shown.measured_profiles(case.name)
        ),
        chart=roofline_chart(spots, *roofs) if drawn else None,
        figure_json=roofline_figure(spots, *roofs, f"{plan.title}: roofline") if drawn else "",
        undrawn=_undrawn(shown, all_spots, spots, drawn),
    )


def _line(shown: Judged, case: PlannedCase, profiles: Sequence[PlannedProfile], ledger: Ledger) -> LimitLine:
    measured = shown.measured_profiles(case.name)
    return LimitLine(
        case=case_label(case),
        anchor=case.name,
        bound=ledger.value("limits", case.name, "scopes", SCOPE, "limit") or "–",
        limit=ledger.figure("limits", case.name, "scopes", SCOPE, "seconds", show=format.microseconds),
        intensity=ledger.figure("limits", case.name, "flops_per_byte", show=format.intensity) if case.flops else None,
        cells=tuple(_attained(shown, case, each, SCOPE, ledger) if each in measured else None for each in profiles),
    )


def limit_scopes(shown: Judged) -> tuple[str, ...]:
    """The scopes in which a cell may be held against its limit."""
    return tuple(scope for scope in LIMIT_SCOPES if scope in shown.plan.scopes)


def limit_group(shown: Judged, case: PlannedCase, ledger: Ledger) -> LimitGroup:
    """What limits a case, and how near each of its profiles came."""
    path, scopes = ("limits", case.name), limit_scopes(shown)
    return LimitGroup(
        case=case_label(case),
        least=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
        flops=ledger.figure("cases", case.name, "flops", show=format.mega) if case.flops else None,
        intensity=ledger.figure(*path, "flops_per_byte", show=format.intensity) if case.flops else None,
        limits=tuple(_limit(ledger, (*path, "scopes", scope)) for scope in scopes),
        rows=tuple(
            LimitRow(
                at=pointer(*path, "profiles", profile.name),
                profile=profile.title,
                scopes=tuple(_attained(shown, case, profile, scope, ledger) for scope in scopes),
            )
            for profile in shown.measured_profiles(case.name)
        ),
    )


def _limit(ledger: Ledger, path: tuple[str, ...]) -> Sentence:
    """'memory, 45.05 µs': the larger of the two limits, which all profiles of a case share."""
    seconds = ledger.figure(*path, "seconds", show=format.microseconds)
    return (f"{ledger.value(*path, 'limit')}, ", seconds, " µs") if seconds else ("–",)


def _attained(shown: Judged, case: PlannedCase, profile: PlannedProfile, scope: str, ledger: Ledger) -> Attained:
    path = ("limits", case.name, "profiles", profile.name, scope)
    cell = shown.cell(case.name, profile.name)
    return Attained(
        share=ledger.figure(*path, "attained", show=format.share),
        distance=ledger.figure(*path, "distance_seconds", show=format.distance),
        resident=ledger.figure(*path, "cache_resident_bytes", show=format.megabytes),
        why_not="" if ledger.value(*path) else _why_not(cell, scope),
    )


def _why_not(cell: Mapping[str, Any], scope: str) -> str:
    """Why a cell has no fraction of its limit in a scope."""
    if scope not in cell["scopes"]:
        return "not measured"
    if why := cell["impossible"].get(scope):
        return str(why)
    return "launch-bound" if cell["launch_bound"] and scope != GRAPH else "no ceiling for as many bytes"


def _spots(shown: Judged, ledger: Ledger) -> list[Spot]:
    """The cells that the roofline can show: with operations to count, and a time that is not the launch's."""
    spots = []
    for case in shown.plan.included_cases:
        for profile in shown.measured_profiles(case.name):
            path = ("limits", case.name, "profiles", profile.name)
            speed = ledger.value(*path, "flops_per_second")
            if speed is not None:
                resident = ledger.figure(*path, SCOPE, "cache_resident_bytes", show=format.megabytes)
                spots.append(
                    Spot(
                        case=case.name, group=f"{TITLES.get(case.op, case.op)} {case.dtype}", profile=profile.title,
                        series=series(profile.name), flops_per_byte=ledger.value("limits", case.name, "flops_per_byte"),
                        flops_per_second=speed, hollow=resident is not None,
                        text=f"{case_label(case)}, {profile.title}: {_spot_text(ledger, path, speed, resident)}",
                    )
                )  # fmt: skip
    return spots


def _spot_text(ledger: Ledger, path: tuple[str, ...], flops_per_second: float, resident: Figure | None) -> str:
    attained = ledger.figure(*path, SCOPE, "attained", show=format.share)
    text = f"{format.teraflops_per_second(flops_per_second)} TFLOP/s"
    text += f", {attained.text} % of its limit" if attained else ""
    return text + (f", cache-resident: {resident.text} MB" if resident else "")


def _told_apart(shown: Judged, spots: Sequence[Spot]) -> list[Spot]:
    """One of those that would share colour and marker at a case, the subject of a headline before others."""
    headlines = {claim.subject for claim in shown.plan.claims if claim.name in shown.plan.headlines}
    titles = {profile.title for profile in shown.plan.profiles if profile.name in headlines}
    chosen: dict[tuple[str, str], Spot] = {}
    for spot in sorted(spots, key=lambda spot: spot.profile not in titles):
        chosen.setdefault((spot.case, spot.series), spot)
    return [spot for spot in spots if chosen[spot.case, spot.series] is spot]


def _bandwidths(ledger: Ledger) -> list[Roof]:
    """The largest copy of the run, and the datasheet's bandwidth."""
    copies = ledger.value("ceilings", "copies", SCOPE)
    if not copies:
        return []
    speed = copies[-1]["bytes_per_second"]
    roofs = [Roof(label=f"measured copy, {format.terabytes_per_second(speed)} TB/s", per_second=speed, measured=True)]
    if peak := ledger.value("ceilings", "datasheet", "bytes_per_second"):
        roofs.append(
            Roof(label=f"datasheet, {format.terabytes_per_second(peak)} TB/s", per_second=peak, measured=False)
        )
    return roofs


def _rates(shown: Judged, ledger: Ledger) -> list[Roof]:
    """Rates of the matrix units for the data types of this experiment."""
    kinds = dict.fromkeys(MATRIX_KINDS[c.dtype] for c in shown.plan.included_cases if c.dtype in MATRIX_KINDS)
    roofs = []
    for kind in kinds:
        for source, path in (("measured", ("matrix", kind, "flops_per_second")),
                             ("datasheet", ("datasheet", "flops_per_second", kind))):  # fmt: skip
            if rate := ledger.value("ceilings", *path):
                label = f"{KINDS.get(kind, kind)}, {format.teraflops_per_second(rate)} TFLOP/s {source}"
                roofs.append(Roof(label=label, per_second=rate, measured=source == "measured"))
    return roofs


def _undrawn(shown: Judged, all_spots: Sequence[Spot], spots: Sequence[Spot], drawn: bool) -> str:
    """What the chart leaves out, or why there is none."""
    if not spots:
        return "There is no roofline: no cell has operations to count and a time that is not the launch's."
    if not drawn:
        return "There is no roofline: the run measured no copy."
    included = shown.plan.included_cases
    cells = [shown.cell(case.name, profile.name) for case in included for profile in shown.measured_profiles(case.name)]
    left = [
        what
        for what, any_left in (
            (NO_FLOPS, any(not case.flops for case in included)),
            (LAUNCH_BOUND, any(cell["launch_bound"] for cell in cells)),
            (SAME_MARKER, len(spots) < len(all_spots)),
            (IMPOSSIBLE, any(cell["impossible"].get(SCOPE) for cell in cells)),
        )
        if any_left
    ]
    return UNDRAWN.format(", ".join(left)) if left else ""
