"""Ratios over published runs: an SVG's geometry, one place a run, one line a claim, on a logarithmic axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.website.charts.axes import Scale, Text, Tick, spread
from lab.website.charts.speedups import FINE_TICKS, TICKS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 250.0, 48.0, 220.0, 14.0, 40.0
LINE = 16.0
MARGIN = 1.06  # around the farthest ends of intervals, and around parity
LONGEST_LABEL = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What one run says of a line: a ratio with its interval."""

    run: int  # its place among the runs
    ratio: float
    low: float
    high: float
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    label: str
    series: str
    points: tuple[Held, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    x: float
    y: float
    top: float  # of the interval
    bottom: float
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    series: str
    path: str  # the points of an SVG polyline
    marks: tuple[Mark, ...]
    label: Text
    leader: tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineChart:
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    parity_y: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    tracks: tuple[Track, ...]


def timeline_chart(lines: Sequence[Line], runs: Sequence[str]) -> TimelineChart:
    """Lay out the lines; `runs` are the labels of the runs, oldest first."""
    held = [point for line in lines for point in line.points]
    low = min([point.low for point in held] + [1.0]) / MARGIN
    high = max([point.high for point in held] + [1.0]) * MARGIN
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    y = Scale(low=low, high=high, start=bottom, end=TOP)
    inset = 18.0
    pace = (right - LEFT - 2 * inset) / max(1, len(runs) - 1)

    def x(line: int, run: int) -> float:
        """Lines stand a little apart, so that no interval hides another."""
        return round(LEFT + inset + pace * run + 7 * (line - (len(lines) - 1) / 2), 1)

    ends = [y.at(line.points[-1].ratio) for line in lines]
    labels = spread([end + 4 for end in ends], LINE, TOP + 8, bottom)
    tracks = []
    for number, (line, end, label_y) in enumerate(zip(lines, ends, labels, strict=True)):
        marks = tuple(
            Mark(
                x=x(number, point.run), y=y.at(point.ratio), top=y.at(point.high), bottom=y.at(point.low),
                title=point.title,
            )
            for point in line.points
        )  # fmt: skip
        tracks.append(
            Track(
                series=line.series,
                path=" ".join(f"{mark.x:g},{mark.y:g}" for mark in marks),
                marks=marks,
                label=Text(x=right + 20, y=label_y, text=_short(line.label)),
                leader=(marks[-1].x + 8, end, right + 17, label_y - 4),
            )
        )
    return TimelineChart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=right,
        top=TOP,
        bottom=bottom,
        parity_y=y.at(1.0),
        x_ticks=tuple(Tick(at=round(LEFT + inset + pace * run, 1), text=label) for run, label in enumerate(runs)),
        y_ticks=tuple(Tick(at=y.at(value), text=f"{value:g}×") for value in _ticks(low, high)),
        tracks=tuple(tracks),
    )


def _ticks(low: float, high: float) -> list[float]:
    inside = [value for value in TICKS if low <= value <= high]
    if len(inside) > 1:
        return inside
    fine = [value for value in FINE_TICKS if low <= value <= high]
    return fine or [value for value in (math.sqrt(low * high),) if value]


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
