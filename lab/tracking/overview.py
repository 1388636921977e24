"""A judged experiment → one page without scripts: at each shape who is fastest, by how much, and how fast in µs.

The panels are the website's. The page stands alone among a run's artifacts, so it brings its own style.
"""

from collections.abc import Sequence

from markupsafe import Markup, escape

from lab.definition.plan import PlannedCase
from lab.tracking.measures import headline_baselines
from lab.tracking.names import case_name
from lab.verdict.cells import SCOPE
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.ranking import Place, rank
from lab.verdict.results import ExperimentResult
from lab.website.charts.rows import Axis, Dot, axis_of, panel
from lab.website.charts.svg import series, style_sheet
from lab.website.format import microseconds, ratio
from lab.website.pages.contest import zoom

SLOWER = (1.0, 1 + EQUIVALENCE_MARGIN)
EQUAL = (1 / (1 + EQUIVALENCE_MARGIN), 1 + EQUIVALENCE_MARGIN)
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1e23; --soft: #5d6069; --rule: #dcdfe4; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e4e7eb; --soft: #9da5af; --rule: #343a42; }
}
body { margin: 1.5rem; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
h2 { font-size: 1rem; margin: 0; }
p { margin: 0 0 .5rem; max-width: 48rem; color: var(--soft); }
section { border-top: 1px solid var(--rule); padding: .75rem 0; }
div { display: flex; flex-wrap: wrap; gap: 1rem 3rem; }
figure { margin: 0; flex: 0 1 27rem; }
figcaption { color: var(--soft); font-size: .85rem; }
svg { width: 100%; overflow: visible; font: 11px system-ui, sans-serif; fill: var(--ink); }
.axis { stroke: var(--rule); } .tick { fill: var(--soft); } .band { fill: var(--soft); opacity: .13; }
.first { font-weight: 600; } .whisker { stroke-width: 2; } .mark { fill: var(--series); stroke: var(--series); }
"""


def overview_page(experiment: ExperimentResult, title: str) -> str:
    """A complete HTML page: for each case the times, and the speed-ups over each baseline of a headline claim."""
    cases = [case for case in experiment.plan.included_cases if rank(experiment, case.name)]
    times = {case.name: _times(experiment, case) for case in cases}
    time_axis = axis_of(list(times.values()), SLOWER, "Left is faster", zoom(list(times.values()))) if cases else None
    rows = {case.name: _figure(case, "p50 over the fastest's", times[case.name], time_axis) for case in cases}
    for baseline in headline_baselines(experiment.plan):
        gains = {case.name: dots for case in cases if (dots := _speedups(experiment, case, baseline))}
        axis = axis_of(list(gains.values()), EQUAL, "Right is faster") if gains else None
        for case in cases:
            if case.name in gains:
                rows[case.name] += _figure(case, f"times as fast as {baseline}", gains[case.name], axis)
    sections = (
        Markup("<section><h2>{}</h2><p>{}</p><div>{}</div></section>").format(
            case_name(case), _best(experiment, case), rows[case.name]
        )
        for case in cases
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style_sheet()}{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        "<p>A line through a mark is the 95 % interval over sweeps; within the grey band two times count as equal. "
        "All panels of a kind share one axis; › marks what lies beyond its end.</p>"
        f"{''.join(sections) or '<p>Nothing was measured.</p>'}</body></html>\n"
    )


def _figure(case: PlannedCase, about: str, dots: Sequence[Dot], axis: Axis | None) -> Markup:
    if axis is None:
        return Markup("")
    drawn = panel(f"{about.replace(' ', '-')}-{case.name}", f"{case_name(case)}: {about}", dots, axis)
    return Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(f"{about}; {axis.better.lower()}", drawn)


def _times(experiment: ExperimentResult, case: PlannedCase) -> list[Dot]:
    """The fastest first; by paired rounds where enough sweeps hold both, else by medians."""
    places = rank(experiment, case.name)
    return [_time(profile, place, _p50_seconds(experiment, case, profile)) for profile, place in places.items()]


def _time(profile: str, place: Place, seconds: float) -> Dot:
    lead = place.lead
    value = lead.ratio if lead else place.times_fastest
    return Dot(
        label=profile,
        series=series(profile),
        value=value,
        low=lead.low if lead else value,
        high=lead.high if lead else value,
        text=f"{microseconds(seconds)} µs",
        first=place.rank == 1 or place.level,
    )


def _speedups(experiment: ExperimentResult, case: PlannedCase, baseline: str) -> list[Dot]:
    """In the same order; without the baseline itself."""
    places = rank(experiment, case.name)
    if baseline not in places:
        return []
    return [
        Dot(
            label=profile, series=series(profile), value=speedup.ratio, low=speedup.low, high=speedup.high,
            text=ratio(speedup.ratio, speedup.low, speedup.high), first=place.rank == 1 or place.level,
        )
        for profile, place in places.items()
        if profile != baseline and (speedup := experiment.compare(case.name, profile, baseline))
    ]  # fmt: skip


def _best(experiment: ExperimentResult, case: PlannedCase) -> str:
    """'fast is fastest: 20.0 µs', or who is tied."""
    places = rank(experiment, case.name)
    first, place = next(iter(places.items()))
    time = f"{microseconds(_p50_seconds(experiment, case, first))} µs"
    if place.level:
        tied = [name for name, each in places.items() if each.level and name != first]
        return f"{first} and {', '.join(tied)} are tied for the fastest: {time}"
    return f"{first} is fastest{place.doubt}: {time}"


def _p50_seconds(experiment: ExperimentResult, case: PlannedCase, profile: str) -> float:
    return experiment.cells[case.name, profile].latencies[SCOPE].p50_seconds
