"""Points → pictures: an SVG's geometry for the page, and the same data as a plotly figure to explore."""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plotly.offline import get_plotlyjs, get_plotlyjs_version

from lab.website.wording.hidden import visible_data

COLOURS = {
    "torch-baseline": "#7d818b",
    "torch-fused": "#a8772a",
    "torch-compile": "#d9711c",
    "triton": "#1f86c7",
    "liger": "#8a68d6",
    "quack": "#2f8f6b",
}
SHAPES = {
    "torch-baseline": "square",
    "torch-fused": "x",
    "torch-compile": "diamond",
    "triton": "circle",
    "liger": "triangle-up",
    "quack": "star",
}
# Plotly inserts two style elements of its own, one of them empty: their hashes let a strict policy admit
# exactly these. They belong to the plotly version that scripts/constraints.txt pins.
STYLE_HASHES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='",
)
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760.0, 190.0, 24.0, 14.0, 44.0
LANE, GAP, HEADING = 15.0, 14.0, 18.0
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
FINE_TICKS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.3)  # where hardly any of those would stand on the axis


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One profile's speed-up at one case."""

    case: str
    profile: str
    series: str  # names colour and marker
    ratio: float
    low: float
    high: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    x: float
    y: float
    left: float
    right: float
    series: str
    title: str
    label: str  # the profile, where marks alone would not tell; else empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    label: str
    y: float
    line_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    x: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedupChart:
    """Geometry of a dot plot on a logarithmic axis: one lane a case, one row a profile within it."""

    width: float
    height: float
    plot_left: float
    plot_right: float
    plot_bottom: float
    parity_x: float
    band_left: float
    band_width: float
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    series: tuple[tuple[str, str], ...]  # (series, profile title), in the order of appearance


def speedup_chart(points: Sequence[Point], band: float, labelled: bool = False) -> SpeedupChart:
    """Lay out the points; `band` is the margin around parity that counts as equal.

    `labelled`: each row names its profile, under the name of its case, and there is no key.
    """
    low = min([point.low for point in points] + [1 - band]) / 1.12
    high = max([point.high for point in points] + [1 + band]) * 1.12
    right = WIDTH - RIGHT

    def x(ratio: float) -> float:
        share = (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low))
        return round(LEFT + share * (right - LEFT), 2)

    lanes: list[Lane] = []
    marks: list[Mark] = []
    y = TOP
    for case in dict.fromkeys(point.case for point in points):
        here = [point for point in points if point.case == case]
        top, y = y, y + (HEADING if labelled else 0)
        for row, point in enumerate(here):
            marks.append(
                Mark(
                    x=x(point.ratio), left=x(point.low), right=x(point.high), y=y + LANE * (row + 0.5),
                    series=point.series, title=f"{point.case}, {point.profile}: {point.text}",
                    label=point.profile if labelled else "",
                )
            )  # fmt: skip
        height = LANE * len(here)
        middle = top + HEADING / 2 if labelled else y + height / 2
        lanes.append(Lane(label=case, y=round(middle, 2), line_y=round(y + height + GAP / 2, 2)))
        y += height + GAP
    return SpeedupChart(
        width=WIDTH,
        height=round(y + BOTTOM, 2),
        plot_left=LEFT,
        plot_right=right,
        plot_bottom=round(y, 2),
        parity_x=x(1.0),
        band_left=x(1 - band),
        band_width=round(x(1 + band) - x(1 - band), 2),
        lanes=tuple(lanes),
        marks=tuple(marks),
        ticks=tuple(Tick(x=x(value), text=f"{value:g}×") for value in _ticks(low, high)),
        series=() if labelled else tuple(dict.fromkeys((point.series, point.profile) for point in points)),
    )


def _ticks(low: float, high: float) -> list[float]:
    inside = [value for value in TICKS if low <= value <= high]
    return inside if len(inside) > 1 else [value for value in FINE_TICKS if low <= value <= high]


def speedup_figure(points: Sequence[Point], title: str) -> str:
    """The same points as plotly's JSON; made without plotly, which takes longer for it than for all else on a page."""
    traces = []
    for series, profile in dict.fromkeys((point.series, point.profile) for point in points):
        here = [point for point in points if point.profile == profile]
        traces.append(
            {
                "type": "scatter",
                "name": profile,
                "x": [point.ratio for point in here],
                "y": [point.case for point in here],
                "mode": "markers",
                "marker": {"color": COLOURS[series], "symbol": SHAPES[series], "size": 10},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [round(point.high - point.ratio, 6) for point in here],
                    "arrayminus": [round(point.ratio - point.low, 6) for point in here],
                    "color": COLOURS[series],
                },
                "text": [point.text for point in here],
                "hovertemplate": "%{y}<br>%{text}<extra>%{fullData.name}</extra>",
            }
        )
    parity = {"type": "line", "x0": 1.0, "x1": 1.0, "xref": "x", "y0": 0, "y1": 1, "yref": "y domain"}
    layout = {
        "title": {"text": title},
        "shapes": [parity | {"line": {"dash": "dash", "width": 1}}],
        "xaxis": {"type": "log", "title": {"text": "times as fast (log scale)"}},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "legend": {"orientation": "h", "y": -0.2},
        "margin": {"l": 10, "r": 10, "t": 50, "b": 10},
    }
    return dump(traces, layout)


def dump(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> str:
    """A figure as plotly's JSON, with a fixed order of keys, so that two builds are equal."""
    shown = _literal(visible_data({"data": list(traces), "layout": layout}))
    return json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _literal(node: Any) -> Any:
    """Plotly reads texts as markup, with links and styles; all but our own templates are to be shown as they are."""
    if isinstance(node, dict):
        return {key: item if key == "hovertemplate" else _literal(item) for key, item in node.items()}
    if isinstance(node, list):
        return [_literal(item) for item in node]
    return html.escape(node, quote=False) if isinstance(node, str) else node


def plotly_script() -> tuple[str, str]:
    """(file name, content) of the plotly library that the installed package carries."""
    return f"plotly-{get_plotlyjs_version()}.min.js", get_plotlyjs()
