"""Published times and speed-ups, computed a second time from the raw samples and compared."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from lab.definition.plan import PlannedClaim
from lab.evidence.record import Cell, Control, Round, Sustained, Timing
from lab.verdict.results import ExperimentResult
from lab.website.figure import pointer
from lab.website.verification.files import Mismatch

# The central statistics once more, from the raw journal and without a line of lab.verdict.statistics.
Block = Sequence[float]
Sweep = Sequence[Block]  # the rounds of a cell that count, each a block of samples in seconds

# Copied from the rules on purpose, and not imported: a constant that changes there must be changed here too.
SMALLEST_HALF_WIDTH = 0.001
STEP_SHARE = 0.78
RESOLUTION_SECONDS = 1e-10
NORMAL_QUANTILE = 1.96
FEWEST_RANKED, RANKS_LEFT = 9, 2
SESSION_SHARE = 0.40
SESSION_FLOOR, FEW_OPERATIONS = 0.0015, 100.0
BUSY_SESSION_FLOOR, POWER_LIMITED_SESSION_FLOOR = 0.0050, 0.0080
POWER_CAP, POWER_CAPPED_TIME_SHARE = 4, 0.05
DRAW_SPREAD = 0.10
FEWEST_FOR_P95 = 100
SHOWN, DECIDING = 0.95, 0.98  # confidence of the intervals that are published, and of those that decide


def middle(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share lies, on the straight line between the two neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


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
    session_floor: float,
    control: tuple[float, float] = (0.0, 0.0),
    one_draw: bool = False,
) -> tuple[float, float, float]:
    """Ratio, lower and upper end: how many times as fast the subject is. Sweeps and rounds are paired by position.

    The interval holds on any board of the GPU model. `session_floor` is the least standard deviation between sessions;
    `control` is the `centre_and_half_width` of a profile over itself; `one_draw` says that one choice of an autotuner
    served all sweeps.
    """
    centre, half = centre_and_half_width(baseline, subject, step_seconds)
    effects = _effects(baseline, subject)
    session = NORMAL_QUANTILE * max(session_floor, SESSION_SHARE * deviation(effects))
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


def deciding(ratio: float, low: float, high: float, sweeps: int) -> tuple[float, float]:
    """The ends of the interval that decides, from the one that is published."""
    half = math.log(high / low) / 2 * student_quantile(sweeps - 1, DECIDING) / student_quantile(sweeps - 1)
    return ratio * math.exp(-half), ratio * math.exp(half)


def by_ranks(
    effects: Sequence[float], session_floor: float, control: tuple[float, float], one_draw: bool
) -> tuple[float, float]:
    """The thresholds that the sweeps reach by a signed-rank test, and that they are below, by more than boards differ.
    One choice of an autotuner that served all sweeps is no agreement."""
    sweeps = len(effects)
    if sweeps < FEWEST_RANKED or one_draw:
        return 0.0, math.inf
    shown = NORMAL_QUANTILE * session_floor + max(0.0, abs(control[0]) - control[1])
    boards = shown * student_quantile(sweeps - 1, DECIDING) / student_quantile(sweeps - 1)
    averages = sorted((one + other) / 2 for number, one in enumerate(effects) for other in effects[number:])
    return math.exp(averages[RANKS_LEFT] - boards), math.exp(averages[-1 - RANKS_LEFT] + boards)


def student_half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of their mean."""
    return student_quantile(len(values) - 1) * deviation(values) / math.sqrt(len(values))


