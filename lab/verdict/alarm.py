"""Did a case become faster or slower? Each case against its own past on its board, run after run. Pure.

A run deviates from its past alone now and then, so a change counts only when the next run on the board shows it too,
and about as much of it. The past is the last runs since the last change, but for those that deviated alone. How much
runs scatter is estimated from them and, while they are few, from their intervals, which say what runs of any board
differ by.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.verdict.judge import WITH_USABLE_RATIO
from lab.verdict.results import RunResult
from lab.verdict.widening import NORMAL_QUANTILE

FEWEST_RUNS, MOST_RUNS = 6, 30  # of the past
INTERVAL_WEIGHT = 8  # the intervals count as much as so many runs
SMALLEST_STEP = 0.015  # less is no change worth an alarm
# How many standard errors each of the two runs, and their mean, must deviate. See `lab simulate --alarms`.
SINGLE_RUN_ERRORS, MEAN_ERRORS = 1.2, 3.8
# Runs that scatter so much have heavy tails, and no small step is found in them anyway.
NOISY_DEVIATION, NOISY_SINGLE_RUN_ERRORS = 0.015, 2.5
AGREEMENT_ERRORS = 3.0  # the two runs may differ by so many standard errors of their difference
OUTLIER_DEVIATIONS = 4.0  # a run so far from the median of its past is left out of it
MEDIAN_DEVIATION = 1.4826  # standard deviation over the median distance from the median, of a normal distribution
FOUND_QUANTILE = 1.645  # a step is found in 95 % of cases if it lies so many standard errors above the limit


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Series:
    """What is followed: a claim's subject against its baseline at one case on one board. `isolated` is the protocol's:
    before, each call read about half a microsecond longer."""

    gpu: str
    board: str
    experiment: str
    claim: str
    case: str
    subject: str
    baseline: str
    scope: str
    isolated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """The speed-up that one run measured, with its interval. `run` is its id or its digest."""

    run: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The runs that the next one is compared with: their mean speed-up, and the standard deviation of its logarithm."""

    runs: int
    ratio: float
    deviation: float

    @property
    def step_found(self) -> float:
        """The smallest change that two runs show in about 95 of 100 cases: 0.03 is three per cent."""
        each = self._single_run_limit + NORMAL_QUANTILE * self.deviation
        both = max(
            MEAN_ERRORS * self._error_of(2), math.log1p(SMALLEST_STEP)
        ) + FOUND_QUANTILE * self.deviation / math.sqrt(2)
        return math.expm1(max(each, both))

    def deviates(self, night: Night) -> int:
        """1 where the run is faster than its past alone explains, −1 where it is slower, else 0."""
        distance = math.log(night.ratio / self.ratio)
        return int(math.copysign(1, distance)) if abs(distance) > self._single_run_limit else 0

    def changed(self, first: Night, second: Night) -> bool:
        """Whether two runs in a row show a change, and about the same."""
        if not self.deviates(first) or self.deviates(first) != self.deviates(second):
            return False
        if abs(math.log(first.ratio / second.ratio)) > AGREEMENT_ERRORS * math.sqrt(2) * self.deviation:
            return False
        distance = abs(math.log(first.ratio * second.ratio) / 2 - math.log(self.ratio))
        return distance > max(MEAN_ERRORS * self._error_of(2), math.log1p(SMALLEST_STEP))

    @property
    def _single_run_limit(self) -> float:
        return (SINGLE_RUN_ERRORS if self.deviation < NOISY_DEVIATION else NOISY_SINGLE_RUN_ERRORS) * self._error_of(1)

    def _error_of(self, runs: int) -> float:
        """Standard error of the distance between so many new runs and the past."""
        return self.deviation * math.sqrt(1 / runs + 1 / self.runs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """A change of a series: `change` of −0.03 says that the subject lost three per cent of its speed-up."""

    series: Series
    change: float
    before: float
    after: float
    past_runs: int  # without those that deviated alone
    before_run: str  # the last run of the past
    first_run: str
    confirmed_by: str
    is_new: bool  # whether the newest run of the series confirmed it

    @property
    def direction(self) -> str:
        return "slower" if self.change < 0 else "faster"


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A series with all its runs. `past`: what the next run will be compared with, None while it is too short.
    `suspect`: the last run deviates, and no other has confirmed it yet."""

    series: Series
    nights: tuple[Night, ...]
    alarms: tuple[Alarm, ...]
    past: Past | None
    suspect: bool


def followed(series: Series, nights: Sequence[Night]) -> Followed:
    """`nights`: every run of the series, oldest first."""
    alarms, start = [], 0
    for number in range(1, len(nights)):
        past = past_of(nights[start : number - 1])
        if past and past.changed(nights[number - 1], nights[number]):
            alarms.append(_alarm(series, past, nights, number))
            start = number - 1
    latest = past_of(nights[start:-1])
    return Followed(
        series=series, nights=tuple(nights), alarms=tuple(alarms), past=past_of(nights[start:]),
        suspect=bool(latest and latest.deviates(nights[-1]) and _worth_a_rerun(latest, nights[-1])),
    )  # fmt: skip


def past_of(nights: Sequence[Night]) -> Past | None:
    """None of fewer than six runs."""
    nights = nights[-MOST_RUNS:]
    if len(nights) < FEWEST_RUNS:
        return None
    logs = np.log([night.ratio for night in nights])
    expected = np.array([(math.log(night.high / night.low) / (2 * NORMAL_QUANTILE)) ** 2 for night in nights])
    distances = np.abs(logs - np.median(logs))
    deviation = _deviation(expected, (MEDIAN_DEVIATION * float(np.median(distances))) ** 2)
    usual = distances <= OUTLIER_DEVIATIONS * deviation
    logs, expected = logs[usual], expected[usual]
    return Past(
        runs=len(logs), ratio=math.exp(logs.mean()), deviation=_deviation(expected, float(logs.var(ddof=1)))
    )  # fmt: skip


def _deviation(expected: NDArray[np.float64], variance: float) -> float:
    """Standard deviation of runs: `variance` is what they have, `expected` what the interval of each says."""
    freedom = len(expected) - 1
    return math.sqrt((INTERVAL_WEIGHT * expected.mean() + freedom * variance) / (INTERVAL_WEIGHT + freedom))


def follow(nights: Iterable[tuple[Series, Night]]) -> tuple[Followed, ...]:
    """Every series, in the order in which it first appears; `nights`: oldest first."""
    by_series: dict[Series, list[Night]] = {}
    for series, night in nights:
        by_series.setdefault(series, []).append(night)
    return tuple(followed(series, several) for series, several in by_series.items())


def nights_of(run: RunResult) -> Iterator[tuple[Series, Night]]:
    """Each claim at each case whose speed-up the run measured.

    Where no board is on record, on a CPU say, all machines of the model are one.
    """
    machine = run.machine
    for experiment, claim, case, verdict in run.speedup_verdicts():
        if verdict.status in WITH_USABLE_RATIO and (speedup := verdict.speedup):
            series = Series(
                gpu=machine.gpu or machine.cpu, board=run.board, experiment=experiment.plan.name, claim=claim.name,
                case=case, subject=claim.subject, baseline=claim.baseline, scope=claim.scope,
                isolated=run.plan.protocol.isolated,
            )  # fmt: skip
            yield series, Night(run=run.plan.run_id, ratio=speedup.ratio, low=speedup.low, high=speedup.high)


def _alarm(series: Series, past: Past, nights: Sequence[Night], number: int) -> Alarm:
    """Of the change that the run of that number confirms."""
    before, first, second = nights[number - 2 : number + 1]
    after = math.sqrt(first.ratio * second.ratio)
    return Alarm(
        series=series, change=after / past.ratio - 1, before=past.ratio, after=after, past_runs=past.runs,
        before_run=before.run, first_run=first.run, confirmed_by=second.run, is_new=number == len(nights) - 1,
    )  # fmt: skip


def _worth_a_rerun(past: Past, night: Night) -> bool:
    """A second run like this one would raise an alarm."""
    return past.changed(night, night)
