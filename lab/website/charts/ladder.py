"""Bandwidth against bytes moved: an SVG's geometry, with the bytes on a logarithmic axis."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.website.charts.axes import Scale, Text, Tick, si, spread
from lab.website.format import megabytes, terabytes_per_second

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 400.0, 66.0, 200.0, 30.0, 52.0
LINE = 16.0
STEPS = (0.1e12, 0.2e12, 0.5e12, 1e12, 2e12, 5e12)  # between two ticks, in bytes per second
MOST_TICKS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Rungs:
    """One line: how fast as many bytes were moved."""

    label: str
    series: str  # names colour and marker
    hollow: bool  # and dotted
    points: tuple[tuple[float, float], ...]  # (bytes, bytes per second), ascending


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    series: str
    hollow: bool
    path: str  # the points of an SVG polyline
    marks: tuple[tuple[float, float, str], ...]  # (x, y, title)
    label: Text
    leader: tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class LadderChart:
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    tracks: tuple[Track, ...]
    cache: Tick | None  # where the L2 ends
    peak: Tick | None  # the datasheet's bandwidth


def ladder_chart(lines: Sequence[Rungs], cache_bytes: float, peak_bytes_per_second: float | None) -> LadderChart:
    """Lay out the lines; a cache of 0 bytes and a peak of None are not known and not drawn."""
    sizes = [moved for line in lines for moved, _ in line.points]
    speeds = [speed for line in lines for _, speed in line.points] + [peak_bytes_per_second or 0.0]
    x = Scale(low=min(sizes) / 1.3, high=max(sizes) * 1.15, start=LEFT, end=WIDTH - RIGHT)
    step = next((step for step in STEPS if max(speeds) / step <= MOST_TICKS), STEPS[-1])
    top = step * math.ceil(max(speeds) / step + 0.2)
    bottom = HEIGHT - BOTTOM

    def y(speed: float) -> float:
        return round(bottom - (bottom - TOP) * speed / top, 1)

    ends = [y(line.points[-1][1]) for line in lines]
    labels = spread([end + 4 for end in ends], LINE, TOP + 8, bottom)
    tracks = []
    for line, end, label_y in zip(lines, ends, labels, strict=True):
        places = [(x.at(moved), y(speed)) for moved, speed in line.points]
        told = [
            f"{line.label}: {megabytes(moved)} MB at {terabytes_per_second(speed)} TB/s" for moved, speed in line.points
        ]
        tracks.append(
            Track(
                series=line.series,
                hollow=line.hollow,
                path=" ".join(f"{at_x:g},{at_y:g}" for at_x, at_y in places),
                marks=tuple((*place, title) for place, title in zip(places, told, strict=True)),
                label=Text(x=WIDTH - RIGHT + 24, y=label_y, text=line.label),
                leader=(places[-1][0] + 8, end, WIDTH - RIGHT + 21, label_y - 4),
            )
        )
    return LadderChart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=bottom,
        x_ticks=tuple(Tick(at=x.at(value), text=si(value, "B")) for value in x.decades()),
        y_ticks=tuple(Tick(at=y(n * step), text=f"{n * step / 1e12:g}") for n in range(round(top / step) + 1)),
        tracks=tuple(tracks),
        cache=Tick(at=x.at(cache_bytes), text=f"L2, {megabytes(cache_bytes)} MB") if cache_bytes else None,
        peak=_peak(peak_bytes_per_second, y),
    )


def _peak(bytes_per_second: float | None, y: Callable[[float], float]) -> Tick | None:
    if bytes_per_second is None:
        return None
    return Tick(at=y(bytes_per_second), text=f"datasheet, {terabytes_per_second(bytes_per_second)} TB/s")
