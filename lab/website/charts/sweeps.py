"""How far the sweeps of each profile lay from its own p50: an SVG's geometry, a lane a profile, a dot a sweep."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.website.charts.axes import Tick
from lab.website.format import microseconds

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760.0, 210.0, 24.0, 10.0, 40.0
LANE = 24.0
STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # between two ticks, as a share
MOST_STEPS = 4  # on either side of the middle
LONGEST_LABEL = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Swept:
    """One profile: its p50 over all sweeps, and the p50 of each."""

    profile: str
    series: str
    p50_seconds: float
    sweep_p50_seconds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    x: float
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    label: str
    series: str
    y: float
    dots: tuple[Dot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepsChart:
    width: float
    height: float
    left: float
    right: float
    bottom: float
    middle: float
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]


def sweeps_chart(profiles: Sequence[Swept]) -> SweepsChart:
    """Lay out the dots; all lanes share one axis, the share by which a sweep's p50 is off its profile's."""
    farthest = max(abs(off) for swept in profiles for off in _offsets(swept))
    step = next((step for step in STEPS if farthest <= step * MOST_STEPS), STEPS[-1])
    reach = step * max(1, math.ceil(farthest / step))
    right, middle = WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2

    def x(off: float) -> float:
        return round(middle + off / (reach * 1.06) * (right - middle), 1)

    numbers = range(-round(reach / step), round(reach / step) + 1)
    return SweepsChart(
        width=WIDTH,
        height=TOP + LANE * len(profiles) + BOTTOM,
        left=LEFT,
        right=right,
        bottom=TOP + LANE * len(profiles),
        middle=middle,
        ticks=tuple(Tick(at=x(number * step), text=_percent(number * step)) for number in numbers),
        lanes=tuple(
            Lane(
                label=_short(swept.profile),
                series=swept.series,
                y=TOP + LANE * (number + 0.5),
                dots=tuple(
                    Dot(x=x(off), title=f"{swept.profile}, sweep {sweep}: {microseconds(seconds)} µs")
                    for sweep, (off, seconds) in enumerate(
                        zip(_offsets(swept), swept.sweep_p50_seconds, strict=True), start=1
                    )
                ),
            )
            for number, swept in enumerate(profiles)
        ),
    )


def _offsets(swept: Swept) -> list[float]:
    return [seconds / swept.p50_seconds - 1 for seconds in swept.sweep_p50_seconds]


def _percent(share: float) -> str:
    """'+0.5 %', '−2 %' and '0'."""
    if not round(share, 6):
        return "0"
    return f"{'+' if share > 0 else '−'}{abs(share) * 100:g} %"


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
