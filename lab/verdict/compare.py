"""Pairs the samples of two profiles in one process, round by round, without the excluded rounds. Pure."""

from collections.abc import Collection, Sequence

from lab.evidence.record import Cell, Control, Timing
from lab.evidence.samples import PackedRounds
from lab.verdict.excluded_rounds import ExcludedRounds
from lab.verdict.statistics import Rounds, Speedup, Split, quantum, speedup, split

FEWEST_ROUNDS = 4  # of a sweep, with samples; with fewer left of those that were planned, it tells nothing
Timed = Cell | Control


def speedup_between(
    baseline: Sequence[Timed], subject: Sequence[Timed], scope: str, spoiled: ExcludedRounds, step_seconds: float = 0.0
) -> Speedup | None:
    """Speed-up over the sweeps in which one process timed both in this scope, with a clock of this step."""
    pairs = [sides for b, s in _pairs(baseline, subject) if (sides := _together([(b, scope), (s, scope)], spoiled))]
    if not pairs:
        return None
    calls = min(fewest_calls(baseline, scope), fewest_calls(subject, scope))
    return speedup([sides[0] for sides in pairs], [sides[1] for sides in pairs], step_seconds / calls)


def compared_processes(
    baseline: Sequence[Timed], subject: Sequence[Timed], scope: str, spoiled: ExcludedRounds
) -> list[tuple[int, str]]:
    """(sweep, process) of each ratio of `speedup_between`, in the order of its sweeps."""
    pairs = _pairs(baseline, subject)
    return [(b.sweep, b.process) for b, s in pairs if _together([(b, scope), (s, scope)], spoiled)]


def clock_step_seconds(timed: Sequence[Timed], scope: str) -> float:
    """The clock's step as the samples of many cells show it; 0 where no two of a cell differ."""
    timings = [timing for each in timed if (timing := timing_of(each, scope))]
    return min((step for t in timings if (step := quantum([t.rounds]) * t.calls_per_sample)), default=0.0)


def fewest_calls(timed: Sequence[Timed], scope: str) -> int:
    """The calls that a sample of this scope holds, in the sweep that held fewest."""
    return min(timing.calls_per_sample for each in timed if (timing := timing_of(each, scope)))


def split_between(baseline: Sequence[Cell], subject: Sequence[Cell], spoiled: ExcludedRounds) -> Split | None:
    """How much of the speed-up that an eager caller sees is the device's, and how much the launch's."""
    pairs = []
    for b, s in _pairs(baseline, subject):
        if sides := _together([(cell, scope) for scope in ("eager", "graph") for cell in (b, s)], spoiled):
            pairs.append(sides)
    if not pairs:
        return None
    eager_baseline, eager_subject, graph_baseline, graph_subject = zip(*pairs, strict=True)
    return split((eager_baseline, eager_subject), (graph_baseline, graph_subject))


def rounds_of(timed: Timed, scope: str, spoiled: ExcludedRounds) -> Rounds | None:
    """The rounds of a cell in a scope that count; None where too few do, or none were timed."""
    sides = _together([(timed, scope)], spoiled)
    return sides[0] if sides else None


def void_samples(timed: Timed, scope: str, spoiled: ExcludedRounds) -> int:
    """How many samples were void in the rounds that were not left out."""
    timing = timing_of(timed, scope)
    out = spoiled.rounds(timed.sweep, timed.process, timed.experiment, timed.case)
    return sum(count for number, count in enumerate(timing.void) if number not in out) if timing else 0


def timing_of(timed: Timed, scope: str) -> Timing | None:
    for timing in timed.timings:
        if timing.scope == scope:
            return timing
    return None


def _together(timed: Sequence[tuple[Timed, str]], spoiled: ExcludedRounds) -> list[Rounds]:
    """Of (cell, scope) pairs of one process and case: the rounds in which every one has a sample; none if too few."""
    timings = [timing_of(cell, scope) for cell, scope in timed]
    rounds = [timing.rounds for timing in timings if timing]
    planned = {len(blocks) for blocks in rounds}
    if len(rounds) < len(timed) or len(planned) != 1:
        return []
    cell = timed[0][0]
    out = spoiled.rounds(cell.sweep, cell.process, cell.experiment, cell.case).union(*map(_empty, rounds))
    if not out:
        return list(rounds)
    kept = [number for number in range(*planned) if number not in out]
    if len(kept) < min(FEWEST_ROUNDS, *planned):
        return []
    return [[blocks[number] for number in kept] for blocks in rounds]


def _empty(rounds: Rounds) -> Collection[int]:
    """The numbers of rounds without a sample."""
    return rounds.empty if isinstance(rounds, PackedRounds) else [n for n, block in enumerate(rounds) if not block]


def _pairs(baseline: Sequence[Timed], subject: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """The cells of both that one process measured: times of different processes do not compare."""
    by_process = {(timed.sweep, timed.process): timed for timed in subject}
    return [(b, by_process[b.sweep, b.process]) for b in baseline if (b.sweep, b.process) in by_process]
