"""Times of one machine on two days."""

import random

import numpy as np
import pytest
import scipy

from lab.verdict.between_runs import shift
from lab.verdict.statistics import SMALLEST_HALF_WIDTH


def test_the_interval_is_welchs():
    older, newer = (1.0, 1.1, 0.9, 1.05, 0.98), (1.3, 1.2, 1.25, 1.4)
    interval = shift(older, newer)
    expected = scipy.stats.ttest_ind(np.log(newer), np.log(older), equal_var=False).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


def test_a_run_against_itself_has_not_moved():
    interval = shift((2e-5, 2.1e-5, 1.9e-5), (2e-5, 2.1e-5, 1.9e-5))
    assert interval is not None
    assert interval.ratio == pytest.approx(1)
    assert interval.low < 1 < interval.high


def test_the_other_way_round_it_is_the_reciprocal():
    older, newer = (1.0, 1.1, 0.9), (1.3, 1.2, 1.25, 1.4)
    there, back = shift(older, newer), shift(newer, older)
    assert there is not None
    assert back is not None
    assert (back.ratio, back.low, back.high) == pytest.approx((1 / there.ratio, 1 / there.high, 1 / there.low))


def test_sweeps_that_all_agree_have_the_narrowest_interval_that_is_allowed():
    interval = shift((1.0, 1.0), (2.0, 2.0))
    assert interval is not None
    assert interval.high / interval.ratio - 1 == pytest.approx(SMALLEST_HALF_WIDTH, rel=1e-3)


@pytest.mark.parametrize(("older", "newer"), [((1.0,), (1.0, 2.0)), ((1.0, 2.0), ())])
def test_one_sweep_has_no_interval(older, newer):
    assert shift(older, newer) is None


def test_the_interval_holds_no_change_about_as_often_as_it_says():
    dice = random.Random(7)
    hits = 0
    for _ in range(2000):
        older, newer = ([dice.lognormvariate(0, scale) for _ in range(5)] for scale in (0.01, 0.03))
        interval = shift(older, newer)
        assert interval is not None
        hits += interval.low <= 1 <= interval.high
    assert 0.93 < hits / 2000 < 0.98
