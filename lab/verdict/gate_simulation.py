"""How often the gate errs, on pairs of simulated runs of which it is known what became slower. Pure.

The processes are those on which the rules of verdicts are simulated. Both runs of a pair have one spread, for they
measure one kernel; each has a session of its own.
"""

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lab.definition.plan import MOST_SWEEPS
from lab.verdict.gate import USUAL_LIMIT, Outcome, change_between
from lab.verdict.scatter import PROCESSES, Process, control_of, run_of
from lab.verdict.statistics import SMALLEST_HALF_WIDTH, Speedup, over_sweeps
from lab.verdict.widening import widened

SPEEDUP = 1.2  # of the older run; only what the newer lost of it counts
FALSE_ALARMS, FOUND = 0.01, 0.95  # the goals: at most, and at least
PUBLISHED = "fixed kernels"  # the process that the goals are for: noise as published runs had it, nothing compiled anew


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRow:
    """What the gate said of so many pairs of runs of so many sweeps, of which the newer was slower by `slowdown`."""

    process: str
    slowdown: float
    sweeps: int
    pairs: int
    regressions: int
    fine: int

    @property
    def missed_goal(self) -> bool:
        if self.process != PUBLISHED or self.sweeps < MOST_SWEEPS:
            return False
        if self.slowdown:
            return self.regressions < FOUND * self.pairs
        return self.regressions > FALSE_ALARMS * self.pairs


def simulate_gate(pairs: int, seed: int) -> Iterator[GateRow]:
    """The same seed gives the same rows."""
    for process in PROCESSES:
        for sweeps in (5, MOST_SWEEPS):
            for slowdown in (0.0, USUAL_LIMIT):
                yield gate_row(process, slowdown, sweeps, pairs, seed)


def gate_row(process: Process, slowdown: float, sweeps: int, pairs: int, seed: int) -> GateRow:
    said: Counter[Outcome] = Counter()
    for number in range(pairs):
        dice = np.random.default_rng((seed, zlib.crc32(process.name.encode()), round(slowdown * 10_000), number))
        of_kernel = replace(process, spreads=(float(dice.choice(process.spreads)),))
        older, newer = (measured(of_kernel, truth, sweeps, dice) for truth in (SPEEDUP, SPEEDUP / (1 + slowdown)))
        said[change_between(older, newer, USUAL_LIMIT).outcome] += 1
    return GateRow(
        process=process.name, slowdown=slowdown, sweeps=sweeps, pairs=pairs, regressions=said[Outcome.REGRESSION],
        fine=said[Outcome.FINE],
    )  # fmt: skip


def measured(process: Process, truth: float, sweeps: int, dice: np.random.Generator) -> Speedup:
    speedup, control = (
        over_sweeps(list(logs[:sweeps]), SMALLEST_HALF_WIDTH)
        for logs in (run_of(process, truth, dice), control_of(process, dice))
    )
    assert speedup, "so many sweeps have an interval"
    return widened(speedup, process.session_floor, control, bool(process.draws) and not process.fresh_caches)
