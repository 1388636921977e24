"""Charts with a row for each implementation or case: the contest, bars, sweeps, and published beside measured ratios.

Panels of one picture share one axis. What lies beyond its end is told there, with an arrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from lab.website.charts.svg import Frame, Scale, element, line, marker, picture, short_label, step_between, text
from lab.website.format import microseconds

PANEL = Frame(376.0, 26.0, 172.0, 58.0, 4.0, 22.0)  # of no rows; names left of the plot, values right of the last mark
ROW, LONGEST, HALF_MARK = 19.0, 23, 6.6  # height of a row; characters of a bold name that fit; half of the widest mark
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MOST_TICKS = 5
SWEEPS, PUBLISHED, LANE = Frame(560.0, 44.0, 150.0, 16.0, 6.0, 38.0), Frame(760.0, 54.0, 190.0, 24.0, 10.0, 44.0), 22.0
SWEEP_STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # as shares
MOST_STEPS = 4  # on either side of the middle
PRINTED = "torch-baseline"  # the style of what was printed
PUBLISHED_TICKS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


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
        step = step_between(self.low, self.high, STEPS, MOST_TICKS)
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
    bottom = PANEL.top + ROW * len(dots)
    left, right = map(axis.at, axis.band)
    parts = [element("rect", class_name="band", x=left, y=PANEL.top, width=right - left, height=bottom - PANEL.top)]
    for tick in axis.ticks():
        at = axis.at(tick)
        parts += [line(at, PANEL.top, at, bottom, "axis"), text(at, bottom + 14, f"{tick:g}×", "tick", "middle")]
    parts += [_dot(dot, PANEL.top + ROW * (number + 0.5), axis) for number, dot in enumerate(dots)]
    about = f"{axis.better}. A table beside holds the same figures."
    return picture(PANEL.width, bottom + PANEL.below, name, title, about, *parts)


def _dot(dot: Dot, y: float, axis: Axis) -> str:
    x, left, right = axis.at(dot.value), axis.at(dot.low), axis.at(dot.high)
    beyond = dot.value > axis.high
    beside = x + 7 if beyond else max(right, x + HALF_MARK) + 5
    parts = [
        text(0, y + 4, short_label(dot.label, LONGEST), "first" if dot.first else ""),
        text(beside, y + 4, f"› {dot.text}" if beyond else dot.text, "value"),
    ]
    if not beyond:
        parts += [line(left, y, right, y, "mark whisker"), marker(dot.series, x, y, f"{dot.label}: {dot.text}")]
    return element("g", *parts, class_name=f"s-{dot.series}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    label: str
    series: str
    value: float
    text: str


def bars(name: str, title: str, rows: Sequence[Bar], longest: float, mark: float | None = None) -> Markup:
    """`longest` is the end of the axis, `mark` where a line stands, such as that of the whole limit."""
    room, bottom = PANEL.right - PANEL.left, PANEL.top + ROW * len(rows)
    parts = [line(PANEL.left, PANEL.top, PANEL.left, bottom, "axis")]
    for number, bar in enumerate(rows):
        top, width = PANEL.top + ROW * number, room * bar.value / longest
        parts.append(
            element(
                "g", text(0, top + 13, short_label(bar.label, LONGEST)),
                element("rect", class_name="mark", x=PANEL.left, y=top + 4, width=width, height=ROW - 8),
                text(PANEL.left + width + 6, top + 13, bar.text, "value"), class_name=f"s-{bar.series}",
            )
        )  # fmt: skip
    if mark:
        at = PANEL.left + room * mark / longest
        parts.append(line(at, PANEL.top, at, bottom, "parity"))
    return picture(PANEL.width, bottom + 4, name, title, "A table beside holds the same figures.", *parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Swept:
    """One implementation: its p50 over all sweeps, and the p50 of each."""

    profile: str
    series: str
    p50_seconds: float
    sweep_p50_seconds: tuple[float, ...]

    def offsets(self) -> list[float]:
        return [seconds / self.p50_seconds - 1 for seconds in self.sweep_p50_seconds]


def sweeps_chart(profiles: Sequence[Swept]) -> Markup:
    """How far the sweeps of each lay from its own median, as a share: a lane for each, a dot a sweep, one axis."""
    farthest = max(abs(off) for swept in profiles for off in swept.offsets())
    step = step_between(0, farthest, SWEEP_STEPS, MOST_STEPS)
    reach = step * max(1, math.ceil(farthest / step))
    frame = SWEEPS._replace(height=SWEEPS.height + LANE * len(profiles))
    parts = []

    def x(off: float) -> float:
        return round(frame.middle + off / (reach * 1.06) * (frame.right - frame.middle), 1)

    for number in range(-round(reach / step), round(reach / step) + 1):
        parts += frame.upright(x(number * step), _percent(number * step), 15)
    parts.append(line(frame.middle, frame.top, frame.middle, frame.bottom, "parity"))
    for number, swept in enumerate(profiles):
        y = frame.top + LANE * (number + 0.5)
        dots = [
            element("circle", element("title", escape(f"{swept.profile}, sweep {sweep}: {microseconds(seconds)} µs")),
                    class_name="mark sweep", cx=x(off), cy=y, r=4.5)
            for sweep, (off, seconds) in enumerate(zip(swept.offsets(), swept.sweep_p50_seconds, strict=True), start=1)
        ]  # fmt: skip
        label = text(0, y + 4, short_label(swept.profile, 23))
        parts.append(element("g", label, *dots, class_name=f"s-{swept.series}"))
    parts.append(text(frame.left, frame.bottom + 32, "← faster than its median", "tick"))
    parts.append(text(frame.right, frame.bottom + 32, "slower →", "tick", "end"))
    about = "A lane for each implementation, a dot for each sweep. The table holds the same times."
    return picture(frame.width, frame.height, "sweeps", "The median of each sweep beside that of all", about, *parts)


def _percent(share: float) -> str:
    """'+0.5 %', '−2 %' and '0'."""
    if not round(share, 6):
        return "0"
    return f"{'+' if share > 0 else '−'}{abs(share) * 100:g} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One case: its label, (ratio, title) of what was printed, and (series, ratio, title) of what was measured."""

    label: str
    printed: tuple[tuple[float, str], ...]
    measured: tuple[tuple[str, float, str], ...]


