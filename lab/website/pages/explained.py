"""What the traffic explains: each profile's time and bytes as multiples of the fastest's, case by case."""

from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, pointer
from lab.website.pages.labels import case_label, profile_title
from lab.website.pages.views import ExplainedRow


def explained_rows(shown: Judged, ledger: Ledger) -> tuple[tuple[ExplainedRow, ...], ...]:
    """The rows of each case that has any."""
    cases = []
    for case in shown.plan.included_cases:
        rows = []
        for profile in ledger.value("explained", case.name) or {}:
            path = ("explained", case.name, profile)
            rows.append(
                ExplainedRow(
                    at=pointer(*path),
                    case=case_label(case),
                    profile=profile_title(shown, profile),
                    fastest=profile_title(shown, ledger.value(*path, "fastest")),
                    time_ratio=ledger.figure(*path, "time_ratio", show=format.times),
                    bytes_ratio=ledger.figure(*path, "bytes_ratio", show=format.times),
                    explained=ledger.value(*path, "explained"),
                    others="; ".join(ledger.value(*path, "others")),
                )
            )
        if rows:
            cases.append(tuple(rows))
    return tuple(cases)
