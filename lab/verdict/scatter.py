"""How measurements scatter, as published runs showed it: the processes on which the rules are simulated.

A comparison's true ratio is the mean over boards, sessions, draws of an autotuner and modes; where a few compilations
are slow, it is the median over compilations. What one run sees of it is drawn here. The figures are over claims ×
cases, as `lab validity` prints them for the evidence that is named: deciles (5 %, 15 %, … 95 %) where nothing else is
said.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from lab.definition.plan import MOST_SWEEPS
from lab.verdict.widening import BUSY_SESSION_FLOOR, POWER_LIMITED_SESSION_FLOOR, SESSION_FLOOR

ROUNDS = 6
# Between sessions, in standard deviations of sweeps, and at least: norms-2026-11-21-a to -e. Of eager calls
# kernels-2026-11-22 and -23 show none beyond what sweeps show; with this little they would agree too.
SESSION_SHARE, EAGER_SESSION_SHARE, LEAST_SESSION = 0.41, 0.15, 0.001
# Standard deviation of the sweeps' log-ratios: all published runs of five sweeps or more.
FIXED = (0.0008, 0.0018, 0.0025, 0.0032, 0.0039, 0.0048, 0.0056, 0.0071, 0.0105, 0.0185)
COMPILED = (0.0013, 0.0020, 0.0028, 0.0038, 0.0055, 0.0065, 0.0083, 0.0111, 0.0170, 0.0560)
EAGER = (0.0518, 0.0575, 0.0695, 0.0737, 0.0843, 0.0938, 0.1048, 0.1134, 0.1172, 0.1563)
# Between three runs of one product, attention or decoding on three boards, beyond what sweeps explain: all that were
# seen, for the largest decide how often the rules err. By whether a board reached its power limit; the runs that
# lab/verdict/widening.py names.
BUSY_SESSIONS = (
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0001, 0.0002, 0.0003, 0.0005, 0.0007, 0.0007, 0.0008,
    0.0008, 0.0009, 0.0009, 0.0009, 0.0009, 0.0010, 0.0011, 0.0011, 0.0011, 0.0012, 0.0012, 0.0013, 0.0013, 0.0014,
    0.0014, 0.0015, 0.0016, 0.0016, 0.0018, 0.0018, 0.0018, 0.0019, 0.0019, 0.0020, 0.0020, 0.0021, 0.0022, 0.0023,
    0.0025, 0.0027, 0.0031, 0.0032, 0.0032, 0.0032, 0.0035, 0.0037, 0.0043, 0.0043, 0.0047, 0.0055, 0.0061, 0.0080,
    0.0085, 0.0117, 0.0131,
)  # fmt: skip
POWER_LIMITED_SESSIONS = (
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0004, 0.0006, 0.0006, 0.0007, 0.0007, 0.0007, 0.0008,
    0.0008, 0.0009, 0.0011, 0.0013, 0.0016, 0.0016, 0.0016, 0.0018, 0.0018, 0.0018, 0.0024, 0.0025, 0.0026, 0.0030,
    0.0032, 0.0035, 0.0039, 0.0041, 0.0048, 0.0050, 0.0052, 0.0053, 0.0054, 0.0058, 0.0059, 0.0059, 0.0061, 0.0064,
    0.0070, 0.0071, 0.0074, 0.0078, 0.0088, 0.0093, 0.0094, 0.0101, 0.0116, 0.0134, 0.0151, 0.0252,
)  # fmt: skip
# Difference of a compiled cell between two runs with a cache each, over the root of two: kernels-2026-11-22 and -23.
DRAWS = (0.0003, 0.0007, 0.0017, 0.0032, 0.0061, 0.0096, 0.0150, 0.0399, 0.0725, 0.1554)
FIVE_CACHES = (0.10,)  # five fresh caches in one session on one H100, max-autotune: 10.3 % root mean square
# Code that is compiled in each of nine sweeps, and has a slower kernel in a few of them: in which share, and by how
# much. The baseline had in 120 of 410 comparisons, the subject in 21: all runs with nine caches up to 2026-11-27.
SLOW_SHARES = (1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 2 / 9, 2 / 9, 3 / 9, 3 / 9, 3 / 9)
SLOW_BASELINES = (0.047, 0.062, 0.077, 0.104, 0.147, 0.206, 0.224, 0.272, 0.325, 0.464)
SLOW_SUBJECTS = (-0.068, -0.075, -0.087, -0.097, -0.121, -0.196, -0.215, -0.233, -0.255, -0.341)
# Cells of fixed kernels with two modes: how far apart, and which share of the processes has the rarer one.
MODE_GAPS = (0.008, 0.010, 0.012, 0.015)
MODE_SHARES = (0.1, 0.2, 0.3, 0.4)
# Median of the standard deviation of nine values of Student's distribution, by its degrees of freedom.
USUAL_DEVIATION = {3.0: 1.32, 4.0: 1.21, 8.0: 1.07}
NEAR_ENOUGH = 1e-6  # of a logarithm


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """`draws`: of an autotuner, one a run, or one a sweep where `fresh_caches`. `drift`: over the run, in spreads.
    `slow`: what a few compilations, of one of `SLOW_SHARES`, add to the ratio's logarithm. `freedom`: of Student's
    distribution, whose tails sweeps have instead of the normal one's."""

    name: str
    spreads: tuple[float, ...]
    draws: tuple[float, ...] = ()
    fresh_caches: bool = False
    slow: tuple[float, ...] = ()
    two_modes: bool = False
    drift: float = 0.0
    freedom: float = math.inf
    session_share: float = SESSION_SHARE
    sessions: tuple[float, ...] = (LEAST_SESSION,)  # how far they differ at least
    session_floor: float = SESSION_FLOOR  # what the judge takes them to differ by at least


