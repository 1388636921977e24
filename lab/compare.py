"""Pairs what one process measured of two profiles, round by round, without the spoiled rounds. Pure."""

from collections.abc import Sequence

from lab.record import Cell, Control, Timing
from lab.spoiled import Spoiled
from lab.statistics import Rounds, Speedup, Split, speedup, split

FEWEST_ROUNDS = 4  # of a sweep; with fewer left of those that were planned, the sweep tells nothing
Timed = Cell | Control


def speedup_between(
    baseline: Sequence[Timed], subject: Sequence[Timed], scope: str, spoiled: Spoiled
) -> Speedup | None:
    """Speed-up over the sweeps in which one process timed both in this scope."""
    paired = [
        (b_rounds, s_rounds)
        for b, s in _pairs(baseline, subject)
        if (b_rounds := rounds_of(b, scope, spoiled)) is not None
        and (s_rounds := rounds_of(s, scope, spoiled)) is not None
        and len(b_rounds) == len(s_rounds)
    ]
    return speedup([pair[0] for pair in paired], [pair[1] for pair in paired]) if paired else None


def split_between(baseline: Sequence[Cell], subject: Sequence[Cell], spoiled: Spoiled) -> Split | None:
    """How much of the speed-up that an eager caller sees is the device's, and how much the launch's."""
    found = []
    for b, s in _pairs(baseline, subject):
        sides = [rounds_of(cell, scope, spoiled) for scope in ("eager", "graph") for cell in (b, s)]
        if all(rounds is not None for rounds in sides) and len({len(rounds or ()) for rounds in sides}) == 1:
            found.append(sides)
    if not found:
        return None
    eager_baseline, eager_subject, graph_baseline, graph_subject = zip(*found, strict=True)
    return split((eager_baseline, eager_subject), (graph_baseline, graph_subject))


def rounds_of(timed: Timed, scope: str, spoiled: Spoiled) -> Rounds | None:
    """The rounds of a cell in a scope that count; None where too few do, or none were timed."""
    timing = timing_of(timed, scope)
    if timing is None:
        return None
    out = spoiled.rounds(timed.sweep, timed.process, timed.experiment, timed.case)
    kept = [block for number, block in enumerate(timing.rounds) if number not in out]
    return kept if len(kept) >= min(FEWEST_ROUNDS, len(timing.rounds)) else None


def timing_of(timed: Timed, scope: str) -> Timing | None:
    return next((timing for timing in timed.timings if timing.scope == scope), None)


def _pairs(baseline: Sequence[Timed], subject: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """A profile may be measured again in another process of the same sweep: only one process's times compare."""
    by_process = {(timed.sweep, timed.process): timed for timed in subject}
    return [(b, by_process[b.sweep, b.process]) for b in baseline if (b.sweep, b.process) in by_process]