def published_chart(cases: Sequence[Told]) -> Markup:
    """One line a case: hollow squares are what was printed, filled marks what was measured here."""
    frame = PUBLISHED._replace(height=PUBLISHED.height + LANE * len(cases))
    dots = [
        [*((PRINTED, ratio, title, True) for ratio, title in case.printed), *((*each, False) for each in case.measured)]
        for case in cases
    ]
    ratios = [1.0, *(dot[1] for row in dots for dot in row)]
    x = Scale(low=min(ratios) / 1.15, high=max(ratios) * 1.15, start=frame.left, end=frame.right)
    parts = []
    for value in (tick for tick in PUBLISHED_TICKS if x.low <= tick <= x.high):
        at = x.at(value)
        parts.append(line(at, 6, at, frame.bottom, "axis"))
        parts.append(text(at, frame.bottom + 16, f"{value:g}×", "tick", "middle"))
    parts.append(line(x.at(1.0), 6, x.at(1.0), frame.bottom, "parity"))
    for number, (case, row) in enumerate(zip(cases, dots, strict=True)):
        y, places = frame.top + LANE * (number + 0.5), [x.at(dot[1]) for dot in row]
        parts += [text(0, y + 4, case.label), line(min(places), y, max(places), y, "leader")]
        parts += [
            element("g", marker(series, at, y, title, hollow), class_name=f"s-{series}")
            for (series, _, title, hollow), at in zip(row, places, strict=True)
        ]
    parts.append(text(frame.right, frame.bottom + 34, "times as fast →", "tick", "end"))
    about = "Hollow squares are published factors, filled marks the same cases measured here. The tables hold them all."
    title = "Speed-ups as published and as measured here"
    return picture(frame.width, frame.height, "published", title, about, *parts)