PROCESSES = (
    Process(name="fixed kernels", spreads=FIXED),
    Process(name="fixed kernels, heavy tails", spreads=FIXED, freedom=4.0),
    Process(name="fixed kernels, drift over the run", spreads=FIXED, drift=2.0),
    Process(name="fixed kernels, two modes", spreads=FIXED, two_modes=True),
    Process(
        name="fixed kernels, products and attention",
        spreads=FIXED,
        sessions=BUSY_SESSIONS,
        session_floor=BUSY_SESSION_FLOOR,
    ),
    Process(
        name="fixed kernels, at the power limit",
        spreads=FIXED,
        sessions=POWER_LIMITED_SESSIONS,
        session_floor=POWER_LIMITED_SESSION_FLOOR,
    ),
    Process(name="torch.compile, one cache", spreads=COMPILED, freedom=8.0, draws=DRAWS),
    Process(name="torch.compile, fresh caches", spreads=COMPILED, freedom=8.0, draws=DRAWS, fresh_caches=True),
    Process(
        name="torch.compile, fresh caches, 10 % apart",
        spreads=COMPILED,
        freedom=8.0,
        draws=FIVE_CACHES,
        fresh_caches=True,
    ),
    Process(
        name="torch.compile, fresh caches, slow baselines",
        spreads=COMPILED,
        freedom=8.0,
        slow=SLOW_BASELINES,
        fresh_caches=True,
    ),
    Process(
        name="torch.compile, fresh caches, slow subjects",
        spreads=COMPILED,
        freedom=8.0,
        slow=SLOW_SUBJECTS,
        fresh_caches=True,
    ),
    Process(name="eager", spreads=EAGER, freedom=3.0, session_share=EAGER_SESSION_SHARE),
)
Logs = NDArray[np.float64]  # by sweep and round


def run_of(process: Process, truth: float, dice: np.random.Generator) -> Logs:
    """Logarithms of a comparison's ratio in one run, by sweep and round, where the true ratio is `truth`."""
    spread = float(dice.choice(process.spreads))
    logs = np.full(MOST_SWEEPS, math.log(truth))
    logs += dice.normal(0.0, max(dice.choice(process.sessions), process.session_share * spread))
    logs += spread * _tails(process.freedom, dice)
    if process.draws:
        logs += dice.normal(0.0, dice.choice(process.draws), MOST_SWEEPS if process.fresh_caches else 1)
    if process.slow:
        logs += _slow_in_a_few(process, spread, dice)
    if process.drift:
        logs += dice.choice((-1, 1)) * process.drift * spread * np.linspace(-0.5, 0.5, MOST_SWEEPS)
    if process.two_modes:
        logs += _second_mode(dice)
    return np.asarray(logs[:, None] + dice.normal(0.0, spread, (MOST_SWEEPS, ROUNDS)) / math.sqrt(ROUNDS))


def control_of(process: Process, dice: np.random.Generator) -> Logs:
    """The same of the A/A control: one code, in one session."""
    spread = float(dice.choice(process.spreads))
    logs = spread * _tails(process.freedom, dice)
    return np.asarray(logs[:, None] + dice.normal(0.0, spread, (MOST_SWEEPS, ROUNDS)) / math.sqrt(ROUNDS))


def _tails(freedom: float, dice: np.random.Generator) -> NDArray[np.float64]:
    """As many values as sweeps, whose standard deviation is 1 in half of all runs and less in the others."""
    if math.isinf(freedom):
        return dice.normal(size=MOST_SWEEPS)
    return dice.standard_t(freedom, MOST_SWEEPS) / USUAL_DEVIATION[freedom]


def _slow_in_a_few(process: Process, spread: float, dice: np.random.Generator) -> NDArray[np.float64]:
    """What slow compilations add, less what they move the median of all compilations by."""
    share, apart = float(dice.choice(SLOW_SHARES)), float(dice.choice(process.slow))
    scale = spread / USUAL_DEVIATION[process.freedom]
    return np.asarray(apart * (dice.random(MOST_SWEEPS) < share) - _median(share, apart, scale, process.freedom))


@functools.cache
def _median(share: float, apart: float, scale: float, freedom: float) -> float:
    """Of a mixture of Student's distribution and, by `share`, the same distribution shifted by `apart`."""
    low, high = min(0.0, apart), max(0.0, apart)
    while high - low > NEAR_ENOUGH:
        middle = (low + high) / 2
        below = (1 - share) * stdtr(freedom, middle / scale) + share * stdtr(freedom, (middle - apart) / scale)
        low, high = (middle, high) if below < 0.5 else (low, middle)
    return (low + high) / 2


def _second_mode(dice: np.random.Generator) -> NDArray[np.float64]:
    """Some processes are slower, on one of the two sides; the mean over processes is nothing."""
    share, gap = dice.choice(MODE_SHARES), dice.choice(MODE_GAPS) * dice.choice((-1, 1))
    return np.asarray(gap * ((dice.random(MOST_SWEEPS) < share) - share))
