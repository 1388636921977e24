"""The interval of one run, widened to hold on any board of the GPU model. Pure; the constants stand here only.

Within a run the interval is Student's over sweeps. It says nothing about what all sweeps of the run share: the board,
the session, and, where one compiler cache served all sweeps, the one configuration that the autotuner chose.
"""

import math
from dataclasses import replace

import numpy as np

from lab.definition.plan import Plan, PlannedCase, PlannedExperiment
from lab.verdict.statistics import HalfWidths, Speedup

NORMAL_QUANTILE = 1.96
RECOMPILES_SINCE = 5  # schema of the plans that say which profiles are compiled at run time
COMPILED = "torch.compile"
FEW_OPERATIONS = 100.0  # floating-point operations a byte written, at most: norms and activations have 8, products 500
# Standard deviations of the logarithm of a ratio. `lab validity` estimates them again from any repeated runs.
SESSION_SHARE = 0.40
SESSION_FLOOR = 0.0015  # of cases of few operations for each result
BUSY_SESSION_FLOOR = 0.0050  # of all others, as matrix products and attention are
POWER_LIMITED_SESSION_FLOOR = 0.0080  # of these, where the board reaches its power limit: each finds its own clock
DRAW_SPREAD = 0.10
SESSION_SOURCE = (
    "Five runs of one code on four H100 boards (norms-2026-11-21-a to -e): with it 95 % of the differences between two "
    "runs' ratios hold zero, for profiles that are not compiled at run time."
)
BUSY_SESSION_SOURCE = (
    "Repeated runs of one source: of matrix products, attention and decoding on eight H200 boards, and of attention on "
    "five H100 boards (h200-tiling, -products, -attention, -decode, h200-repeat-products and -decode, h100-attention, "
    "of November 2026). Beyond what sweeps explain, ratios scatter between runs by 0.61 % (standard deviation) at ten "
    "cases where a board reached its power limit, and by 0.30 % at 19 others; those of norms, RoPE and activations by "
    "0.10 %. The values taken are larger, because some comparisons scatter by several times that: with "
    "them the simulation, which draws from all that were seen, meets its goals. No H100 had repeats of products or "
    "decoding then; an H100 was taken to be like an H200 there. Their repeats on four H100 boards since scatter less: "
    "by 0.52 % at six cases where a board reached its power limit, and by 0.15 % at twelve others. Where NVML does not "
    "tell whether the limit was reached, the larger value is taken. The Trust page counts the same runs."
)
DRAW_SOURCE = (
    "torch.compile with max-autotune on one H100: five fresh caches in one session differed by 10.3 % (root mean "
    "square), and kernels-2026-11-22 from kernels-2026-11-23, each with one cache, by as much."
)


def profiles_drawn_once(plan: Plan, experiment: PlannedExperiment) -> frozenset[str]:
    """The profiles that are compiled or autotuned at run time, where all sweeps of the run shared one cache.

    Plans from before schema 5 do not say which are; there those that name torch.compile as their technique are meant.
    """
    if plan.protocol.fresh_caches:
        return frozenset()
    return frozenset(
        profile.name
        for profile in experiment.profiles
        if profile.recompiles or (plan.schema < RECOMPILES_SINCE and COMPILED in profile.technique)
    )


def session_floor(case: PlannedCase, power_limited: bool) -> float:
    """The least standard deviation between sessions at a case, given whether the board reached its power limit."""
    if case.flops <= FEW_OPERATIONS * case.written_bytes:
        return SESSION_FLOOR
    return POWER_LIMITED_SESSION_FLOOR if power_limited else BUSY_SESSION_FLOOR


def widened(speedup: Speedup, floor: float, control: Speedup | None = None, one_draw: bool = False) -> Speedup:
    """`speedup`, not widened yet, with the interval that holds on any board of the GPU model.

    `floor`: the `session_floor` of its case. `control`: a profile over itself at the same case, as its run has it.
    `one_draw`: a side is compiled or autotuned at run time, and all sweeps used what came out once.
    """
    widths = HalfWidths(
        run=math.log(speedup.high / speedup.low) / 2,
        sessions=NORMAL_QUANTILE * max(floor, SESSION_SHARE * _spread(speedup)),
        least_sessions=NORMAL_QUANTILE * floor,
        draws=NORMAL_QUANTILE * DRAW_SPREAD if one_draw else 0.0,
        control=_excess(control) if control else 0.0,
    )
    low, high = speedup.ratio * math.exp(-widths.whole), speedup.ratio * math.exp(widths.whole)
    return replace(speedup, low=low, high=high, widths=widths)


def _spread(speedup: Speedup) -> float:
    """Standard deviation of the sweeps' logarithms."""
    return float(np.std(np.log(speedup.sweep_ratios), ddof=1))


def _excess(control: Speedup) -> float:
    return max(0.0, abs(math.log(control.ratio)) - math.log(control.high / control.low) / 2)
