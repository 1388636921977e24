"""Who stands where at each case: a picture of the serious rivals, and in words those that are too slow to be drawn."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace as View

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.charts.rows import Dot, axis_of, panel
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.standing_words import SHARES_FIRST, doubt
from lab.website.figure import DataView, Sentence, extremes, joined
from lab.website.pages.crossover import crossovers
from lab.website.pages.labels import case_label
from lab.website.pages.standing import BAND, SERIOUS, Rival, Standing, serious_rivals

MOST_ROWS = 96  # of all panels: of more, only the cases of the headlines are drawn
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
