"""The experiment of cheats at shapes that a CPU checks quickly. LAB_PROJECT names `tests/small_cheats`.

It is the lab's own experiment in all but the number of rows: no cheat depends on that.
"""

from dataclasses import replace
from pathlib import Path

from lab import Case, Claim

__path__ = [str(Path(__file__).parents[3] / "experiments")]  # the lab's modules, under their own names

from experiments.cheating_kernels import CHEATING_KERNELS

FEWER_ROWS = 8


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
