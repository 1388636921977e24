"""Samples → percentiles and intervals, against numbers worked out by hand and by simulation."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from lab.verdict.statistics import (
    SMALLEST_HALF_WIDTH,
    Speedup,
    geometric_mean,
    latency,
    per_cent,
    quantum,
    speedup,
    t_half_width,
    typical_interval,
)

Sweeps = list[list[list[float]]]


def flat(medians: Sequence[float], rounds: int = 6, block: int = 10) -> Sweeps:
    """Sweeps whose samples are all equal within the sweep."""
    return [[[median] * block for _ in range(rounds)] for median in medians]


def scaled(sweeps: Sweeps, factor: float) -> Sweeps:
    return [[[second * factor for second in block] for block in rounds] for rounds in sweeps]


def compared(baseline: Sweeps, subject: Sweeps) -> Speedup:
    result = speedup(baseline, subject)
    assert result is not None
    return result


# latency


def test_p50_is_the_median_of_the_sweeps_medians() -> None:
    """Pooled, the median would be 3: the sweep, not the sample, is the unit."""
    sweeps = [[[1.0, 1.0, 1.0]], [[2.0, 2.0, 2.0]], [[3.0] * 30]]
    summary = latency(sweeps)
    assert summary is not None
    assert summary.p50_seconds == 2.0
    assert summary.sweep_p50_seconds == (1.0, 2.0, 3.0)
    assert summary.samples == 36
    assert summary.between_sweep_spread == 2.0


def test_p95_and_the_noise_ratio_are_taken_over_all_samples() -> None:
    seconds = [float(i) for i in range(1, 101)]
    summary = latency([[seconds[:50]], [seconds[50:]]])
    assert summary is not None
    assert summary.p95_seconds == pytest.approx(95.05)
    assert summary.noise_ratio == pytest.approx(95.05 / 50.5)


@pytest.mark.parametrize(("samples", "given"), [(99, False), (100, True)])
def test_p95_is_refused_below_100_samples(samples: int, given: bool) -> None:
    summary = latency([[[1.0] * samples]])
    assert summary is not None
    assert (summary.p95_seconds is not None) is given
    assert (summary.noise_ratio is not None) is given


def test_sweeps_without_a_sample_do_not_count() -> None:
    summary = latency([[[], []], [[1.0], []]])
    assert summary is not None
    assert summary.sweep_p50_seconds == (1.0,)


def test_without_a_sample_there_is_no_latency() -> None:
    assert latency([]) is None
    assert latency([[[], []]]) is None


# speed-up


def test_three_sweeps_use_the_t_quantile_of_two_degrees_of_freedom() -> None:
    """t(0.975, 2) = 4.303; of the values 1, 2, 3 the deviation is 1 and its root of three below."""
    assert t_half_width(np.array([1.0, 2.0, 3.0])) == pytest.approx(4.302653 / math.sqrt(3))


def test_five_sweeps_use_the_t_quantile_of_four_degrees_of_freedom() -> None:
    assert t_half_width(np.array([1.0, 1, 1, 1, 6])) == pytest.approx(2.776445 * math.sqrt(5) / math.sqrt(5))


def test_the_ratio_and_its_interval_as_worked_out_by_hand() -> None:
    """Sweep ratios 1.9, 2.0, 2.1: logs 0.641854, 0.693147, 0.741937, mean 0.692313, deviation 0.050047."""
    result = compared(flat([1.9, 2.0, 2.1]), flat([1.0, 1.0, 1.0]))
    assert result.sweep_ratios == pytest.approx((1.9, 2.0, 2.1))
    assert result.ratio == pytest.approx(1.998332, rel=1e-5)
    half_width = 4.302653 * 0.050047 / math.sqrt(3)
    assert result.low == pytest.approx(1.998332 / math.exp(half_width), rel=1e-4)
    assert result.high == pytest.approx(1.998332 * math.exp(half_width), rel=1e-4)


def test_a_sweeps_effect_is_the_mean_over_its_rounds_of_the_log_ratio_of_medians() -> None:
    baseline = [[[4.0, 4.0, 90.0], [1.0, 1.0, 1.0]]] * 2
    subject = [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]] * 2
    assert compared(baseline, subject).sweep_ratios == pytest.approx((2.0, 2.0))


def test_a_slowdown_of_a_whole_round_hits_both_sides_and_cancels() -> None:
    steady, slow = [2.0] * 10, [2.2] * 10
    baseline = [[steady, slow, steady]] * 3
    subject = scaled(baseline, 0.5)
    result = compared(baseline, subject)
    assert result.ratio == pytest.approx(2.0)


def test_still_samples_never_give_an_interval_narrower_than_a_thousandth() -> None:
    """Steps of a millionth, so that it is not the timer's step that widens it."""
    still = [[[1.0] * 9 + [1.000001]] * 6] * 5
    result = compared(scaled(still, 2.0), still)
    assert result.half_width == pytest.approx(math.expm1(SMALLEST_HALF_WIDTH), rel=1e-6)
    assert result.low < result.ratio < result.high


