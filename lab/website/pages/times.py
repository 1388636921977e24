"""The times of a run: a row for each implementation of each case, a column for each way of timing."""

from collections.abc import Iterator

from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView
from lab.website.pages.labels import case_label, scope_title
from lab.website.table import PageTable, TableRow, numbers, table_row, words


def times_table(item: Judged, view: DataView) -> PageTable:
    """Medians over all sweeps, in µs. No rows where nothing was measured."""
    cells = item.data["cells"]
    timed = {scope for profiles in cells.values() for cell in profiles.values() for scope in cell.get("scopes", ())}
    scopes = [scope for scope in item.plan.scopes if scope in timed]
    heads = (*words("Case", "Implementation"), *numbers(*(f"{scope_title(scope)}, p50 (µs)" for scope in scopes)))
    return PageTable(label="Times", kind="stacks", heads=heads, rows=tuple(_rows(item, scopes, view)))


def _rows(item: Judged, scopes: list[str], view: DataView) -> Iterator[TableRow]:
    for case in item.plan.included_cases:
        for profile in item.plan.profiles_of(case):
            at = view.at("cells", case.name, profile.name, "scopes")
            times = [at.figure(scope, "p50_seconds", show=format.brief_microseconds) for scope in scopes]
            if any(times):
                yield table_row(case_label(case), profile.title, *times)
