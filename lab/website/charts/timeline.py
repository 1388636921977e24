"""Ratios over published runs: an SVG's geometry, one place a run, one line a claim, on a logarithmic axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.website.charts.axes import Scale, Text, Tick, spread
from lab.website.charts.speedups import TICKS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 250.0, 48.0, 260.0, 14.0, 40.0
LINE = 16.0
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # between two ticks, where round values are too few
MOST_TICKS = 6
MARGIN = 1.06  # around the farthest ends of intervals, and around parity
LONGEST_LABEL = 36
NEAR_PARITY = 1.3  # farther lines are drawn without it, or they would be flat


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
    parity_y: float | None  # None where it is not drawn
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    tracks: tuple[Track, ...]


def timeline_chart(lines: Sequence[Line], runs: Sequence[str]) -> TimelineChart:
    """Lay out the lines; `runs` are the labels of the runs, oldest first."""
    held = [point for line in lines for point in line.points]
    low, high = min(point.low for point in held), max(point.high for point in held)
    if low < NEAR_PARITY and high > 1 / NEAR_PARITY:
        low, high = min(low, 1.0), max(high, 1.0)
    low, high = low / MARGIN, high * MARGIN
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
        parity_y=y.at(1.0) if low < 1.0 < high else None,
        x_ticks=tuple(Tick(at=round(LEFT + inset + pace * run, 1), text=label) for run, label in enumerate(runs)),
        y_ticks=tuple(Tick(at=y.at(value), text=f"{value:g}×") for value in _ticks(low, high)),
        tracks=tuple(tracks),
    )


def _ticks(low: float, high: float) -> list[float]:
    inside = [value for value in TICKS if low <= value <= high]
    if len(inside) > 2:
        return inside
    steps = (step for step in STEPS if 2 <= math.floor(high / step) - math.ceil(low / step) + 1 <= MOST_TICKS)
    step = next(steps, high - low)
    return [round(step * number, 6) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