def test_a_coarse_timer_is_never_more_exact_than_its_step() -> None:
    """Steps of 32 ns at 1 µs: the medians agree to the last digit, and yet nobody knows it within a per cent."""
    step = 32e-9
    blocks = [[32 * step] * 9 + [33 * step]] * 6
    result = compared([blocks] * 5, [blocks] * 5)
    assert result.ratio == 1.0
    assert result.half_width == pytest.approx(0.78 / 32, rel=0.02)
    assert result.floor == pytest.approx(result.half_width)


def test_times_that_never_move_are_no_more_exact_than_the_timer_is_known_to_be() -> None:
    result = speedup(flat([162 * 32e-9] * 5), flat([162 * 32e-9] * 5), step_seconds=32e-9)
    assert result is not None
    assert result.half_width == pytest.approx(0.78 / 162, rel=0.02)


def test_rounds_that_scatter_widen_the_interval_although_the_sweeps_agree() -> None:
    # Steps of a ten-thousandth, so that it is not the timer's step that widens it.
    rounds = [[median, median, median + 1e-4] for median in (1.0, 1.2, 0.8, 1.1)]
    result = compared(flat([1.0] * 3, rounds=4), [rounds] * 3)
    assert len(set(result.sweep_ratios)) == 1
    assert result.half_width > 0.05


def test_the_timers_step_is_the_smallest_difference_of_two_samples() -> None:
    assert quantum([[[64e-9, 96e-9], [160e-9]]]) == pytest.approx(32e-9)
    assert quantum([[[1e-6, 1e-6]]]) == 0.0


def test_rounds_in_which_one_side_has_no_valid_sample_do_not_count() -> None:
    baseline = [[[2.0], []], [[2.0], [2.0]]]
    subject = [[[1.0], [5.0]], [[1.0], [1.0]]]
    assert compared(baseline, subject).sweep_ratios == pytest.approx((2.0, 2.0))


def test_fewer_than_two_sweeps_with_both_sides_give_no_ratio() -> None:
    assert speedup(flat([2.0]), flat([1.0])) is None
    assert speedup([[[2.0]], [[]]], [[[1.0]], [[1.0]]]) is None
    assert speedup([], []) is None


def noisy(seed: int, *, ratio: float = 1.3, sweeps: int = 5, within: float = 0.01, between: float = 0.005) -> Sweeps:
    """[baseline, subject]-like sweeps: each process shifts each side by an effect of its own."""
    dice = np.random.default_rng(seed)
    effects = dice.normal(0, between, (sweeps, 1, 1))
    return (1e-5 * ratio * np.exp(effects + dice.normal(0, within, (sweeps, 6, 10)))).tolist()


def test_swapping_the_sides_mirrors_the_interval() -> None:
    baseline, subject = noisy(1), noisy(2, ratio=1.0)
    there, back = compared(baseline, subject), compared(subject, baseline)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))
    assert back.half_width == pytest.approx(there.half_width)


@pytest.mark.parametrize("factor", [1e3, 1e6, 8.0])
def test_the_unit_of_time_does_not_matter(factor: float) -> None:
    baseline, subject = noisy(3), noisy(4, ratio=1.0)
    seconds, other = compared(baseline, subject), compared(scaled(baseline, factor), scaled(subject, factor))
    assert (other.ratio, other.low, other.high) == pytest.approx((seconds.ratio, seconds.low, seconds.high))


