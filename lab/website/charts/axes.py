"""Axes and labels that charts share: logarithmic scales, their ticks, and labels that keep apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
CHARACTER = 6.6  # width of a character of 12 units, at most on average


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return round(self.start + share * (self.end - self.start), 1)

    def value(self, at: float) -> float:
        """The value that is drawn there."""
        share = (at - self.start) / (self.end - self.start)
        return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))

    def decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def si(value: float, unit: str) -> str:
    """'100 GFLOP/s': a round value with the prefix that keeps it short."""
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if value >= size), (1.0, ""))
    return f"{value / size:g} {prefix}{unit}".strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A place that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def box_of(text: Text) -> Box:
    """What a line of text takes, by the width of its characters at most."""
    width = CHARACTER * len(text.text)
    left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    return Box(left=left, top=text.y - 11, right=left + width, bottom=text.y + 3)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Where labels go that want to be at `wanted`: in the same order, `gap` apart, between `low` and `high`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    previous = low - gap
    for index in order:
        previous = placed[index] = max(wanted[index], previous + gap)
    following = high + gap
    for index in reversed(order):
        following = placed[index] = min(placed[index], following - gap)
    return [round(at, 1) for at in placed]