def deviation(values: Sequence[float]) -> float:
    """Their standard deviation."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@cache
def student_quantile(freedom: int, confidence: float = SHOWN) -> float:
    """The half-width, in standard deviations, of an interval of this confidence: of 95 %, 12.706 with one degree of
    freedom and 1.960 with very many."""
    low, high = 0.0, 40.0
    for _ in range(80):
        half = (low + high) / 2
        low, high = (half, high) if _within(half, freedom) < confidence else (low, half)
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


FEWEST_ROUNDS = 4  # of a sweep that count; fewer tell nothing, unless fewer were planned
Timed = Cell | Control
ROUNDING = 2e-6  # seven digits are published, and the second computation rounds otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """A speed-up, and what decides a verdict: the deciding interval, or that all sweeps are on one side."""

    ratio: float
    low: float
    high: float
    deciding: tuple[float, float]
    by_ranks: tuple[float, float]
    sweeps: tuple[float, float]  # the lowest and highest ratio


def recomputed(result: ExperimentResult, data: Mapping[str, Any], place: str) -> Iterator[Mismatch]:
    """Every p50, p95, time back to back, and speed-up with its interval that differs from what is computed here, and
    every verdict that the deciding interval contradicts."""
    for case, profile in result.plan.cells():
        cells = result.cells[case.name, profile.name].cells
        tokens = data["cases"][case.name].get("tokens")
        for scope, said in data["cells"][case.name][profile.name].get("scopes", {}).items():
            p50, p95 = p50_and_p95([alone[0] for cell in cells if (alone := _shared(result, [cell], scope))])
            at: tuple[str, ...] = ("cells", case.name, profile.name, "scopes", scope)
            rate = tokens / p50 if tokens else None
            again = {"p50_seconds": p50, "p95_seconds": p95, "tokens_per_second": rate}
            yield from _compare(said, again, place, at)
        if said := data["cells"][case.name][profile.name].get("sustained"):
            lasting = next(cell.sustained for cell in cells if cell.outcome == "measured" and cell.sustained)
            at = ("cells", case.name, profile.name, "sustained")
            yield from _compare(said, _sustained(lasting, case.flops), place, at)
    steps = {scope: _clock_step(result, scope) for scope in result.plan.scopes}
    for claim in result.plan.claims:
        for case_name, said in data["claims"][claim.name]["cases"].items():
            if claim.measure == "speedup" and "ratio" in said:
                anew = _speedup(result, claim, case_name, steps[claim.scope])
                at = ("claims", claim.name, "cases", case_name)
                yield from _compare(said, {"ratio": anew.ratio, "low": anew.low, "high": anew.high}, place, at)
                yield from _at_odds(said["status"], anew, claim.threshold, place, at)


def _sustained(lasting: Sustained, flops: int) -> dict[str, float | None]:
    """Of the batches after the middle; nothing where there are none."""
    settled = [
        second for number, second in enumerate(lasting.batch_seconds) if 2 * number + 1 >= len(lasting.batch_seconds)
    ]
    seconds = middle(settled) if settled else None
    return {"seconds": seconds, "flops_per_second": flops / seconds if seconds else None}


def _speedup(result: ExperimentResult, claim: PlannedClaim, case: str, step_seconds: float) -> Again:
    baseline, subject = (result.cells[case, name].cells for name in (claim.baseline, claim.subject))
    controls = result.controls.get(case, ())
    control = (0.0, 0.0)
    if controls:
        slow, fast, step = _paired(
            result, result.cells[case, controls[0].profile].cells, controls, claim.scope, step_seconds
        )
        if len(slow) > 1:
            control = centre_and_half_width(slow, fast, step)
    one_draw = claim.baseline in result.drawn_once or claim.subject in result.drawn_once
    slow, fast, step = _paired(result, baseline, subject, claim.scope, step_seconds)
    effects, floor = _effects(slow, fast), _session_floor(result, case)
    ratio, low, high = interval(slow, fast, step, floor, control, one_draw)
    return Again(
        ratio=ratio,
        low=low,
        high=high,
        deciding=deciding(ratio, low, high, len(slow)),
        by_ranks=by_ranks(effects, floor, control, one_draw),
        sweeps=(math.exp(min(effects)), math.exp(max(effects))),
    )


def _session_floor(result: ExperimentResult, case: str) -> float:
    planned = result.plan.case(case)
    if planned.flops <= FEW_OPERATIONS * planned.written_bytes:
        return SESSION_FLOOR
    told = [limited for watch in result.watches.get(case, ()) for each in watch.rounds
            if (limited := _at_power_limit(each)) is not None]  # fmt: skip
    return BUSY_SESSION_FLOOR if told and not any(told) else POWER_LIMITED_SESSION_FLOOR


def _at_power_limit(seen: Round) -> bool | None:
    """None where NVML told neither why the clock was low nor for how long."""
    spent = seen.violation_seconds.get("power")
    if seen.reasons is None and spent is None:
        return None
    reasons = seen.reasons or 0
    return bool(reasons & POWER_CAP) or (seen.seconds > 0 and (spent or 0.0) / seen.seconds > POWER_CAPPED_TIME_SHARE)


def _paired(
    result: ExperimentResult, baseline: Sequence[Timed], subject: Sequence[Timed], scope: str, step_seconds: float
) -> tuple[list[Sweep], list[Sweep], float]:
    """The sweeps of both that one process timed, and the clock's step in seconds a call."""
    of_process = {(timed.sweep, timed.process): timed for timed in subject}
    slow: list[Sweep] = []
    fast: list[Sweep] = []
    for timed in baseline:
        other = of_process.get((timed.sweep, timed.process))
        both = _shared(result, [timed, other], scope) if other else None
        if both:
            slow.append(both[0])
            fast.append(both[1])
    calls = [t.calls_per_sample for timed in (*baseline, *subject) if (t := _timing(timed, scope))]
    return slow, fast, step_seconds / min(calls, default=1)


