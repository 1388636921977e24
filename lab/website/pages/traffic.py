"""What each profiled call moved to and from DRAM, against the least that it must."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, pointer
from lab.website.pages.hardware_views import TrafficGroup, TrafficLine, TrafficRow, TrafficSection
from lab.website.pages.labels import case_label


def traffic_section(shown: Judged, ledger: Ledger) -> TrafficSection | None:
    """None where the profiler counted no bytes."""
    counted = {
        (case.name, profile.name): ledger.value("cells", case.name, profile.name, "traffic")
        for case, profile in shown.plan.cells()
    }
    profiles = [p for p in shown.plan.profiles if any(counted.get((case.name, p.name)) for case in shown.plan.cases)]
    if not profiles:
        return None
    lines = []
    for case in shown.plan.included_cases:
        found = [(profile.name, counted.get((case.name, profile.name))) for profile in profiles]
        if any(each for _, each in found):
            lines.append(
                TrafficLine(
                    case=case_label(case),
                    anchor=case.name,
                    least=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
                    cells=tuple(
                        (ledger.figure("cells", case.name, name, "traffic", "ratio", show=format.times), each["state"])
                        if each
                        else None
                        for name, each in found
                    ),
                )
            )
    return TrafficSection(profiles=tuple(profile.title for profile in profiles), lines=tuple(lines))


def traffic_group(shown: Judged, case: PlannedCase, ledger: Ledger) -> TrafficGroup | None:
    """None where the profiler counted nothing of the case."""
    rows = tuple(row for profile in shown.plan.profiles_of(case) if (row := _row(case, profile, ledger)))
    least = ledger.figure("cases", case.name, "least_bytes", show=format.megabytes)
    return TrafficGroup(case=case_label(case), least=least, rows=rows) if rows else None


def _row(case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> TrafficRow | None:
    path = ("cells", case.name, profile.name, "traffic")
    found = ledger.value(*path)
    if found is None:
        return None
    return TrafficRow(
        at=pointer(*path),
        profile=profile.title,
        read=ledger.figure(*path, "read_bytes", show=format.megabytes),
        written=ledger.figure(*path, "written_bytes", show=format.megabytes),
        ratio=ledger.figure(*path, "ratio", show=format.times),
        state=found["state"],
        reason=found["reason"],
    )
