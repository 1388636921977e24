"""Samples → percentiles, noise and speed-ups with intervals. Pure; the unit of replication is the sweep."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import NormalDist, median

import numpy as np
from scipy.special import betaincinv, stdtrit

from lab.evidence.samples import PackedRounds

CONFIDENCE = 0.95  # of the intervals that are shown
DECIDING_CONFIDENCE = 0.98  # of those by which verdicts are decided: each of the two ends errs in 1 %
SMALLEST_HALF_WIDTH = 0.001
FEWEST_FOR_P95 = 100
# Two times that a clock rounds to its steps err by up to a step against each other; 95 % of that triangle lies here.
STEP_SHARE = 0.78
Rounds = Sequence[Sequence[float]]  # one sweep of one cell: seconds, by round
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """One cell over all its sweeps. p95 and the noise ratio are None below 100 samples."""

    p50_seconds: float
    p95_seconds: float | None
    sweep_p50_seconds: tuple[float, ...]
    samples: int

    @property
    def noise_ratio(self) -> float | None:
        return None if self.p95_seconds is None else self.p95_seconds / self.p50_seconds

    @property
    def between_sweep_spread(self) -> float:
        """Largest over smallest sweep median, minus one."""
        return max(self.sweep_p50_seconds) / min(self.sweep_p50_seconds) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class HalfWidths:
    """What makes up a widened interval: half-widths of the ratio's logarithm. See lab/verdict/widening.py."""

    run: float  # of this run alone
    sessions: float  # between sessions and boards
    least_sessions: float  # what these differ by whatever the sweeps are
    draws: float  # between draws of an autotuner, where one served all sweeps
    control: float  # by how much the A/A control differed from itself beyond its own interval

    @property
    def apart_from_draws(self) -> float:
        return math.hypot(self.run, self.sessions) + self.control

    @property
    def whole(self) -> float:
        return math.hypot(self.run, self.sessions, self.draws) + self.control


@dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """Baseline time over subject time: the ratio, its 95 % interval, and the ratio of each sweep.

    The interval holds for this run alone where `widths` is None, and else for any board of the GPU model.
    """

    ratio: float
    low: float
    high: float
    sweep_ratios: tuple[float, ...]
    floor: float = SMALLEST_HALF_WIDTH  # smallest half-width of the run's own interval, whatever the number of sweeps
    widths: HalfWidths | None = None

    @property
    def half_width(self) -> float:
        """Half the interval's width, relative: 0.01 is one per cent."""
        return math.sqrt(self.high / self.low) - 1

    def interval(self, confidence: float) -> tuple[float, float]:
        """Lower and upper end at another confidence than that of `low` and `high`.

        All that made up the half-width is scaled alike, floors and widening included, so that a wider interval never
        contradicts the one that is shown.
        """
        freedom = len(self.sweep_ratios) - 1
        scale = t_quantile(freedom, confidence) / t_quantile(freedom)
        half_width = scale * math.log(self.high / self.low) / 2
        return self.ratio * math.exp(-half_width), self.ratio * math.exp(half_width)

    def reversed(self) -> "Speedup":
        """Subject time over baseline time: intervals are symmetric in the ratio's logarithm."""
        ratios = tuple(1 / ratio for ratio in self.sweep_ratios)
        return replace(self, ratio=1 / self.ratio, low=1 / self.high, high=1 / self.low, sweep_ratios=ratios)

    @property
    def of_run_alone(self) -> tuple[float, float]:
        """Lower and upper end of the interval that holds for this run alone."""
        if self.widths is None:
            return self.low, self.high
        return self.ratio * math.exp(-self.widths.run), self.ratio * math.exp(self.widths.run)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """The speed-up that an eager caller sees, as a product: the device's part × the launch's part."""

    end_to_end: Speedup
    device: Speedup
    launch: Speedup


