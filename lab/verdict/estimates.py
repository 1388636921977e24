"""The constants that widen intervals, and the spreads of the simulation, estimated again from runs. Pure.

How `SESSION_SHARE` was found: `lab validity --one-code` of norms-2026-11-21-a to -e, one code on four boards. How
`BUSY_SESSION_FLOOR` and `POWER_LIMITED_SESSION_FLOOR` were: `lab validity` of the runs that lab/verdict/widening.py
names, and then the simulation, for some comparisons scatter by several times the standard deviation. How `DRAW_SPREAD`
was: of kernels-2026-11-22 and -23, each of which compiled once for all its sweeps.
"""

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.definition.experiment import CEILINGS
from lab.verdict.cells import SCOPE
from lab.verdict.judge import FEWEST_RANKED, FULL_SWEEPS
from lab.verdict.minority import DECILES, Minorities, minorities
from lab.verdict.pooled import FEWEST_RUNS, RepeatKey, Seen, by_place, source_of
from lab.verdict.results import RunResult
from lab.verdict.statistics import Speedup
from lab.verdict.widening import SESSION_SHARE

SHARES = tuple(number / 100 for number in range(201))
FLOORS = tuple(number / 10_000 for number in range(201))
SMALLEST_VARIANCE = 1e-10  # of a logarithm: a thousandth of a per cent, squared


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """`session_share` and `draw_spread` are None without two runs of one code; the rest by kind of profile."""

    session_share: float | None  # between sessions, in standard deviations of sweeps
    sessions: tuple["Sessions", ...]  # of fixed kernels, without a GPU's ceilings
    draw_spread: float | None  # between choices of an autotuner, root mean square
    sweep_deciles: Mapping[str, tuple[float, ...]]  # 5 %, 15 %, … 95 % of the standard deviations of sweeps
    minorities: tuple[Minorities, Minorities]  # of code that is compiled in each of nine sweeps: baseline, subject slow


@dataclass(frozen=True, kw_only=True, slots=True)
class Sessions:
    """How far sessions and boards differ in cases of one floor, as standard deviations of the ratio's logarithm."""

    floor: float  # that the judge takes
    seen_floor: float  # the smallest with which runs differ no more than is explained, in the mean square
    beyond_sweeps: tuple[float, ...]  # of each comparison of three runs and more, the calmest first
    comparisons: int  # of two runs and more


def estimates(runs: Sequence[RunResult], one_code: bool = False) -> Estimates:
    """`one_code`: the runs are known to have measured one code, whatever else of the source changed."""
    places = by_place(runs, one_code)
    pairs = [pair for seen in places.values() for pair in itertools.combinations(seen, 2)]
    kinds: dict[str, list[float]] = {}
    for kind, deviation in _deviations(runs):
        kinds.setdefault(kind, []).append(deviation)
    return Estimates(
        session_share=_session_share([pair for pair in pairs if not any(each.verdict.one_draw for each in pair)]),
        sessions=tuple(_sessions(places)),
        draw_spread=_draw_spread(runs, one_code),
        sweep_deciles={
            kind: tuple(map(float, np.quantile(deviations, DECILES))) for kind, deviations in sorted(kinds.items())
        },
        minorities=minorities(list(_compiled_in_each_sweep(runs))),
    )


def _session_share(pairs: Sequence[tuple[Seen, Seen]]) -> float | None:
    """The smallest share with which runs differ, in the mean square, no more than their sweeps and sessions explain."""
    if not pairs:
        return None
    return next((share for share in SHARES if _excess(pairs, share) <= 1), SHARES[-1])


def _sessions(places: Mapping[RepeatKey, Sequence[Seen]]) -> Iterator[Sessions]:
    groups: dict[float, list[Sequence[Seen]]] = {}
    for place, seen in places.items():
        if (
            len(seen) > 1
            and place.experiment != CEILINGS
            and not any(each.compiled or each.verdict.one_draw for each in seen)
        ):
            groups.setdefault(max(each.session_floor for each in seen), []).append(seen)
    for floor, comparisons in sorted(groups.items()):
        pairs = [pair for seen in comparisons for pair in itertools.combinations(seen, 2)]
        between = [_between(seen) for seen in comparisons if len(seen) >= FEWEST_RUNS]
        yield Sessions(
            floor=floor,
            seen_floor=next((each for each in FLOORS if _excess(pairs, SESSION_SHARE, each) <= 1), FLOORS[-1]),
            beyond_sweeps=tuple(sorted(between)),
            comparisons=len(comparisons),
        )


def _between(seen: Sequence[Seen]) -> float:
    """Between the runs of one comparison, without what their sweeps explain."""
    explained = statistics.fmean(_deviation(each.speedup) ** 2 / len(each.speedup.sweep_ratios) for each in seen)
    return math.sqrt(max(0.0, statistics.variance(math.log(each.speedup.ratio) for each in seen) - explained))


def _excess(pairs: Sequence[tuple[Seen, Seen]], share: float, floor: float = 0.0) -> float:
    return statistics.fmean(
        math.log(a.speedup.ratio / b.speedup.ratio) ** 2 / sum(_variance(each.speedup, share, floor) for each in (a, b))
        for a, b in pairs
    )


def _variance(speedup: Speedup, share: float, floor: float) -> float:
    """Of the ratio's logarithm: over sweeps, and between sessions."""
    deviation = _deviation(speedup)
    between = max(floor, share * deviation)
    return max(deviation**2 / len(speedup.sweep_ratios) + between**2, SMALLEST_VARIANCE)


def _deviation(speedup: Speedup) -> float:
    return float(np.log(speedup.sweep_ratios).std(ddof=1))


def _draw_spread(runs: Sequence[RunResult], one_code: bool) -> float | None:
    """Of the p50 of each cell that an autotuner chose once for, between runs on GPUs of one model."""
    seconds: dict[tuple[str, ...], list[float]] = {}
    for run in runs:
        for experiment in run.experiments:
            for (case, profile), cell in experiment.cells.items():
                if profile in experiment.drawn_once and (latency := cell.latencies.get(SCOPE)):
                    source = "" if one_code else source_of(run)
                    place = (run.machine.gpu, experiment.plan.name, case, profile, source)
                    seconds.setdefault(place, []).append(latency.p50_seconds)
    squares = [math.log(a / b) ** 2 / 2 for times in seconds.values() for a, b in itertools.combinations(times, 2)]
    return math.sqrt(statistics.fmean(squares)) if squares else None


def _compiled_in_each_sweep(runs: Sequence[RunResult]) -> Iterator[tuple[float, ...]]:
    """The sweeps' ratios of each claim at each case of nine compilations or more."""
    for place, seen in by_place(runs).items():
        for each in seen:
            sweeps = each.speedup.sweep_ratios
            if each.compiled and not each.verdict.one_draw and place.scope != "eager" and len(sweeps) >= FEWEST_RANKED:
                yield sweeps


def _deviations(runs: Sequence[RunResult]) -> Iterator[tuple[str, float]]:
    """The standard deviation of the sweeps of each claim at each case, with the kind of its profiles."""
    for place, seen in by_place(runs).items():
        for each in seen:
            if len(each.speedup.sweep_ratios) >= FULL_SWEEPS:
                kind = "eager" if place.scope == "eager" else "compiled" if each.verdict.one_draw else "fixed"
                yield kind, _deviation(each.speedup)
