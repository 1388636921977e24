"""The central statistics once more, from the raw journal and without a line of lab.verdict.statistics.

A second reckoning, so that a slip in the first does not verify itself: medians and percentiles from sorted lists,
Student's quantile from the finite series of its distribution (Abramowitz and Stegun 26.7.3 and 26.7.4).
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

Block = Sequence[float]
Sweep = Sequence[Block]  # the rounds of a cell that count, each a block of samples in seconds

# Copied from the rules on purpose, and not imported: a constant that changes there must be changed here too.
SMALLEST_HALF_WIDTH = 0.001
STEP_SHARE = 0.78
RESOLUTION_SECONDS = 1e-10
NORMAL_QUANTILE = 1.96
SESSION_SHARE = 0.40
SESSION_FLOOR = 0.0015
DRAW_SPREAD = 0.10
FEWEST_FOR_P95 = 100


def middle(values: Iterable[float]) -> float:
    """The median."""
    held = sorted(values)
    half = len(held) // 2
    return held[half] if len(held) % 2 else (held[half - 1] + held[half]) / 2


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share lies, on the straight line between the two neighbours."""
    held = sorted(values)
    place = share * (len(held) - 1)
    below = math.floor(place)
    above = min(below + 1, len(held) - 1)
    return held[below] + (place - below) * (held[above] - held[below])


def p50_and_p95(sweeps: Sequence[Sweep]) -> tuple[float, float | None]:
    """The median of the sweeps' medians, and p95 of all samples where there are enough of them."""
    pooled = [samples for sweep in sweeps if (samples := [second for block in sweep for second in block])]
    everything = [second for samples in pooled for second in samples]
    p95 = percentile(everything, 0.95) if len(everything) >= FEWEST_FOR_P95 else None
    return middle(middle(samples) for samples in pooled), p95


def interval(
    baseline: Sequence[Sweep],
    subject: Sequence[Sweep],
    step_seconds: float,
    control: tuple[float, float] = (0.0, 0.0),
    one_draw: bool = False,
) -> tuple[float, float, float]:
    """Ratio, lower and upper end: how many times as fast the subject is. Sweeps and rounds are paired by position.

    The interval holds on any board of the GPU model. `control` is the `centre_and_half_width` of a profile over
    itself; `one_draw` says that one choice of an autotuner served all sweeps.
    """
    centre, half = centre_and_half_width(baseline, subject, step_seconds)
    effects = _effects(baseline, subject)
    session = NORMAL_QUANTILE * max(SESSION_FLOOR, SESSION_SHARE * deviation(effects))
    draw = NORMAL_QUANTILE * DRAW_SPREAD if one_draw else 0.0
    half = math.sqrt(half**2 + session**2 + draw**2) + max(0.0, abs(control[0]) - control[1])
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def centre_and_half_width(
    baseline: Sequence[Sweep], subject: Sequence[Sweep], step_seconds: float
) -> tuple[float, float]:
    """Of the ratio's logarithm, as this run alone has it."""
    effects = _effects(baseline, subject)
    step = max(step_seconds, smallest_step(baseline), smallest_step(subject))
    shorter = min(middle(_samples(baseline)), middle(_samples(subject)))
    half = max(
        student_half_width(effects),
        student_half_width([log for rounds in _logs(baseline, subject) for log in rounds]),
        math.log(1 + STEP_SHARE * step / shorter),
        SMALLEST_HALF_WIDTH,
    )
    return sum(effects) / len(effects), half


def _effects(baseline: Sequence[Sweep], subject: Sequence[Sweep]) -> list[float]:
    return [sum(rounds) / len(rounds) for rounds in _logs(baseline, subject)]


def _logs(baseline: Sequence[Sweep], subject: Sequence[Sweep]) -> list[list[float]]:
    """log(median baseline / median subject) by sweep and round."""
    return [
        [math.log(middle(b) / middle(s)) for b, s in zip(slow, fast, strict=True)]
        for slow, fast in zip(baseline, subject, strict=True)
    ]


def student_half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of their mean."""
    return student_quantile(len(values) - 1) * deviation(values) / math.sqrt(len(values))


def deviation(values: Sequence[float]) -> float:
    """Their standard deviation."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@cache
def student_quantile(freedom: int) -> float:
    """Beyond which, on either side, one in twenty lies: 12.706 with one degree of freedom, 1.960 with very many."""
    low, high = 0.0, 20.0
    for _ in range(80):
        half = (low + high) / 2
        low, high = (half, high) if _within(half, freedom) < 0.95 else (low, half)
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """The share of Student's distribution between −t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2:
        term, total = cosine, cosine if freedom > 1 else 0.0
        for k in range(3, freedom - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        return 2 / math.pi * (angle + sine * total)
    term = total = 1.0
    for k in range(2, freedom, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return sine * total


def smallest_step(sweeps: Sequence[Sweep]) -> float:
    """The least by which two unequal samples differ, which is the clock's step or more; 0 where none differ."""
    distinct = sorted(set(_samples(sweeps)))
    steps = (after - before for before, after in pairwise(distinct))
    return min((step for step in steps if step > RESOLUTION_SECONDS), default=0.0)


def _samples(sweeps: Sequence[Sweep]) -> list[float]:
    return [second for sweep in sweeps for block in sweep for second in block]
