"""Every cell of an experiment in one table: its time, how it stands at its case, and how near the limit it came."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.charts.rows import Bar, bars
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.contest import FIRST, Rival, rivals
from lab.website.pages.labels import case_label
from lab.website.table import Fold, Head, Link, PageTable, Soft, Strong, TableRow, Words, words

MOST_COLUMNS = 10
MEMORY_DIFFERS = 1.1  # the most over the least of a case
OUTCOMES = {"wrong": "wrong result"}
PEAK_MEMORY = "peak memory"  # the metric by which an author says that memory is part of the question


def every_cell(item: Judged, view: DataView) -> PageTable:
    """Cases are rows; implementations, where they are more than a page is wide."""
    planned = {profile.name for case in item.plan.cases for profile in item.plan.profiles_of(case)}
    profiles = [profile for profile in item.plan.profiles if profile.name in planned]
    cases = item.plan.cases
    upright = len(profiles) > max(MOST_COLUMNS, len(cases))
    stands = {case.name: rivals(item, case, view) if case.included else {} for case in cases}
    cells = {
        (c.name, p.name): _cell(item, c, p, stands[c.name].get(p.name), view) for c in cases for p in profiles
    }  # fmt: skip
    if upright:
        heads = tuple(Head(text=case_label(c), link=case_address(c.name), id=f"case-{c.name}") for c in cases)
        rows = tuple(
            TableRow(cells=((profile.title,), *(cells[case.name, profile.name] for case in cases)))
            for profile in profiles
        )
        first = Head(text="Implementation", numbers=False)
    else:
        heads = tuple(
            Head(text=p.title, link=f"../../profiles/{experiment_folder(p.name)}/index.html") for p in profiles
        )
        rows = tuple(
            TableRow(id=f"case-{c.name}", cells=((_named(c),), *(cells[c.name, p.name] for p in profiles)))
            for c in cases
        )
        first = Head(text="Case", numbers=False)
    return PageTable(label="Every cell", kind="cells", heads=(first, *heads), rows=rows)


def case_address(case: str) -> str:
    return f"cases/{experiment_folder(case)}/index.html"


def _named(case: PlannedCase) -> Link:
    return Link(case_label(case), case_address(case.name))


def _cell(item: Judged, case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Words:
    if profile not in item.plan.profiles_of(case):
        return ()
    if not case.included or not item.evidence:
        return (Soft(("not in this run",)),) if item.evidence else ()
    path = ("cells", case.name, profile.name)
    p50 = view.figure(*path, "p50_seconds", show=format.brief_microseconds)
    if p50 is None:
        outcome = item.cell(case.name, profile.name)["outcome"]
        return (Soft((OUTCOMES.get(outcome, outcome),)),)
    first = rival is not None and rival.stands in FIRST
    return (Strong((p50,)) if first else p50, Soft(_beneath(item, case, profile, rival, view)))


def _beneath(item: Judged, case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Sentence:
    """'tie, 92 %', '1.08×, 85 %, 134 MB': against the best, of the limit, and memory where it tells them apart."""
    parts: list[Figure | str] = []
    if rival and rival.stands in FIRST:
        parts.append(rival.stands)
    elif rival and rival.ratio:
        parts += [rival.ratio, "?"] if rival.stands else [rival.ratio]
    attained = view.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained", show=format.whole_percent)
    parts += [", " if parts else "", attained, " %"] if attained else []
    if memory_differs(item, case):
        memory = _memory(case, profile, view)
        parts += [", ", memory, " MB"] if memory else []
    return tuple(part for part in parts if part)


def memory_differs(item: Judged, case: PlannedCase) -> bool:
    """Whether the implementations of a case differ by more than a tenth in what one call allocates."""
    sizes = [item.cell(case.name, profile.name).get("peak_memory_bytes") for profile in item.plan.profiles_of(case)]
    known = [value for value in sizes if value]
    return bool(known) and max(known) > MEMORY_DIFFERS * min(known)


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
    rows = tuple(
        TableRow(
            cells=((each.title,), *((figures.get((case.name, each.name)) or "",) for case in cases), (each.signal,))
        )
        for each in item.plan.profiles
        if any(name == each.name for _, name in figures)
    )
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
