"""What each profiled call moved to and from DRAM, against the least that it must."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.figure import Ledger, pointer
from lab.website.judged import Judged
from lab.website.pages.hardware_views import TrafficGroup, TrafficRow
from lab.website.pages.labels import case_label


def traffic_groups(shown: Judged, ledger: Ledger) -> tuple[TrafficGroup, ...]:
    """By case, a row for each cell whose bytes the profiler counted."""
    plan = shown.plan
    groups = [
        TrafficGroup(
            case=case_label(case),
            least=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
            rows=tuple(row for profile in plan.profiles_of(case) if (row := _row(case, profile, ledger))),
        )
        for case in plan.included_cases
    ]
    return tuple(group for group in groups if group.rows)


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