def _shared(result: ExperimentResult, cells: Sequence[Timed], scope: str) -> list[Sweep] | None:
    """Of cells of one process the rounds that were not left out and in which each has a sample; None if too few."""
    timings = [_timing(cell, scope) for cell in cells]
    if not all(timings):
        return None
    rounds = [timing.rounds for timing in timings if timing]
    if len({len(blocks) for blocks in rounds}) != 1:
        return None
    first = cells[0]
    out = result.spoiled.rounds(first.sweep, first.process, first.experiment, first.case)
    planned = range(len(rounds[0]))
    kept = [n for n in planned if n not in out and all(blocks[n] for blocks in rounds)]
    if len(kept) < min(FEWEST_ROUNDS, len(planned)):
        return None
    return [[blocks[n] for n in kept] for blocks in rounds]


def _timing(cell: Timed, scope: str) -> Timing | None:
    return next((timing for timing in cell.timings if timing.scope == scope), None)


def _clock_step(result: ExperimentResult, scope: str) -> float:
    timings = (_timing(cell, scope) for result_cell in result.cells.values() for cell in result_cell.cells)
    steps = (smallest_step([timing.rounds]) * timing.calls_per_sample for timing in timings if timing)
    return min((step for step in steps if step), default=0.0)


def _compare(
    said: Mapping[str, Any], again: Mapping[str, float | None], place: str, at: Iterable[str]
) -> Iterator[Mismatch]:
    for name, value in again.items():
        published = said.get(name)
        near = published is None if value is None else published and math.isclose(published, value, rel_tol=ROUNDING)
        if not near:
            where = f"{place}#{pointer(*at, name)}"
            yield Mismatch(where, f"published is {published}, computed again it is {value}")


def _at_odds(status: str, again: Again, threshold: float, place: str, at: Iterable[str]) -> Iterator[Mismatch]:
    """A verdict that neither the interval that decides nor the ranks of the sweeps bear, and an open one where interval
    and sweeps decide, whatever the rules are in detail."""
    low, high = max(again.deciding[0], again.by_ranks[0]), min(again.deciding[1], again.by_ranks[1])
    supported = status == "supported" and low < threshold * (1 - ROUNDING)
    refuted = status == "refuted" and high > threshold * (1 + ROUNDING)
    above = again.deciding[0] > threshold * (1 + ROUNDING) and again.sweeps[0] >= threshold
    below = again.deciding[1] < threshold * (1 - ROUNDING) and again.sweeps[1] < threshold
    if supported or refuted or (status == "inconclusive" and (above or below)):
        contradiction = f"{status}, with {low} to {high} as what decides, against {threshold}"
        yield Mismatch(f"{place}#{pointer(*at, 'status')}", f"is {contradiction}")
