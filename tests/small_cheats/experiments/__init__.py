"""The experiment of cheats at shapes that a CPU checks quickly. LAB_PROJECT names `tests/small_cheats`.

It is the lab's own experiment in all but the number of rows, on which no cheat depends, and in how long the cheats that
work beside others do so: a sweep here takes seconds, and half a second of such work is enough to be found.
"""

from dataclasses import replace
from pathlib import Path

from lab import Case, Claim

__path__ = [str(Path(__file__).parents[3] / "experiments")]  # the lab's modules, under their own names

from experiments.cheating_kernels import CHEATING_KERNELS
from experiments.cheats import shared_state

FEWER_ROWS = 8
shared_state.WORKING_SECONDS = 6.0


def smaller(case: Case) -> Case:
    rows, columns = case.shape
    return replace(case, shape=(max(1, rows // FEWER_ROWS), columns))


def with_smaller_cases(claim: Claim) -> Claim:
    return replace(claim, cases=tuple(SMALLER[case.name] for case in claim.cases))


SMALLER = {case.name: smaller(case) for case in CHEATING_KERNELS.cases}
CLAIMS = {claim.name: with_smaller_cases(claim) for claim in CHEATING_KERNELS.claims}
SMALL_CHEATS = replace(
    CHEATING_KERNELS, cases=tuple(SMALLER.values()), claims=tuple(CLAIMS.values()),
    headlines=tuple(CLAIMS[claim.name] for claim in CHEATING_KERNELS.headlines),
)  # fmt: skip
EXPERIMENTS = (SMALL_CHEATS,)
