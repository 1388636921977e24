"""What each profiled call moved to and from DRAM, against the least that it must."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.figure import Ledger, pointer
from lab.website.judged import Judged
from lab.website.pages.hardware_views import TrafficGroup, TrafficRow
from lab.website.pages.labels import case_label


def traffic_groups(shown: Judged, ledger: Ledger) -> tuple[TrafficGroup, ...]:
    """By case, a row for each cell whose bytes the profiler counted."""
    return tuple(group for case in shown.plan.included_cases if (group := traffic_group(shown, case, ledger)))


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
