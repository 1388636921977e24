"""The statistics on data whose truth is known: drift, steps, heavy tails, process effects, a timer with a step."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from lab.verdict.judge import NOISY_RATIO, WIDEST_HALF_WIDTH, Side, Status, judge_case
from lab.verdict.statistics import Speedup, latency, speedup

ROUNDS, BLOCK, TRIALS = 6, 10, 700
QUANTUM_SECONDS = 32e-9
BASE_SECONDS = 50e-6


def sweep_pair(dice: np.random.Generator, ratio: float, process_sigma: float, drift: float) -> tuple[list, list]:
    """One sweep of baseline and subject, blocks interleaved in time: logs of a drifting, correlated, spiky clock."""
    total = 2 * ROUNDS * BLOCK
    noise = np.empty(total)
    value = 0.0
    shocks = dice.normal(0, 0.008 * math.sqrt(1 - 0.25), total)
    for i in range(total):
        value = 0.5 * value + shocks[i]
        noise[i] = value
    noise += np.cumsum(dice.normal(0, drift / math.sqrt(total), total))
    if dice.random() < 0.3:
        noise[dice.integers(total) :] += 0.01
    spikes = dice.random(total) < 0.02
    noise[spikes] += dice.exponential(0.1, int(spikes.sum()))
    logs = noise.reshape(ROUNDS, 2, BLOCK)
    order = dice.integers(2, size=ROUNDS)
    effects = dice.normal(0, process_sigma, 2)
    sides: tuple[list, list] = ([], [])
    for number in range(ROUNDS):
        for side in (0, 1):
            seconds = BASE_SECONDS * np.exp(logs[number, side ^ order[number]] + effects[side])
            seconds = seconds * (ratio if side == 0 else 1.0)
            sides[side].append(list(np.round(seconds / QUANTUM_SECONDS) * QUANTUM_SECONDS))
    return sides


def run(dice: np.random.Generator, ratio: float, sweeps: int, process_sigma: float, drift: float) -> Speedup:
    pairs = [sweep_pair(dice, ratio, process_sigma, drift) for _ in range(sweeps)]
    result = speedup([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert result is not None
    return result


def simulate(experiment: Callable[[np.random.Generator], Speedup], seed: int) -> list[Speedup]:
    dice = np.random.default_rng(seed)
    return [experiment(dice) for _ in range(TRIALS)]


def coverage(speedups: list[Speedup], ratio: float) -> float:
    return sum(each.low <= ratio <= each.high for each in speedups) / len(speedups)


@pytest.mark.parametrize("sigma", [0.0, 0.001, 0.003, 0.01])
@pytest.mark.parametrize("sweeps", [3, 5])
def test_the_interval_covers_the_truth_as_often_as_it_says(sigma: float, sweeps: int) -> None:
    """Where processes differ, the interval is theirs; where they do not, its floors make it wider than it need be."""
    speedups = simulate(lambda dice: run(dice, 1.02, sweeps, sigma, 0.005), seed=int(sigma * 1e4) + sweeps)
    assert coverage(speedups, 1.02) >= 0.93
    if sigma == 0.01:
        assert coverage(speedups, 1.02) <= 0.98


@pytest.mark.parametrize("sigma", [0.0, 0.003, 0.01])
def test_the_same_code_is_reported_apart_from_itself_in_at_most_one_of_fifteen(sigma: float) -> None:
    speedups = simulate(lambda dice: run(dice, 1.0, 5, sigma, 0.005), seed=7)
    assert 1 - coverage(speedups, 1.0) <= 0.065
    assert sum(each.low >= 1.02 for each in speedups) == 0


def test_no_interval_has_no_width_however_still_the_timer_stands() -> None:
    still = [[[BASE_SECONDS] * BLOCK] * ROUNDS] * 5
    result = speedup(still, still)
    assert result is not None
    assert result.high / result.low > 1.0015


def test_three_sweeps_pay_with_the_students_quantile_of_two_degrees() -> None:
    ratios = (1.00, 1.02, 1.04)
    baseline = [[[BASE_SECONDS * ratio] * BLOCK] * ROUNDS for ratio in ratios]
    result = speedup(baseline, [[[BASE_SECONDS] * BLOCK] * ROUNDS] * 3)
    assert result is not None
    logs = np.log(ratios)
    assert math.log(result.high / result.ratio) == pytest.approx(4.303 * logs.std(ddof=1) / math.sqrt(3), rel=1e-3)


def test_a_shift_between_processes_that_no_process_can_see_is_not_taken_for_a_result() -> None:
    """Each process is calm by itself, p95 / p50 below 1.05; they disagree by a tenth."""
    dice = np.random.default_rng(3)
    shifts = (1.00, 1.10, 1.01, 1.09, 1.04)
    subject = [(BASE_SECONDS * np.exp(dice.normal(0, 0.005, (ROUNDS, BLOCK)))).tolist() for _ in shifts]
    baseline = [(shift * BASE_SECONDS * np.exp(dice.normal(0, 0.005, (ROUNDS, BLOCK)))).tolist() for shift in shifts]
    result, noise = speedup(baseline, subject), latency(subject)
    assert result is not None
    assert noise is not None
    assert noise.noise_ratio is not None
    assert noise.noise_ratio < NOISY_RATIO
    assert result.half_width > WIDEST_HALF_WIDTH
    side = Side(outcome="measured", reason="", latency=noise, void_share=0.0)
    assert judge_case(side, side, result, 1.02).status == Status.RERUN_NOISE


def test_a_clock_coarser_than_the_noise_is_not_believed_beyond_its_step() -> None:
    """5 µs in steps of 32 ns with 2 ns of noise: every sample of a side reads one step, or one of two.

    A side that reads one shows no step; that of the other cells of the run is known.
    """

    def trial(dice: np.random.Generator) -> bool:
        truth = 5e-6 * dice.uniform(1.0, 1.02, 2)

        def read(seconds: float) -> list[list[float]]:
            noisy = seconds + dice.normal(0, 2e-9, (ROUNDS, BLOCK))
            return (np.round(noisy / QUANTUM_SECONDS) * QUANTUM_SECONDS).tolist()

        result = speedup([read(truth[0]) for _ in range(5)], [read(truth[1]) for _ in range(5)], QUANTUM_SECONDS)
        assert result is not None
        return result.low <= truth[0] / truth[1] <= result.high

    dice = np.random.default_rng(5)
    assert sum(trial(dice) for _ in range(TRIALS)) >= 0.93 * TRIALS
