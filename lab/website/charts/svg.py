"""What every chart is made of: how each implementation looks, SVG elements, scales with ticks, labels kept apart."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

OWN = "triton"  # the lab's own kernels; what has no style of its own is either one of these or a library's call
LIBRARY = "torch-fused"
LIBRARIES = ("torch", "sdpa", "cublas", "fa4")  # how names of libraries' calls begin
LINE, MOST_LINES = 13.0, 2  # height of a further line of a name, and the most that a name has


class Style(NamedTuple):
    light: str
    dark: str
    shape: str  # its outline about the middle, as an SVG path goes on from there


STYLES = {
    "torch-baseline": Style("#5d6069", "#9da5af", "m-4.5 -4.5 h9 v9 h-9 z"),
    LIBRARY: Style("#6c4200", "#ccb081", "m0 -2 l3.5 -3.5 2 2 -3.5 3.5 3.5 3.5 -2 2 -3.5 -3.5 -3.5 3.5 -2 -2 3.5 -3.5 "
                   "-3.5 -3.5 2 -2 z"),
    "torch-compile": Style("#b85c00", "#ff9927", "m0 -6 l6 6 l-6 6 l-6 -6 z"),
    OWN: Style("#0072b2", "#a6dbf7", "m-5.5 0 a5.5 5.5 0 1 0 11 0 a5.5 5.5 0 1 0 -11 0"),
    "liger": Style("#4b2e83", "#b598ed", "m0 -6 l6 11 h-12 z"),
    "quack": Style("#04452f", "#36906c", "m0 -6.6 l1.7 4.3 4.6 .3 -3.5 2.9 1.1 4.4 -3.9 -2.4 -3.9 2.4 1.1 -4.4 "
                   "-3.5 -2.9 4.6 -.3 z"),
}  # fmt: skip


def series(profile: str) -> str:
    """The style of an implementation."""
    if profile in STYLES:
        return profile
    return LIBRARY if profile.startswith(LIBRARIES) else OWN


def style_sheet() -> str:
    """The colours as variables, for paper and for the dark, and a class for each series."""
    light, dark = (
        " ".join(f"--series-{name}: {colour};" for name, colour in colours)
        for colours in ([(n, s.light) for n, s in STYLES.items()], [(n, s.dark) for n, s in STYLES.items()])
    )
    classes = "\n".join(f".s-{name} {{ --series: var(--series-{name}); }}" for name in STYLES)
    return (
        f"/* Of lab/website/charts/svg.py. */\n:root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{classes}\n"
    )


def number(value: float) -> str:
    return f"{round(value, 1):g}"


def element(name: str, *inside: str, **attributes: object) -> str:
    """`inside` is markup already; of `class_name` the attribute is `class`, and of `text_anchor` `text-anchor`."""
    written = "".join(
        f' {"class" if key == "class_name" else key.replace("_", "-")}="'
        f'{number(value) if isinstance(value, float) else escape(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>" if inside else f"<{name}{written}/>"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    return element("text", str(escape(words)), x=float(x), y=float(y), class_name=kind, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_name=kind)


def marker(series: str, x: float, y: float, title: str = "", hollow: bool = False) -> str:
    kind, shape = "mark hollow" if hollow else "mark", f"M{number(x)} {number(y)} {STYLES[series].shape}"
    inside = [element("title", str(escape(title)))] if title else []
    return element("path", *inside, class_name=kind, d=shape)


def picture(width: float, height: float, name: str, title: str, about: str, *parts: str) -> Markup:
    """A whole drawing; `name` is unique on its page. What it shows stands in a table too."""
    heads = element("title", str(escape(title)), id=f"{name}-title")
    if about:
        heads += element("desc", str(escape(about)), id=f"{name}-about")
    labels = f"{name}-title {name}-about" if about else f"{name}-title"
    box = f"0 0 {number(width)} {number(height)}"
    return Markup(element("svg", heads, *parts, viewBox=box, role="img", aria_labelledby=labels))


PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


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

    def decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def si(value: float, unit: str) -> str:
    """'100 GFLOP/s': a round value with the prefix that keeps it short."""
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if value >= size), (1.0, ""))
    return f"{value / size:g} {prefix}{unit}".strip()


def spread(
    wanted: Sequence[float], gap: float, low: float, high: float, names: Sequence[Sequence[str]] = ()
) -> list[float]:
    """Where labels go that want to be at `wanted`: in the same order, `gap` apart, between `low` and `high`. Those with
    `names` of several lines, of which the first goes there, take more room."""
    room = [gap + LINE * (len(lines) - 1) for lines in names] or [gap] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    free = low
    for index in order:
        placed[index] = max(wanted[index], free)
        free = placed[index] + room[index]
    following = high + gap
    for index in reversed(order):
        following = placed[index] = min(placed[index], following - room[index])
    return [round(at, 1) for at in placed]


def step_between(low: float, high: float, steps: Sequence[float], most: int) -> float:
    """The smallest of some round steps that divides the axis into at most `most` parts; else the largest."""
    return next((step for step in steps if (high - low) / step <= most), steps[-1])


def label_lines(label: str, longest: int) -> list[str]:
    """A name in lines of at most so many characters; what two lines do not hold is left out."""
    return textwrap.wrap(label, longest, max_lines=MOST_LINES, placeholder="…") or [""]


def label(x: float, y: float, lines: Sequence[str], kind: str = "") -> str:
    """The lines of a name, the first one at y."""
    if len(lines) == 1:
        return text(x, y, lines[0], kind)
    spans = (
        element("tspan", str(escape(words)), x=float(x), y=float(y + LINE * number))
        for number, words in enumerate(lines)
    )
    return element("text", " ".join(spans), class_name=kind)


class Frame(NamedTuple):
    """A picture's size, and how wide the margins around its plot are."""

    width: float
    height: float
    left: float
    beside: float  # to the right of the plot
    top: float
    below: float

    @property
    def right(self) -> float:
        return self.width - self.beside

    @property
    def bottom(self) -> float:
        return self.height - self.below

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    def across(self, y: float, label: str) -> list[str]:
        """A line at a height, with its label to the left."""
        return [line(self.left, y, self.right, y, "axis"), text(self.left - 6, y + 4, label, "tick", "end")]

    def upright(self, x: float, label: str) -> list[str]:
        """A line at a place, with its label under it."""
        return [line(x, self.top, x, self.bottom, "axis"), text(x, self.bottom + 17, label, "tick", "middle")]