def test_the_order_of_sweeps_does_not_matter() -> None:
    baseline, subject = noisy(5), noisy(6, ratio=1.0)
    there, back = compared(baseline, subject), compared(baseline[::-1], subject[::-1])
    assert (there.ratio, there.low, there.high) == pytest.approx((back.ratio, back.low, back.high))


@pytest.mark.parametrize("sweeps", [3, 5])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(sweeps: int) -> None:
    """Each process has an effect of its own, five times what its samples' median leaves open."""
    runs = 600
    hits = 0
    for run in range(runs):
        result = compared(noisy(2 * run, sweeps=sweeps), noisy(2 * run + 1, ratio=1.0, sweeps=sweeps))
        hits += result.low <= 1.3 <= result.high
    assert 0.93 <= hits / runs <= 0.97


def test_two_equal_kernels_are_seldom_told_apart() -> None:
    runs = 600
    distinguished = 0
    for run in range(runs):
        result = compared(noisy(2 * run, ratio=1.0), noisy(2 * run + 1, ratio=1.0))
        distinguished += result.low > 1 or result.high < 1
    assert distinguished / runs <= 0.065


def test_quantised_data_never_give_an_interval_of_no_width() -> None:
    dice = np.random.default_rng(7)
    for _ in range(50):
        ticks = dice.integers(100, 103, (2, 3, 6, 10))
        baseline, subject = (ticks * 32e-9).tolist()
        result = compared(baseline, subject)
        assert result.half_width >= math.log1p(1 / 103) / math.sqrt(3) * 0.99


@pytest.mark.parametrize(("sweeps", "narrow", "wide"), [(3, 4.303, 6.965), (5, 2.776, 3.747), (9, 2.306, 2.896)])
def test_an_interval_of_another_confidence_is_as_much_wider_as_students_quantiles(
    sweeps: int, narrow: float, wide: float
) -> None:
    result = Speedup(ratio=2.0, low=2 / 1.1, high=2 * 1.1, sweep_ratios=(2.0,) * sweeps)
    low, high = result.interval(0.98)
    assert math.log(high / 2) == pytest.approx(math.log(1.1) * wide / narrow, rel=1e-3)
    assert low * high == pytest.approx(4)
    assert result.interval(0.95) == pytest.approx((result.low, result.high))


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
    assert geometric_mean([1.0, 8.0]) == pytest.approx(math.sqrt(8))


def test_what_is_less_than_a_whole_never_reads_as_one() -> None:
    assert [per_cent(share, 1) for share in (1.0, 11_999 / 12_000, 0.9994, 0.013)] == [
        "100.0 %",
        "99.99 %",
        "99.9 %",
        "1.3 %",
    ]
    assert per_cent(0.996) == "99.6 %"


def test_the_typical_interval_is_that_of_the_signed_rank_test() -> None:
    """Its ends are where the test, asked of all choices of signs, turns."""
    values = [0.3, -0.1, 0.9, 0.45, 0.2, 0.62, 2.5, 0.51, 0.33]

    def chance_above(centre: float) -> float:
        from_centre = sorted((value - centre for value in values), key=abs)
        against = sum(rank for rank, value in enumerate(from_centre, 1) if value < 0)
        choices = itertools.product((0, 1), repeat=len(values))
        return float(np.mean([sum(rank * sign for rank, sign in enumerate(signs, 1)) <= against for signs in choices]))

    low, high = typical_interval(values)
    assert chance_above(low - 1e-9) == pytest.approx(3 / 512)
    assert chance_above(low + 1e-9) > 0.006
    assert typical_interval([-value for value in values]) == (-high, -low)


def test_the_typical_interval_leaves_out_the_centre_as_seldom_as_it_says() -> None:
    dice = np.random.default_rng(3)
    lows = [typical_interval(list(dice.standard_t(2, 9)))[0] for _ in range(20_000)]
    assert np.mean([low > 0 for low in lows]) == pytest.approx(3 / 512, abs=0.0015)