def latency(sweeps: Sequence[Rounds]) -> Latency | None:
    """p50 is the median of the sweeps' medians; p95 is taken over all samples. None without a sample."""
    pooled = [[second for block in rounds for second in block] for rounds in sweeps]
    pooled = [seconds for seconds in pooled if seconds]
    if not pooled:
        return None
    everything = np.concatenate([np.asarray(seconds) for seconds in pooled])
    medians = tuple(median(seconds) for seconds in pooled)
    enough = everything.size >= FEWEST_FOR_P95
    return Latency(
        p50_seconds=median(medians),
        p95_seconds=float(np.percentile(everything, 95)) if enough else None,
        sweep_p50_seconds=medians,
        samples=int(everything.size),
    )


def speedup(baseline: Sequence[Rounds], subject: Sequence[Rounds], step_seconds: float = 0.0) -> Speedup | None:
    """How many times as fast the subject is; sweeps and rounds of both are paired by position.

    For sweep p, d_p is the mean over rounds of log(median baseline) − log(median subject); the
    interval is the t interval of d_p over sweeps, never narrower than that over rounds, than the
    timer's quantum, or than 0.1 %. The quantum is `step_seconds` or what the samples themselves show,
    whichever is more: a side that always reads the same shows none. None where fewer than two sweeps
    have a round with both.
    """
    floor = _step_half_width(baseline, subject, step_seconds)
    return over_sweeps([_round_logs(b, s) for b, s in zip(baseline, subject, strict=True)], floor)


def split(
    eager: tuple[Sequence[Rounds], Sequence[Rounds]], graph: tuple[Sequence[Rounds], Sequence[Rounds]]
) -> Split | None:
    """The parts of an eager speed-up; each argument is (baseline, subject), paired by position throughout.

    A graph replays without the host, so its speed-up is the device's; what is left of the eager one is the
    launch's. Round by round, so that the interval of each part is its own; every round holds all four.
    None as in `speedup`.
    """
    whole, device = speedup(*eager), speedup(*graph)
    remainders = []
    for eager_baseline, eager_subject, graph_baseline, graph_subject in zip(*eager, *graph, strict=True):
        outer, inner = _round_logs(eager_baseline, eager_subject), _round_logs(graph_baseline, graph_subject)
        remainders.append([o - i for o, i in zip(outer, inner, strict=True)])
    floor = max(_step_half_width(*eager), _step_half_width(*graph))
    launch = over_sweeps(remainders, floor)
    return Split(end_to_end=whole, device=device, launch=launch) if whole and device and launch else None


def over_sweeps(sweeps: Sequence[Sequence[float]], floor: float) -> Speedup | None:
    """The ratio and its interval from the logarithms of each sweep's rounds; None as in `speedup`."""
    sweeps = [logs for logs in sweeps if len(logs)]
    if len(sweeps) < 2:
        return None
    parts = [np.asarray(logs) for logs in sweeps]
    effects = np.array([_mean(logs) for logs in parts])
    centre = float(_mean(effects))
    rounds = np.concatenate(parts)
    floor = max(floor, SMALLEST_HALF_WIDTH)
    half_width = max(t_half_width(effects), t_half_width(rounds), floor)
    return Speedup(
        ratio=math.exp(centre),
        low=math.exp(centre - half_width),
        high=math.exp(centre + half_width),
        sweep_ratios=tuple(float(ratio) for ratio in np.exp(effects)),
        floor=math.expm1(floor),
    )


def t_half_width(values: Floats, confidence: float = CONFIDENCE) -> float:
    """Half-width of the Student interval of the mean of two or more values."""
    deviations = values - _mean(values)
    deviation = math.sqrt(np.add.reduce(deviations * deviations) / (values.size - 1))
    return t_quantile(values.size - 1, confidence) * deviation / math.sqrt(values.size)


def _mean(values: Floats) -> np.float64:
    """To the last bit numpy's own, which spends most of its time on options that nobody gives it."""
    mean: np.float64 = np.add.reduce(values) / values.size
    return mean


