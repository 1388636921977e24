"""Only what one process measured side by side is compared, and only in the rounds that count."""

import dataclasses
import random

import pytest
from factory import cell, timing

from lab.compare import rounds_of, speedup_between, split_between
from lab.plan import Protocol
from lab.record import Cell
from lab.spoiled import NOTHING, Spoiled

PROTOCOL = Protocol()


def cells(p50_seconds: float, sweeps: int = 5, seed: int = 1, **scopes: float) -> list[Cell]:
    dice = random.Random(seed)
    found = []
    for sweep in range(sweeps):
        times = {"device_cold": p50_seconds, **scopes}
        timings = tuple(
            dataclasses.replace(timing(seconds, 0.003, PROTOCOL, dice), scope=scope) for scope, seconds in times.items()
        )
        found.append(cell("e", "c", "p", sweep, timings=timings))
    return found


def test_sweeps_of_one_process_are_paired() -> None:
    found = speedup_between(cells(40e-6), cells(20e-6, seed=2), "device_cold", NOTHING)
    assert found is not None
    assert len(found.sweep_ratios) == 5
    assert found.ratio == pytest.approx(2, rel=0.01)


def test_another_process_of_the_same_sweep_is_no_partner() -> None:
    strangers = [dataclasses.replace(each, process="x") if each.sweep < 2 else each for each in cells(20e-6, seed=2)]
    found = speedup_between(cells(40e-6), strangers, "device_cold", NOTHING)
    assert found is not None
    assert len(found.sweep_ratios) == 3


def test_a_scope_that_was_not_timed_has_no_speed_up() -> None:
    assert speedup_between(cells(40e-6), cells(20e-6), "graph", NOTHING) is None


def spoiled(*rounds: int) -> Spoiled:
    return Spoiled(by_round={(0, "0-1000", "e", "c"): dict.fromkeys(rounds, "heat")})


def test_spoiled_rounds_are_left_out_and_a_sweep_of_too_few_tells_nothing() -> None:
    (first, *_) = cells(40e-6)
    assert len(rounds_of(first, "device_cold", NOTHING) or ()) == 6
    assert len(rounds_of(first, "device_cold", spoiled(1, 4)) or ()) == 4
    assert rounds_of(first, "device_cold", spoiled(1, 2, 4)) is None
    found = speedup_between(cells(40e-6), cells(20e-6), "device_cold", spoiled(1, 2, 4))
    assert found is not None
    assert len(found.sweep_ratios) == 4


def test_the_parts_of_an_eager_speed_up_multiply_to_it() -> None:
    baseline = cells(40e-6, graph=40e-6, eager=60e-6)
    subject = cells(20e-6, seed=2, graph=20e-6, eager=60e-6)
    found = split_between(baseline, subject, NOTHING)
    assert found is not None
    assert found.device.ratio == pytest.approx(2, rel=0.01)
    assert found.launch.ratio == pytest.approx(0.5, rel=0.01)
    assert found.device.ratio * found.launch.ratio == pytest.approx(found.end_to_end.ratio, rel=1e-9)
    assert split_between(cells(40e-6), cells(20e-6), NOTHING) is None
