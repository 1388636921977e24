"""Published speed-ups beside those measured here: an SVG's geometry, one lane a case on a logarithmic axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.website.charts.axes import Scale, Tick

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760.0, 190.0, 24.0, 10.0, 44.0
LANE = 22.0
TICKS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One case: its label, (ratio, title) of what was printed, and (series, ratio, title) of what was measured."""

    label: str
    printed: tuple[tuple[float, str], ...]
    measured: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    x: float
    series: str
    hollow: bool
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    label: str
    y: float
    left: float  # of the line that joins its dots
    right: float
    dots: tuple[Dot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedChart:
    width: float
    height: float
    left: float
    right: float
    bottom: float
    parity_x: float
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]


def published_chart(cases: Sequence[Told]) -> PublishedChart:
    ratios = [1.0]
    for case in cases:
        ratios += [ratio for ratio, _ in case.printed] + [ratio for _, ratio, _ in case.measured]
    x = Scale(low=min(ratios) / 1.15, high=max(ratios) * 1.15, start=LEFT, end=WIDTH - RIGHT)
    lanes = []
    for row, case in enumerate(cases):
        dots = (
            *(Dot(x=x.at(ratio), series="torch-baseline", hollow=True, title=told) for ratio, told in case.printed),
            *(Dot(x=x.at(ratio), series=series, hollow=False, title=told) for series, ratio, told in case.measured),
        )
        places = [dot.x for dot in dots]
        lanes.append(Lane(label=case.label, y=TOP + LANE * (row + 0.5), left=min(places), right=max(places), dots=dots))
    bottom = TOP + LANE * len(cases)
    return PublishedChart(
        width=WIDTH,
        height=bottom + BOTTOM,
        left=LEFT,
        right=WIDTH - RIGHT,
        bottom=bottom,
        parity_x=x.at(1.0),
        ticks=tuple(Tick(at=x.at(value), text=f"{value:g}×") for value in TICKS if x.low <= value <= x.high),
        lanes=tuple(lanes),
    )
