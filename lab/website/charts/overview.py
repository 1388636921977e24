"""A judged experiment → one interactive page: which profile wins at which shape, and by how much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plotly.subplots import make_subplots

from lab.verdict.ranking import Place, baselines, rank
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import Speedup
from lab.website.charts.speedups import COLOURS, SHAPES
from lab.website.format import microseconds, ratio_interval
from lab.website.naming import case_name

LANE_PIXELS = 74
LANE_OFFSET = 0.13  # of a lane, between two profiles of a case


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One measured cell on the figure; `speedups` by baseline, where enough sweeps hold both."""

    case: str
    profile: str
    p50_seconds: float
    place: Place
    speedups: dict[str, Speedup]


def spots(experiment: ExperimentResult) -> list[Spot]:
    """Every measured cell, by case and then in the order of the profiles."""
    return list(_spots(experiment))


def overview_figure(measured: Sequence[Spot], title: str) -> str:
    """A complete HTML page: p50 on the left, times as fast as a baseline, chosen from a menu, on the right."""
    figure = make_subplots(
        rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.03,
        subplot_titles=("p50 latency, µs (log; left is faster)", ""),
    )  # fmt: skip
    cases = list(dict.fromkeys(spot.case for spot in measured))
    profiles = list(dict.fromkeys(spot.profile for spot in measured))
    rivals = list(dict.fromkeys(name for spot in measured for name in spot.speedups))
    owners: list[str] = []  # of each trace: the baseline it is shown for, or nothing
    for number, profile in enumerate(profiles):
        here = [spot for spot in measured if spot.profile == profile]
        lane = (number - (len(profiles) - 1) / 2) * LANE_OFFSET
        figure.add_scatter(row=1, col=1, **_latency_trace(here, cases, lane))
        owners.append("")
        for rival in rivals:
            figure.add_scatter(row=1, col=2, **_speedup_trace(here, cases, lane, rival))
            owners.append(rival)
    _lay_out(figure, [_lane_label(case, measured) for case in cases], title)
    if rivals:
        _add_menu(figure, owners, rivals)
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, div_id="overview")
    return page


def _spots(experiment: ExperimentResult) -> Iterator[Spot]:
    for case in experiment.plan.included_cases:
        places = rank(experiment, case.name)
        for cell in experiment.measured(case.name):
            if cell.latency is None:
                continue
            found = {name: experiment.compare(case.name, cell.profile, name) for name in baselines(experiment)}
            yield Spot(
                case=case_name(case),
                profile=cell.profile,
                p50_seconds=cell.latency.p50_seconds,
                place=places[cell.profile],
                speedups={name: speedup for name, speedup in found.items() if speedup and name != cell.profile},
            )


def _latency_trace(here: Sequence[Spot], cases: Sequence[str], lane: float) -> dict[str, Any]:
    fastest = [spot.place.rank == 1 for spot in here]
    return {
        "name": here[0].profile,
        "legendgroup": here[0].profile,
        "x": [spot.p50_seconds * 1e6 for spot in here],
        "y": [cases.index(spot.case) + lane for spot in here],
        "mode": "markers",
        "marker": _marker(here[0].profile) | {"line": {"width": [2 if is_best else 0 for is_best in fastest]}},
        "customdata": [[spot.case, spot.place.text, microseconds(spot.p50_seconds)] for spot in here],
        "hovertemplate": "%{customdata[0]}<br>p50 %{customdata[2]} µs<br>%{customdata[1]}"
        "<extra>%{fullData.name}</extra>",
    }


def _speedup_trace(here: Sequence[Spot], cases: Sequence[str], lane: float, rival: str) -> dict[str, Any]:
    pairs = [(spot, spot.speedups[rival]) for spot in here if rival in spot.speedups]
    return {
        "name": here[0].profile,
        "legendgroup": here[0].profile,
        "showlegend": False,
        "x": [speedup.ratio for _, speedup in pairs],
        "y": [cases.index(spot.case) + lane for spot, _ in pairs],
        "mode": "markers",
        "marker": _marker(here[0].profile),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [speedup.high - speedup.ratio for _, speedup in pairs],
            "arrayminus": [speedup.ratio - speedup.low for _, speedup in pairs],
        },
        "customdata": [[spot.case, ratio_interval(speedup)] for spot, speedup in pairs],
        "hovertemplate": f"%{{customdata[0]}}<br>%{{customdata[1]}} vs {rival}<extra>%{{fullData.name}}</extra>",
    }


def _lane_label(case: str, measured: Sequence[Spot]) -> str:
    """The case, and under it who is fastest there."""
    best = [spot for spot in measured if spot.case == case and spot.place.rank == 1]
    names = " = ".join(f"<b>{spot.profile}</b>" for spot in best)
    return f"{case}<br>{names}{best[0].place.doubt}, {microseconds(best[0].p50_seconds)} µs"


def _marker(profile: str) -> dict[str, Any]:
    own = "triton"  # profiles without a colour of their own are the lab's kernels
    return {"color": COLOURS.get(profile, COLOURS[own]), "symbol": SHAPES.get(profile, SHAPES[own]), "size": 11}


def _lay_out(figure: Any, labels: Sequence[str], title: str) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(labels))), ticktext=list(labels), range=[len(labels) - 0.5, -0.5], zeroline=False,
        minor={"tickvals": [number + 0.5 for number in range(len(labels))], "showgrid": True},
        showgrid=False, automargin=True,
    )  # fmt: skip
    figure.update_xaxes(type="log", dtick="D2", minorloglabels="none")
    figure.add_vline(x=1.0, row=1, col=2, line={"dash": "dash", "width": 1})
    figure.update_layout(
        title={"text": title, "font": {"size": 16}},
        template="plotly_white",
        height=170 + LANE_PIXELS * max(1, len(labels)),
        legend={"orientation": "h", "y": -0.08, "yanchor": "top"},
        margin={"t": 110},
    )


def _add_menu(figure: Any, owners: Sequence[str], rivals: Sequence[str]) -> None:
    """Show the speed-ups over one baseline at a time; the library's own fused call first, where there is one."""
    first = "torch-fused" if "torch-fused" in rivals else rivals[0]
    for trace, owner in zip(figure.data, owners, strict=True):
        trace.visible = owner in ("", first)
    figure.update_layout(
        updatemenus=[
            {
                "x": 1.0, "xanchor": "right", "y": 1.02, "yanchor": "bottom", "active": rivals.index(first),
                "buttons": [
                    {
                        "label": f"times as fast as {rival} (log; right is faster)",
                        "method": "update",
                        "args": [{"visible": [owner in ("", rival) for owner in owners]}],
                    }
                    for rival in rivals
                ],
            }
        ]
    )  # fmt: skip
