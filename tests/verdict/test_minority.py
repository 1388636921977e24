"""A few sweeps apart from all others."""

import math

import pytest

from lab.verdict.minority import minorities, minority

CALM = (1.10, 1.101, 1.099, 1.1, 1.102, 1.1)


@pytest.mark.parametrize(
    ("few", "sweeps", "apart"),
    [
        ((1.3, 1.3, 1.3), 3, math.log(1.3 / 1.1)),
        ((1.3, 1.1, 1.1), 1, math.log(1.3 / 1.1)),
        ((0.9, 1.1, 0.9), 2, math.log(0.9 / 1.1)),
        ((1.3, 0.7, 1.1), 1, math.log(0.7 / 1.1)),  # the farther one, from all others
    ],
)
def test_the_sweeps_behind_the_widest_gap_are_the_minority(few: tuple[float, ...], sweeps: int, apart: float) -> None:
    found = minority((*CALM, *few))
    assert found
    assert found.sweeps == sweeps
    assert found.apart == pytest.approx(apart, abs=0.03)


@pytest.mark.parametrize(
    "ratios",
    [
        (*CALM, 1.1, 1.1, 1.1),
        (*CALM, 1.115, 1.115, 1.115),  # apart by less than 2 %
        (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4),  # none is apart from all others
        (1.1, 1.1, 1.1, 1.1, 1.1, 1.3, 1.3, 1.3, 1.3),  # four of nine are no minority
    ],
)
def test_sweeps_that_are_not_apart_have_none(ratios: tuple[float, ...]) -> None:
    assert minority(ratios) is None


def test_comparisons_are_counted_by_side_and_number_of_sweeps() -> None:
    one, three, subject = (*CALM, 1.1, 1.1, 1.3), (*CALM, 1.4, 1.4, 1.4), (*CALM, 1.1, 1.1, 0.9)
    baselines, subjects = minorities([one, three, three, subject, (*CALM, 1.1, 1.1, 1.1)])
    assert (baselines.comparisons, baselines.by_sweeps) == (5, {1: 1, 3: 2})
    assert (subjects.comparisons, subjects.by_sweeps) == (5, {1: 1})
    assert baselines.apart_deciles[0] < baselines.apart_deciles[-1] == pytest.approx(math.log(1.4 / 1.1), abs=0.01)
    assert subjects.apart_deciles == pytest.approx([math.log(1.1 / 0.9)] * 10, abs=0.01)
    nothing, _ = minorities([])
    assert (nothing.comparisons, nothing.by_sweeps, nothing.apart_deciles) == (0, {}, ())
