"""The rate that lasts: of the second half of the batches."""

import dataclasses

import pytest
from factory import SMALL, cell, small_experiment

from lab.definition.planning import planned
from lab.evidence.record import Cell, Sustained
from lab.verdict.statistics import Latency
from lab.verdict.sustained import SustainedRate, sustained_rate

CASE = dataclasses.replace(planned(small_experiment(), frozenset()).case(SMALL.name), flops=10**9)
IN_GRAPH = Latency(p50_seconds=2e-6, p95_seconds=None, sweep_p50_seconds=(2e-6,), samples=6)


def measured(lasting: Sustained | None, sweep: int = 0, outcome: str = "measured") -> Cell:
    return dataclasses.replace(cell("doubling", SMALL.name, "fast", sweep, outcome=outcome), sustained=lasting)


def settling(*seconds: float) -> Sustained:
    clocks = tuple(1.9e9 - 1e8 * number for number in range(len(seconds)))
    return Sustained(batch_seconds=seconds, calls_per_batch=1000, spin_hertz=clocks, power_watts=696.0)


@pytest.mark.parametrize(
    ("batches", "seconds", "hertz"),
    [((1e-6, 2e-6, 4e-6, 5e-6), 4.5e-6, 1.65e9), ((1e-6, 4e-6, 5e-6), 4.5e-6, 1.75e9), ((4e-6,), 4e-6, 1.9e9)],
)
def test_what_lasts_is_the_median_of_the_second_half(batches: tuple[float, ...], seconds: float, hertz: float) -> None:
    rate = sustained_rate(CASE, [measured(None, 1), measured(settling(*batches))], IN_GRAPH)
    assert rate is not None
    assert (rate.seconds, rate.spin_hertz) == (pytest.approx(seconds), pytest.approx(hertz))
    assert rate.flops_per_second == pytest.approx(1e9 / seconds)
    assert rate.spaced_flops_per_second == pytest.approx(5e14)
    assert (rate.calls, rate.lasting_seconds) == (1000 * len(batches), pytest.approx(1000 * sum(batches)))
    assert (rate.power_watts, rate.reason) == (696.0, "")


def test_a_reason_stands_where_there_is_no_time() -> None:
    assert sustained_rate(CASE, [measured(Sustained(reason="no graph"))], None) == SustainedRate(reason="no graph")


def test_without_a_record_of_it_there_is_nothing() -> None:
    wrong = measured(settling(1e-6), outcome="wrong")
    assert sustained_rate(CASE, [wrong, measured(None, 1)], IN_GRAPH) is None
