"""Who stands where at each case: serious rivals as a picture, every cell as a table."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace as View

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import case_address
from lab.website.charts.rows import Bar, Dot, axis_of, bars, panel
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.standing_words import SHARES_FIRST, doubt
from lab.website.figure import DataView, Figure, Sentence, extremes, joined
from lab.website.pages.crossover import crossovers
from lab.website.pages.labels import case_label, listed, scope_within
from lab.website.pages.standing import BAND, SERIOUS, Rival, Standing, against_best, serious_rivals
from lab.website.table import Fold, Head, Link, PageTable, Strong, Words, below, numbers, table_row, words

MOST_ROWS = 96  # of all panels: of more, only the cases of the headlines are drawn
PEAK_MEMORY = "peak memory"  # how an experiment names it among its metrics
ZOOMS, MOST_SHOWN = (1.1, 1.25, 1.5), 0.7


def contest(item: Judged, standing: Standing, view: DataView) -> View | None:
    """None where nothing competes: one implementation alone, a test of the lab itself, the ceilings."""
    if not item.evidence or item.plan.self_test or item.plan.name == CEILINGS:
        return None
    over_sizes = tuple(crossovers(item, view))
    drawn = {case.name for each in over_sizes for case in each.cases}
    in_lines = {(case.op, name) for each in over_sizes for case in each.cases for name in each.profiles}
    serious = serious_rivals(item) | in_lines
    dots = {case.name: _dots(item, case, serious, standing[case.name]) for case in item.plan.included_cases}
    cases = [case for case in item.plan.included_cases if len(dots[case.name]) > 1 and case.name not in drawn]
    shown = _shown(item, cases, dots)
    if not shown and not drawn:
        return None
    rows = [dots[case.name] for case in shown]
    axis = axis_of(rows, BAND, "Time of one call over the lowest median's, round by round; left is faster", zoom(rows))
    panels = tuple(
        View(
            case=case.name,
            label=case_label(case),
            best=best(item, case, standing[case.name], view),
            drawn=panel(f"contest-{case.name}", f"{case_label(case)}: time over the fastest's", dots[case.name], axis),
        )
        for case in shown
    )
    return View(
        crossovers=over_sizes,
        panels=panels,
        beyond=any(dot.value > axis.high for row in rows for dot in row),
        weak=_weak(item, serious, standing),
        left=sum(case not in shown for case in cases),
    )


def zoom(panels: Sequence[Sequence[Dot]]) -> float:
    """The nearest end of an axis that shows most rivals in their places; the others are told at its edge."""
    values = [dot.value for panel in panels for dot in panel[1:]]
    return next((end for end in ZOOMS if sum(v <= end for v in values) >= MOST_SHOWN * len(values)), SERIOUS)


def best(item: Judged, case: PlannedCase, standing: Mapping[str, Rival], view: DataView) -> Sentence:
    """'QuACK: 179 µs', and 'tie of 4: 21.8 µs', which are drawn in bold."""
    level = [item.plan.profile(name).title for name, rival in standing.items() if rival.word in SHARES_FIRST]
    first = next(iter(item.places(case.name, SCOPE)))
    p50 = view.figure("cells", case.name, first, "p50_seconds", show=format.brief_time)
    who = f"tie of {len(level)}" if len(level) > 2 else " and ".join(level)
    if any(rival.word == "best?" for rival in standing.values()):
        who += f", {doubt(ahead=all(rival.low > 1 for rival in standing.values() if rival.word == 'unproven'))}"
    return f"{who}: ", p50 or "–"


def _shown(item: Judged, cases: list[PlannedCase], dots: Mapping[str, Sequence[Dot]]) -> list[PlannedCase]:
    """All cases, or those of the headlines where all would be too many to look at."""
    asked = {case for claim in item.plan.claims if claim.name in item.plan.headlines for case in claim.cases}
    fewer = [case for case in cases if case.name in asked]
    return next((some for some in (cases, fewer) if sum(len(dots[case.name]) for case in some) <= MOST_ROWS), [])


def _dots(item: Judged, case: PlannedCase, serious: set[tuple[str, str]], standing: Mapping[str, Rival]) -> list[Dot]:
    return [
        Dot(label=item.plan.profile(name).title, series=series(name), value=rival.value, low=rival.low, high=rival.high,
            text=format.times(rival.value), first=rival.word in SHARES_FIRST)
        for name, rival in standing.items()
        if (case.op, name) in serious
    ]  # fmt: skip


def _weak(item: Judged, serious: set[tuple[str, str]], standing: Standing) -> Sentence:
    """'Not drawn: PyTorch written out, 2.50× to 6.44× the time of the fastest.'"""
    weak: list[Sentence] = []
    for profile in item.plan.profiles:
        rivals_by_case = (
            standing[case.name].get(profile.name)
            for case in item.plan.included_cases
            if (case.op, profile.name) not in serious
        )
        if told := extremes(rival.ratio for rival in rivals_by_case if rival):
            weak.append((f"{profile.title}, ", *told))
    return ("Not drawn: ", *joined(weak, "; "), " the time of the fastest.") if weak else ()


MOST_COLUMNS = 10
OUTCOMES = {"wrong": "wrong result"}


def every_cell(item: Judged, standing: Standing, view: DataView) -> PageTable:
    """Cases are rows; implementations, where they are more than a page is wide."""
    cases = item.plan.included_cases
    planned = {profile.name for case in cases for profile in item.plan.profiles_of(case)}
    profiles = [profile for profile in item.plan.profiles if profile.name in planned]

    def cell(case: PlannedCase, profile: PlannedProfile) -> Words:
        return _cell(item, case, profile, standing[case.name].get(profile.name), view)

    if len(profiles) > max(MOST_COLUMNS, len(cases)):
        links = [Head(text=case_label(c), link=case_address(c.name), id=f"case-{c.name}") for c in cases]
        heads = (*words("Implementation"), *links)
        rows = [table_row(each.title, *(cell(case, each) for case in cases)) for each in profiles]
    else:
        heads = (*words("Case"), *numbers(*(each.title for each in profiles)))
        named = [(case, Link(case_label(case), case_address(case.name))) for case in cases]
        rows = [table_row(name, *(cell(c, each) for each in profiles), id=f"case-{c.name}") for c, name in named]
    return PageTable(label="Every cell", kind="cells stacks", heads=heads, rows=rows)


def _cell(item: Judged, case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Words:
    if profile not in item.plan.profiles_of(case):
        return ()
    path = ("cells", case.name, profile.name)
    p50 = view.figure(*path, "p50_seconds", show=format.brief_microseconds)
    if p50 is None:
        cell = item.cell(case.name, profile.name)
        outcome, scopes = cell["outcome"], [scope_within(each) for each in cell.get("scopes", ())]
        return (below(f"{listed(scopes)} only" if scopes else OUTCOMES.get(outcome, outcome)),)
    first = rival is not None and rival.word in SHARES_FIRST
    tokens = view.figure(*path, "scopes", SCOPE, "tokens_per_second")
    return (
        Strong((p50,)) if first else p50, below(*_beneath(case, profile, rival, view)), below(tokens, " tokens/s"),
    )  # fmt: skip


def _beneath(case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Sentence:
    """'tie, 92 %', '1.08×, 85 %': against the best, and of the reference."""
    against: Sentence = against_best(rival) if rival else ()
    attained = view.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained", show=format.whole_percent)
    return joined(filter(None, (against, (attained, " %") if attained else ())), ", ")


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
