"""Cells under the roofs that memory and matrix units set.

Both axes are logarithmic: operations per byte of least traffic, and operations per second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from lab.website.charts.svg import Area, Frame, Scale, Text, box_of, element, line, marker, picture, si, spread, text

FRAME = Frame(760.0, 430.0, 84.0, 228.0, 16.0, 52.0)
LINE = 15.0  # between two lines of text
CLEAR = 8.0  # around a marker


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One measured cell; hollow where the cache held some of its data."""

    case: str
    group: str  # labels the cells of one intensity
    profile: str
    series: str  # names colour and marker
    flops_per_byte: float
    flops_per_second: float
    hollow: bool
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Roof:
    """A ceiling: a bandwidth in bytes per second, or a rate in operations per second."""

    label: str
    per_second: float
    measured: bool  # else of the datasheet


@dataclass(frozen=True, kw_only=True, slots=True)
class RoofLine:
    x1: float
    y1: float
    x2: float
    y2: float
    dashed: bool
    label: Text
    leader: tuple[float, float, float, float] | None  # from the line to a label that had to move


class SpotMark(NamedTuple):
    x: float
    y: float
    spot: Spot


class GroupLabel(NamedTuple):
    text: Text
    leader: tuple[float, float, float, float] | None  # from its mark, where it could not stand beside it


class RooflineChart(NamedTuple):
    """Where everything is drawn within FRAME."""

    x: Scale
    y: Scale
    roofs: Sequence[RoofLine]
    marks: Sequence[SpotMark]
    labels: Sequence[GroupLabel]


def roofline_chart(spots: Sequence[Spot], bandwidths: Sequence[Roof], rates: Sequence[Roof]) -> RooflineChart:
    """Lay out the spots under their roofs; each of `bandwidths` is a slope, each of `rates` a level line."""
    x, y = _scales(spots, bandwidths, rates)
    roofs = (*_slopes(bandwidths, rates, x, y), *_levels(bandwidths, rates, x, y))
    marks = [SpotMark(x.at(spot.flops_per_byte), y.at(spot.flops_per_second), spot) for spot in spots]
    return RooflineChart(x, y, roofs, marks, _group_labels(marks, roofs))


def _scales(spots: Sequence[Spot], bandwidths: Sequence[Roof], rates: Sequence[Roof]) -> tuple[Scale, Scale]:
    """Room for every spot and for the ridge, where the last slope meets the highest level."""
    intensities = [spot.flops_per_byte for spot in spots]
    ridges = [rate.per_second / bandwidth.per_second for rate in rates for bandwidth in bandwidths]
    x = Scale(low=min(intensities) / 16, high=4 * max(intensities + ridges), start=FRAME.left, end=FRAME.right)
    speeds = [spot.flops_per_second for spot in spots]
    roofs = [rate.per_second for rate in rates] or [bandwidths[0].per_second * x.high]
    return x, Scale(low=min(speeds) / 4, high=3 * max(roofs + speeds), start=FRAME.bottom, end=FRAME.top)


def _slopes(bandwidths: Sequence[Roof], rates: Sequence[Roof], x: Scale, y: Scale) -> list[RoofLine]:
    """Each bandwidth, up to the highest rate of its kind; labels above the slopes, where nothing is."""
    lines: list[RoofLine] = []
    for roof in sorted(bandwidths, key=lambda roof: -roof.per_second):
        top = max((rate.per_second for rate in rates if rate.measured == roof.measured), default=y.high)
        low, high = max(x.low, y.low / roof.per_second), min(x.high, top / roof.per_second)
        line_y = lines[-1].label.y + LINE if lines else y.at(low**0.4 * high**0.6 * roof.per_second)
        line_x = x.at(y.value(line_y) / roof.per_second) - CLEAR
        lines.append(
            RoofLine(
                x1=x.at(low), y1=y.at(low * roof.per_second), x2=x.at(high), y2=y.at(high * roof.per_second),
                dashed=not roof.measured, leader=None,
                label=Text(x=round(line_x, 1), y=round(line_y, 1), text=roof.label, anchor="end"),
            )
        )  # fmt: skip
    return lines


