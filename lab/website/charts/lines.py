"""Charts with a line for each implementation or claim: the winner by size, bandwidth by bytes, ratios by run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from lab.website.charts.svg import (
    Frame,
    Scale,
    element,
    label,
    label_lines,
    line,
    marker,
    picture,
    si,
    spread,
    step_between,
    text,
)
from lab.website.format import megabytes, terabytes_per_second

CROSSOVER, CROSSOVER_STEPS = Frame(512.0, 250.0, 46.0, 178.0, 12.0, 44.0), (0.02, 0.05, 0.1, 0.2, 0.5)
LADDER, LADDER_STEPS = Frame(760.0, 400.0, 66.0, 200.0, 30.0, 52.0), (0.1e12, 0.2e12, 0.5e12, 1e12, 2e12, 5e12)
TIMELINE = Frame(376.0, 204.0, 44.0, 4.0, 14.0, 38.0)
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # between two ticks, where round values are too few
MOST_TICKS = 6
LONGEST_OF_CROSSOVER = 26  # characters of a line of a name that fit
INSET, MARGIN = 24.0, 1.06  # before the first run; around the farthest ends of intervals
LABEL_WIDTH, NOTE_WIDTH = 60.0, 30.0  # from one run's number to the next; of a value under a mark
NEAR_PARITY = 1.3  # lines farther from it are drawn without it, or they would be flat


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A value with its interval, at a size or at the place of a run. `hollow`: unlike the others."""

    at: float
    value: float
    low: float
    high: float
    title: str
    note: str = ""  # stands below it
    hollow: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    label: str
    series: str  # names colour and marker
    points: tuple[Point, ...]
    dotted: bool = False


def crossover_chart(
    name: str, about: str, sizes: Sequence[int], tracks: Sequence[Line], band: tuple[float, float], most: float
) -> Markup:
    """Which implementation wins at which size: its time over the fastest's, against one dimension of the shape.

    Sizes on a logarithmic axis; on the other, linear, lower is faster. `band` is what counts as equal. What lies beyond
    `most` is a hollow mark at the edge with its value.
    """
    frame = CROSSOVER
    x = Scale(low=min(sizes) / 1.15, high=max(sizes) * 1.15, start=frame.left, end=frame.right)
    points = [point for track in tracks for point in track.points]
    top = min(most, max(1.05, *(min(point.high, 2 * point.value - 1) for point in points)))
    base = 1 - (top - 1) / 12

    def y(value: float) -> float:
        share = (min(max(value, base), top) - base) / (top - base)
        return round(frame.bottom - (frame.bottom - frame.top) * share, 1)

    step = step_between(1, top, CROSSOVER_STEPS, MOST_TICKS)
    equal = {"y": y(band[1]), "width": frame.right - frame.left, "height": y(band[0]) - y(band[1])}
    parts = [element("rect", class_name="band", x=frame.left, **equal)]
    for tick in (1 + step * count for count in range(int((top - 1) / step + 1e-9) + 1)):
        parts += frame.across(y(tick), f"{tick:.4g}×")
    shown: list[float] = []
    for size in sizes:
        if not shown or x.at(size) - shown[-1] > 8 * len(str(size)):
            parts.append(text(x.at(size), frame.bottom + 17, str(size), "tick", "middle"))
            shown.append(x.at(size))
    parts.append(text(frame.middle, frame.bottom + 36, "n", "tick", "middle"))
    names = [label_lines(track.label, LONGEST_OF_CROSSOVER) for track in tracks]
    ends = spread([y(track.points[-1].value) + 4 for track in tracks], 15.0, frame.top + 8, frame.bottom, names)
    for number, (track, end, name_lines) in enumerate(zip(tracks, ends, names, strict=True)):
        shift = 3 * (number - (len(tracks) - 1) / 2)
        xs = [x.at(point.at) + shift for point in track.points]
        parts.append(_track(_within(track, xs, top), xs, y, (frame.right + 21, end, name_lines)))
    heading = f"Time over the fastest's, by n in {about}"
    about_chart = "The lowest line is the fastest. A table below holds the times."
    return picture(frame.width, frame.height, name, heading, about_chart, *parts)


def _within(track: Line, xs: Sequence[float], top: float) -> Line:
    """The same with what lies above the picture at its edge, and its value where there is room for it."""
    points, told = [], -math.inf
    for x, point in zip(xs, track.points, strict=True):
        if point.value > top:
            note, told = (f"{point.value:.2g}×", x) if x - told > NOTE_WIDTH else ("", told)
            point = replace(point, value=top, low=top, high=top, hollow=True, note=note)
        points.append(point)
    return replace(track, points=tuple(points))


