"""Comparisons whose truth is known, judged by the real rules: how often these err, and how often they decide. Pure.

Each comparison has sweeps, rounds and a control, gets more sweeps as the supervisor would give them, an interval from
`over_sweeps` and `widened`, and a verdict from `judge_case`. What else its experiment has makes no
difference to the judging.
"""

import zlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.plan import MOST_SWEEPS
from lab.definition.planning import make_protocol
from lab.verdict.judge import FULL_SWEEPS, Side, Status, Verdict, judge_case
from lab.verdict.precision import wants_another
from lab.verdict.scatter import Logs, Process, control_of, run_of
from lab.verdict.statistics import SMALLEST_HALF_WIDTH, Latency, Speedup, over_sweeps
from lab.verdict.widening import widened

JUST_BELOW, JUST_ABOVE = USUAL_THRESHOLD - 0.0001, USUAL_THRESHOLD + 0.0001
TRUTHS = (JUST_BELOW, JUST_ABOVE, 1.0, 1.2, 5.5)
TARGET = make_protocol(FULL_SWEEPS, "cuda").target_half_width
CALM = Side(
    outcome="measured", reason="", void_share=0.0,
    latency=Latency(p50_seconds=2e-5, p95_seconds=2.1e-5, sweep_p50_seconds=(2e-5,), samples=600),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedVerdicts:
    """Verdicts of one process at one true ratio, counted over comparisons."""

    process: str
    truth: float
    comparisons: int
    supported: int
    refuted: int
    sweeps: int  # measured in all

    @property
    def false(self) -> int:
        return self.supported if self.truth < USUAL_THRESHOLD else self.refuted

    @property
    def decided(self) -> int:
        return self.supported + self.refuted


def simulate(process: Process, truth: float, comparisons: int, seed: int) -> SimulatedVerdicts:
    """So many comparisons of one process. The same seed gives the same row; fewer are the first ones of more."""
    statuses: Counter[Status] = Counter()
    sweeps = 0
    for number in range(comparisons):
        dice = np.random.default_rng((seed, zlib.crc32(process.name.encode()), round(truth * 10_000), number))
        verdict = _verdict(process, truth, dice)
        statuses[verdict.status] += 1
        sweeps += len(verdict.speedup.sweep_ratios) if verdict.speedup else 0
    return SimulatedVerdicts(
        process=process.name,
        truth=truth,
        comparisons=comparisons,
        supported=statuses[Status.SUPPORTED],
        refuted=statuses[Status.REFUTED],
        sweeps=sweeps,
    )


def _verdict(process: Process, truth: float, dice: np.random.Generator) -> Verdict:
    logs, control = run_of(process, truth, dice), control_of(process, dice)
    sweeps = MOST_SWEEPS if process.fresh_caches else FULL_SWEEPS
    while sweeps < MOST_SWEEPS and wants_another(
        widened(_speedup(logs, sweeps), process.session_floor, _speedup(control, sweeps)), USUAL_THRESHOLD, TARGET
    ):
        sweeps += 1
    one_draw = bool(process.draws) and not process.fresh_caches
    same = _speedup(control, sweeps)
    speedup = widened(_speedup(logs, sweeps), process.session_floor, same, one_draw)
    return judge_case(CALM, CALM, speedup, USUAL_THRESHOLD, same)


def _speedup(logs: Logs, sweeps: int) -> Speedup:
    speedup = over_sweeps(list(logs[:sweeps]), SMALLEST_HALF_WIDTH)
    assert speedup, "five sweeps have an interval"
    return speedup
