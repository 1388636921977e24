"""Peak memory of one call, case by case, beside what the author expects of each implementation."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website.addresses import case_address
from lab.website.charts.rows import Bar, bars
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.pages.labels import case_label
from lab.website.table import Fold, Head, PageTable, table_row, words

PEAK_MEMORY = "peak memory"  # how an experiment names it among its metrics


def memory_fold(item: Judged, view: DataView) -> Fold | None:
    """Memory against size, beside what the author expects of each; where memory is part of the question."""
    if not any(PEAK_MEMORY in metric for names in item.plan.metrics.values() for metric in names):
        return None
    figures = {
        (case.name, profile.name): figure
        for case, profile in item.plan.cells()
        if (figure := _memory(case, profile, view))
    }
    if not figures:
        return None
    cases = [case for case in item.plan.included_cases if any(name == case.name for name, _ in figures)]
    longest = max(float(figure.value) for figure in figures.values())
    panels = []
    for case in cases:
        shown = [
            (each, figures[case.name, each.name]) for each in item.plan.profiles if (case.name, each.name) in figures
        ]
        drawn = [
            Bar(label=each.title, series=series(each.name), value=float(figure.value), text=f"{figure.text} MB")
            for each, figure in shown
        ]
        title = f"{case_label(case)}: peak memory of one call"
        panels.append((case_label(case), bars(f"memory-{case.name}", title, drawn, longest)))
    heads = (Head(text=case_label(case), link=case_address(case.name)) for case in cases)
    rows = [
        table_row(each.title, *(figures.get((case.name, each.name)) or "" for case in cases), each.signal)
        for each in item.plan.profiles
        if any(name == each.name for _, name in figures)
    ]
    table = PageTable(
        label="Peak memory",
        kind="cells memory",
        heads=(*words("Implementation"), *heads, *words("Expected by its author")),
        rows=rows,
        caption=("The most that one call allocates beyond its inputs, its result included, in MB.",),
    )
    return Fold(id="memory", title="Memory", panels=tuple(panels), tables=(table,))


def _memory(case: PlannedCase, profile: PlannedProfile, view: DataView) -> Figure | None:
    return view.figure("cells", case.name, profile.name, "peak_memory_bytes")