def ladder_chart(lines: Sequence[Line], cache_bytes: float, peak_bytes_per_second: float | None) -> Markup:
    """Bandwidth against bytes moved; a cache of 0 bytes and a peak of None are not known and not drawn."""
    frame = LADDER
    sizes = [point.at for each in lines for point in each.points]
    speeds = [point.value for each in lines for point in each.points] + [peak_bytes_per_second or 0.0]
    x = Scale(low=min(sizes) / 1.3, high=max(sizes) * 1.15, start=frame.left, end=frame.right)
    step = step_between(0, max(speeds), LADDER_STEPS, 8)
    top = step * math.ceil(max(speeds) / step + 0.2)

    def y(speed: float) -> float:
        return round(frame.bottom - (frame.bottom - frame.top) * speed / top, 1)

    parts = [text(0, 12, "TB/s", "tick")]
    parts.append(text(frame.middle, frame.bottom + 38, "bytes read and written", "tick", "middle"))
    for value in x.decades():
        parts += frame.upright(x.at(value), si(value, "B"))
    for number in range(round(top / step) + 1):
        parts += frame.across(y(number * step), f"{number * step / 1e12:g}")
    if cache_bytes:
        at = x.at(cache_bytes)
        parts.append(line(at, frame.top, at, frame.bottom, "parity"))
        parts.append(text(at, frame.top - 8, f"L2, {megabytes(cache_bytes)} MB", "", "middle"))
    if peak_bytes_per_second is not None:
        at = y(peak_bytes_per_second)
        label = f"datasheet, {terabytes_per_second(peak_bytes_per_second)} TB/s"
        parts += [line(frame.left, at, frame.right, at, "roof dashed"), text(frame.left + 6, at - 6, label)]
    ends = spread([y(each.points[-1].value) + 4 for each in lines], 16.0, frame.top + 8, frame.bottom)
    for each, end in zip(lines, ends, strict=True):
        xs = [x.at(point.at) for point in each.points]
        parts.append(_track(each, xs, y, (frame.right + 24, end, [each.label])))
    about = "Lines of copies are solid with filled markers, lines of reads dotted with hollow ones."
    return picture(frame.width, frame.height, "ladder", "Bandwidth against bytes moved, by scope", about, *parts)


def timeline_chart(name: str, track: Line, boards: Sequence[str]) -> Markup:
    """One ratio over published runs; `boards` names the board of each run, oldest first, empty where it is not known.

    As wide as a phone, so that its text is read there. A mark is hollow where its run was on another board than the
    newest: what differs there may be the board.
    """
    frame = TIMELINE
    low, high = min(point.low for point in track.points), max(point.high for point in track.points)
    if low < NEAR_PARITY and high > 1 / NEAR_PARITY:
        low, high = min(low, 1.0), max(high, 1.0)
    low, high = low / MARGIN, high * MARGIN
    y = Scale(low=low, high=high, start=frame.bottom, end=frame.top)
    start, pace = frame.left + INSET, (frame.right - frame.left - 2 * INSET) / max(1, len(boards) - 1)
    parts = []
    for value in _ticks(low, high):
        parts += frame.across(y.at(value), f"{value:g}×")
    every = math.ceil(LABEL_WIDTH / pace)  # label; the newest run always has one
    for run, board in enumerate(boards):
        if (len(boards) - 1 - run) % every:
            continue
        for words, below in ((f"run {run + 1}", 16), (f"board {board}" if board else "", 31)):
            parts.append(text(start + pace * run, frame.bottom + below, words, "tick", "middle"))
    if low < 1.0 < high:
        parts.append(line(frame.left, y.at(1.0), frame.right, y.at(1.0), "parity"))
    parts.append(_track(track, [start + pace * point.at for point in track.points], y.at))
    about = "Times as fast on a logarithmic axis, with intervals. Hollow: on another board than the newest run."
    return picture(frame.width, frame.height, name, f"{track.label}, by published run", about, *parts)


def _track(
    track: Line, xs: Sequence[float], y: Callable[[float], float], end: tuple[float, float, list[str]] | None = None
) -> str:
    """A line with its marks and their intervals, and where it is not alone a leader from its end to its label, of which
    `end` is the place and the lines."""
    places = [(x, y(point.value)) for x, point in zip(xs, track.points, strict=True)]
    path = " ".join(f"{x:g},{y:g}" for x, y in places)
    parts = [element("polyline", class_name="rung dotted" if track.dotted else "rung", points=path)]
    if end:
        parts.append(line(places[-1][0] + 8, places[-1][1], end[0] - 3, end[1] - 4, "leader"))
        parts.append(label(*end))
    for (x, at), point in zip(places, track.points, strict=True):
        if point.low < point.high:
            parts.append(line(x, y(point.high), x, y(point.low), "mark whisker"))
        parts.append(marker(track.series, x, at, point.title, point.hollow))
        if point.note:
            parts.append(text(x, y(point.low) + 17, point.note, "", "middle"))
    return element("g", *parts, class_name=f"s-{track.series}")


def _ticks(low: float, high: float) -> list[float]:
    inside = [value for value in TICKS if low <= value <= high]
    if len(inside) > 2:
        return inside
    steps = (step for step in STEPS if 2 <= math.floor(high / step) - math.ceil(low / step) + 1 <= MOST_TICKS)
    step = next(steps, high - low)
    return [round(step * number, 6) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
