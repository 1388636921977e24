"""How often alarms err, on simulated months of nightly runs of which it is known what changed. Pure.

The processes are those on which the rules of verdicts are simulated. All nights of a month measure one kernel on one
board, and so have one spread; each is a session of its own.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lab.verdict.alarm import MOST_RUNS, Night, Series, followed, past_of
from lab.verdict.gate_simulation import PUBLISHED, SPEEDUP, measured
from lab.verdict.scatter import MOST_SWEEPS, PROCESSES, Process

STEP = 0.03
NIGHTS = MOST_RUNS + 30  # of a quiet series; false alarms are counted from the night on that has a full past
FALSE_ALARMS, FOUND = 1e-4, 0.95  # the goals, for noise as published runs had it: a case-night at most, and at least
NO_SERIES = Series(gpu="", board="", experiment="", claim="", case="", subject="", baseline="", scope="")


@dataclass(frozen=True, kw_only=True, slots=True)
class AlarmRow:
    """Of so many series: false alarms over their quiet nights, and how many showed a step of 3 % after two nights."""

    process: str
    series: int
    case_nights: int
    false_alarms: int
    steps_found: int

    @property
    def missed_goal(self) -> bool:
        if self.process != PUBLISHED:
            return False
        return self.false_alarms > FALSE_ALARMS * self.case_nights or self.steps_found < FOUND * self.series


def simulate_alarms(series: int, seed: int) -> Iterator[AlarmRow]:
    """The same seed gives the same rows. CPU time: about 15 ms for each series of each process."""
    for process in PROCESSES:
        rows = [_series(process, seed, number) for number in range(series)]
        yield AlarmRow(
            process=process.name, series=series, case_nights=series * (NIGHTS - MOST_RUNS),
            false_alarms=sum(alarms for alarms, _ in rows), steps_found=sum(step for _, step in rows),
        )  # fmt: skip


def _series(process: Process, seed: int, number: int) -> tuple[int, bool]:
    """False alarms over quiet nights, and whether a step at their end is found by the second run that has it."""
    dice = np.random.default_rng((seed, zlib.crc32(process.name.encode()), number))
    of_kernel = replace(
        process,
        spreads=(float(dice.choice(process.spreads)),),
        draws=(float(dice.choice(process.draws)),) if process.draws else (),
    )
    nights = [_night(of_kernel, SPEEDUP, night, dice) for night in range(NIGHTS)]
    first, second = (_night(of_kernel, SPEEDUP / (1 + STEP), NIGHTS + night, dice) for night in range(2))
    late = [alarm for alarm in followed(NO_SERIES, nights).alarms if int(alarm.confirmed_by) >= MOST_RUNS]
    past = past_of(nights)
    assert past, "a full past"
    return len(late), past.changed(first, second) and math.log(first.ratio / past.ratio) < 0


def _night(process: Process, truth: float, number: int, dice: np.random.Generator) -> Night:
    speedup = measured(process, truth, MOST_SWEEPS, dice)
    return Night(run=str(number), ratio=speedup.ratio, low=speedup.low, high=speedup.high)