def _levels(bandwidths: Sequence[Roof], rates: Sequence[Roof], x: Scale, y: Scale) -> list[RoofLine]:
    """Each rate, from the slope of its kind to the right, with its label in the margin there."""
    levels = [y.at(rate.per_second) for rate in rates]
    labels = spread([level + 4 for level in levels], LINE, FRAME.top + 4, FRAME.bottom)
    lines = []
    for rate, level, label_y in zip(rates, levels, labels, strict=True):
        slope = next((roof for roof in bandwidths if roof.measured == rate.measured), bandwidths[0])
        start = max(x.low, rate.per_second / slope.per_second)
        end = FRAME.right
        lines.append(
            RoofLine(
                x1=x.at(start), y1=level, x2=end, y2=level, dashed=not rate.measured,
                label=Text(x=end + 20, y=label_y, text=rate.label), leader=(end + 2, level, end + 17, label_y - 4),
            )
        )  # fmt: skip
    return lines


def _group_labels(marks: Sequence[SpotMark], roofs: Sequence[RoofLine]) -> list[GroupLabel]:
    """A label beside the slowest spot of each group, or the fastest, or lower; none where there is no room."""
    taken = [Area(left=m.x - CLEAR, top=m.y - CLEAR, right=m.x + CLEAR, bottom=m.y + CLEAR) for m in marks]
    taken += [box for roof in roofs for box in (*_along(roof), box_of(roof.label))]
    labels: list[GroupLabel] = []
    for group in dict.fromkeys(mark.spot.group for mark in marks):
        own = sorted((mark for mark in marks if mark.spot.group == group), key=lambda mark: -mark.y)
        places = [(own[0], 0), (own[-1], 0), *((own[0], line) for line in (1, 2, 3))]
        beside = [_beside(group, mark, side, line) for mark, line in places for side in (1, -1)]
        if label := next((label for label in beside if _free(box_of(label.text), taken)), None):
            labels.append(label)
            taken.append(box_of(label.text))
    return labels


def _beside(group: str, mark: SpotMark, side: int, line: int) -> GroupLabel:
    """Right (1) or left (-1) of a mark, or some lines lower and then with a line that leads there."""
    x, y = mark.x + side * (CLEAR + 4), mark.y + 4 + line * LINE
    return GroupLabel(
        text=Text(x=round(x, 1), y=round(y, 1), text=group, anchor="start" if side > 0 else "end"),
        leader=(mark.x, mark.y, round(x - side * 2, 1), round(y - 5, 1)) if line else None,
    )


def _along(roof: RoofLine) -> list[Area]:
    """A line as the small places that it takes."""
    steps = max(1, round((roof.x2 - roof.x1) / CLEAR))
    across, down = (roof.x2 - roof.x1) / steps, (roof.y2 - roof.y1) / steps
    points = [(roof.x1 + across * step, roof.y1 + down * step) for step in range(steps)]
    return [Area(left=x - 2, top=y - 2, right=x + CLEAR, bottom=y + 2) for x, y in points]


def _free(box: Area, taken: Sequence[Area]) -> bool:
    """Whether there is room inside the plot."""
    inside = box.left > FRAME.left and box.right < FRAME.right and box.top > FRAME.top and box.bottom < FRAME.bottom
    return inside and not any(box.meets(other) for other in taken)


def roofline(chart: RooflineChart) -> Markup:
    """The drawing."""
    parts = []
    for value in chart.x.decades():
        parts += FRAME.upright(chart.x.at(value), f"{value:g}")
    for value in chart.y.decades():
        parts += FRAME.across(chart.y.at(value), si(value, "FLOP/s"))
    parts.append(text(FRAME.middle, FRAME.bottom + 38, "FLOP per byte of least traffic", "tick", "middle"))
    for roof in chart.roofs:
        parts.append(line(roof.x1, roof.y1, roof.x2, roof.y2, "roof dashed" if roof.dashed else "roof"))
        parts += [line(*roof.leader, "leader")] if roof.leader else []
        parts.append(text(roof.label.x, roof.label.y, roof.label.text, "", roof.label.anchor))
    parts += [line(*label.leader, "leader") for label in chart.labels if label.leader]
    for x, y, spot in chart.marks:
        drawn = marker(spot.series, x, y, spot.text, spot.hollow)
        parts.append(element("g", drawn, class_name=f"s-{spot.series}"))
    parts += [text(each.text.x, each.text.y, each.text.text, "tick", each.text.anchor) for each in chart.labels]
    about = (
        "Both axes are logarithmic. Solid lines are ceilings of this run, dashed lines those of the datasheet. "
        "A hollow mark is a cell whose data the cache held in part."
    )
    title = "Operations per second against operations per byte"
    return picture(FRAME.width, FRAME.height, "roofline", title, about, *parts)