@functools.cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """How many standard errors the Student interval of that confidence reaches to either side."""
    return float(stdtrit(freedom, 0.5 + confidence / 2))


def typical_interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the centre of nine values or more lies, however far off some are: the ends of the interval of Wilcoxon's
    signed-rank test (Hodges and Lehmann 1963) that leaves ranks of up to 2 outside. Each end of nine values errs in
    0.6 % if they scatter alike on both sides of their centre, and of more values less often.
    """
    lowest, second, third, *_ = ordered = sorted(values)
    highest, before, third_highest, *_ = reversed(ordered)
    return min(second, (lowest + third) / 2), max(before, (highest + third_highest) / 2)


def quantum(sweeps: Sequence[Rounds]) -> float:
    """The timer's step in seconds: the smallest difference between two unequal samples; 0 if none differ."""
    return _least_step(_ordered(sweeps))


def largest_rate(count: int, trials: int) -> float | None:
    """Clopper and Pearson's one-sided upper bound of a rate, from `count` events in `trials` trials."""
    if not trials:
        return None
    return 1.0 if count == trials else float(betaincinv(count + 1, trials - count, CONFIDENCE))


def wilson(count: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a share: unlike the usual one it stays right where the share is small."""
    share, z = count / trials, NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    middle = share + z * z / (2 * trials)
    width = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max(0.0, (middle - width) / scale), min(1.0, (middle + width) / scale)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _round_logs(baseline: Rounds, subject: Rounds) -> list[float]:
    """log(median baseline) − log(median subject) of each round in which both have a valid sample."""
    return [math.log(b) - math.log(s) for b, s in zip(*_medians(baseline, subject), strict=True)]


def _medians(baseline: Rounds, subject: Rounds) -> tuple[Sequence[float], Sequence[float]]:
    """Of both, in the rounds in which both have a sample."""
    if isinstance(baseline, PackedRounds) and isinstance(subject, PackedRounds) and not baseline.empty | subject.empty:
        return baseline.medians, subject.medians
    both = [(b, s) for b, s in zip(baseline, subject, strict=True) if len(b) and len(s)]
    return [median(b) for b, _ in both], [median(s) for _, s in both]


def _step_half_width(baseline: Sequence[Rounds], subject: Sequence[Rounds], step_seconds: float = 0.0) -> float:
    """The half width of a ratio that the clock's step causes, which more samples do not reduce."""
    sides = _ordered(baseline), _ordered(subject)
    step_seconds = max(step_seconds, *map(_least_step, sides))
    return math.log1p(STEP_SHARE * step_seconds / min(map(_middle, sides)))


def _ordered(sweeps: Sequence[Rounds]) -> Floats:
    samples = [
        np.frombuffer(rounds.seconds) if isinstance(rounds, PackedRounds) else np.array([*chain.from_iterable(rounds)])
        for rounds in sweeps
    ]
    return np.sort(np.concatenate(samples)) if samples else np.array([])


def _middle(ordered: Floats) -> float:
    """The median; infinite where there is no sample."""
    half = ordered.size // 2
    if not ordered.size:
        return math.inf
    return float(ordered[half] if ordered.size % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _least_step(ordered: Floats) -> float:
    steps = ordered[1:] - ordered[:-1]
    steps = steps[steps > 1e-10]  # below a tenth of a nanosecond is rounding of the record
    return float(steps.min()) if steps.size else 0.0


MOST_PLACES = 4


def per_cent(share: float, places: int = 0) -> str:
    """'20 %', and with one place '1.3 %': with a space, as in all that authors write. What is less than a whole has as
    many places as it takes not to read as one."""
    while share < 1 and places < MOST_PLACES and f"{100 * share:.{places}f}".startswith("100"):
        places += 1
    return f"{100 * share:.{places}f} %"
