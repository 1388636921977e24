"""Charts with a row for each implementation or case: the contest, and bars.

Panels of one picture share one axis. What lies beyond its end is told there, with an arrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from lab.website.charts.svg import (
    LINE,
    Frame,
    Scale,
    element,
    label,
    label_lines,
    line,
    marker,
    picture,
    step_between,
    text,
)

PANEL = Frame(376.0, 26.0, 172.0, 58.0, 4.0, 22.0)  # of no rows; names left of the plot, values right of the last mark
ROW, HALF_MARK = 19.0, 6.6  # height of a row whose name has one line; half of the widest mark
LONGEST = 23  # characters of a line of a name that fit; of a bold one two less
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TICK_APART = 34.0  # from the middle of one tick's text to the next


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One row: a value with its interval, and the text that stands beside it."""

    label: str
    series: str
    value: float
    low: float
    high: float
    text: str
    first: bool = False  # as good as the best


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A linear axis, cut at its ends."""

    low: float
    high: float
    band: tuple[float, float]  # what counts as equal
    better: str  # what it means to lie left, in words

    def at(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(PANEL.left + share * (PANEL.right - PANEL.left), 1)

    def ticks(self) -> list[float]:
        most = math.floor((PANEL.right - PANEL.left) / TICK_APART)
        step = step_between(self.low, self.high, STEPS, most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(step * n, 4) for n in range(first, last + 1)]


def axis_of(panels: Sequence[Sequence[Dot]], band: tuple[float, float], better: str, most: float = math.inf) -> Axis:
    """Room for every interval, but none beyond `most`, and little on the other side of the band."""
    dots = [dot for panel in panels for dot in panel]
    low, high = min([band[0], *(dot.low for dot in dots)]), max([band[1], *(dot.high for dot in dots)])
    low, high = max(low, band[0] - (most - band[0]) / 6), min(high, most)
    room = 0.03 * (high - low)
    return Axis(low=low - room, high=high + room, band=band, better=better)


def panel(name: str, title: str, dots: Sequence[Dot], axis: Axis) -> Markup:
    """The contest at one case: dots with their intervals, each with its value."""
    names = [label_lines(dot.label, LONGEST - 2 * dot.first) for dot in dots]
    rows, bottom = _rows(names)
    left, right = map(axis.at, axis.band)
    parts = [element("rect", class_name="band", x=left, y=PANEL.top, width=right - left, height=bottom - PANEL.top)]
    for tick in axis.ticks():
        at = axis.at(tick)
        parts += [line(at, PANEL.top, at, bottom, "axis"), text(at, bottom + 14, f"{tick:g}×", "tick", "middle")]
    parts += [_dot(dot, row, axis) for dot, row in zip(dots, rows, strict=True)]
    about = f"{axis.better}. A table beside holds the same figures."
    return picture(PANEL.width, bottom + PANEL.below, name, title, about, *parts)


class _Row(NamedTuple):
    """`middle`: the height of its marks; `first`: that of its name's first line."""

    name: list[str]
    middle: float
    first: float


def _rows(names: Sequence[list[str]]) -> tuple[list[_Row], float]:
    """A row for each name, and where the last one ends: one whose name has two lines is higher."""
    rows, top = [], PANEL.top
    for name in names:
        more = LINE * (len(name) - 1)
        rows.append(_Row(name=name, middle=top + (ROW + more) / 2, first=top + ROW / 2 + 4))
        top += ROW + more
    return rows, top


def _dot(dot: Dot, row: _Row, axis: Axis) -> str:
    y = row.middle
    x, left, right = axis.at(dot.value), axis.at(dot.low), axis.at(dot.high)
    beyond = dot.value > axis.high
    beside = x + 7 if beyond else max(right, x + HALF_MARK) + 5
    parts = [
        label(0, row.first, row.name, "first" if dot.first else ""),
        text(beside, y + 4, f"› {dot.text}" if beyond else dot.text, "value"),
    ]
    if not beyond:
        parts += [line(left, y, right, y, "mark whisker"), marker(dot.series, x, y, f"{dot.label}: {dot.text}")]
    return element("g", *parts, class_name=f"s-{dot.series}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """One row of many values, such as an operator's at every shape, and the text that stands beside it."""

    label: str
    series: str
    values: Sequence[float]
    text: str


STRIP = Frame(376.0, 26.0, 136.0, 50.0, 4.0, 22.0)
LONGEST_OF_STRIP = 20
RATIOS = (0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0)  # of a logarithmic axis
BELOW = 0.7  # such an axis reaches at least that far below 1, so that one may read how much slower something is


def strips(
    name: str, title: str, rows: Sequence[Strip], band: tuple[float, float], ends: tuple[float, float], better: str
) -> Markup:  # fmt: skip
    """Ratios on one logarithmic axis, between `ends`, which charts of a page share; `band` is what counts as equal, and
    `better` what it means to lie right."""
    axis = Scale(low=min(ends[0], BELOW) / 1.03, high=max(ends[1], band[1]) * 1.03, start=STRIP.left, end=STRIP.right)
    named, bottom = _rows([label_lines(row.label, LONGEST_OF_STRIP) for row in rows])
    left, right = axis.at(band[0]), axis.at(band[1])
    parts = [element("rect", class_name="band", x=left, y=STRIP.top, width=right - left, height=bottom - STRIP.top)]
    told = _ticks(axis)
    for tick in (ratio for ratio in RATIOS if axis.low < ratio < axis.high and (ratio < 1 or ratio in told)):
        at = axis.at(tick)
        parts.append(line(at, STRIP.top, at, bottom, "axis"))
        if tick in told:
            parts.append(text(at, bottom + 14, f"{tick:g}×", "tick", "middle"))
    for each, row in zip(rows, named, strict=True):
        y = row.middle
        marks = (element("circle", class_name="mark faint", cx=axis.at(value), cy=y, r=4.0) for value in each.values)
        parts.append(
            element(
                "g", label(0, row.first, row.name), *marks,
                text(STRIP.right + 8, y + 4, each.text, "value"), class_name=f"s-{each.series}",
            )
        )  # fmt: skip
    about = f"{better}, on a logarithmic axis. Tables below hold the worst and each row's spread."
    return picture(STRIP.width, bottom + STRIP.below, name, title, about, *parts)


def _ticks(axis: Scale) -> list[float]:
    """The RATIOS on the axis whose texts do not overlap, beginning with those nearest to 1."""
    chosen: list[float] = []
    for tick in sorted(RATIOS, key=lambda ratio: abs(math.log(ratio))):
        apart = all(abs(axis.at(tick) - axis.at(other)) >= TICK_APART for other in chosen)
        if axis.low < tick < axis.high and apart:
            chosen.append(tick)
    return chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    label: str
    series: str
    value: float
    text: str


def bars(name: str, title: str, rows: Sequence[Bar], longest: float, mark: float | None = None) -> Markup:
    """`longest` is the end of the axis, `mark` where a line stands, such as that of the whole limit."""
    room = PANEL.right - PANEL.left
    named, bottom = _rows([label_lines(row.label, LONGEST) for row in rows])
    parts = [line(PANEL.left, PANEL.top, PANEL.left, bottom, "axis")]
    for bar, row in zip(rows, named, strict=True):
        top, width = row.middle - ROW / 2, room * bar.value / longest
        parts.append(
            element(
                "g", label(0, row.first, row.name),
                element("rect", class_name="mark", x=PANEL.left, y=top + 4, width=width, height=ROW - 8),
                text(PANEL.left + width + 6, top + 13, bar.text, "value"), class_name=f"s-{bar.series}",
            )
        )  # fmt: skip
    if mark:
        at = PANEL.left + room * mark / longest
        parts.append(line(at, PANEL.top, at, bottom, "parity"))
    return picture(PANEL.width, bottom + 4, name, title, "A table beside holds the same figures.", *parts)
