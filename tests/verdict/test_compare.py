"""Only what one process measured side by side is compared, and only in the rounds that count."""

import dataclasses
import random

import pytest
from factory import cell, timing

from lab.definition.plan import Protocol
from lab.evidence.record import Cell
from lab.verdict.compare import clock_step_seconds, rounds_of, speedup_between, split_between, void_samples
from lab.verdict.excluded_rounds import NOTHING, ExcludedRounds

PROTOCOL = Protocol()


def cells(p50_seconds: float, sweeps: int = 5, seed: int = 1, **scopes: float) -> list[Cell]:
    dice = random.Random(seed)
    records = []
    for sweep in range(sweeps):
        times = {"device_cold": p50_seconds, **scopes}
        timings = tuple(
            dataclasses.replace(timing(seconds, 0.003, PROTOCOL, dice), scope=scope) for scope, seconds in times.items()
        )
        records.append(cell("e", "c", "p", sweep, timings=timings))
    return records


def test_sweeps_of_one_process_are_paired() -> None:
    speedup = speedup_between(cells(40e-6), cells(20e-6, seed=2), "device_cold", NOTHING)
    assert speedup is not None
    assert len(speedup.sweep_ratios) == 5
    assert speedup.ratio == pytest.approx(2, rel=0.01)


def test_another_process_of_the_same_sweep_is_no_partner() -> None:
    strangers = [dataclasses.replace(each, process="x") if each.sweep < 2 else each for each in cells(20e-6, seed=2)]
    speedup = speedup_between(cells(40e-6), strangers, "device_cold", NOTHING)
    assert speedup is not None
    assert len(speedup.sweep_ratios) == 3


def test_a_scope_that_was_not_timed_has_no_speed_up() -> None:
    assert speedup_between(cells(40e-6), cells(20e-6), "graph", NOTHING) is None


def spoiled(*rounds: int) -> ExcludedRounds:
    return ExcludedRounds(by_round={(0, "0-1000", "e", "c"): dict.fromkeys(rounds, "heat")})


def test_spoiled_rounds_are_left_out_and_a_sweep_of_too_few_tells_nothing() -> None:
    (first, *_) = cells(40e-6)
    assert len(rounds_of(first, "device_cold", NOTHING) or ()) == 6
    assert len(rounds_of(first, "device_cold", spoiled(1, 4)) or ()) == 4
    assert rounds_of(first, "device_cold", spoiled(1, 2, 4)) is None
    speedup = speedup_between(cells(40e-6), cells(20e-6), "device_cold", spoiled(1, 2, 4))
    assert speedup is not None
    assert len(speedup.sweep_ratios) == 4


def test_the_parts_of_an_eager_speed_up_multiply_to_it() -> None:
    baseline = cells(40e-6, graph=40e-6, eager=60e-6)
    subject = cells(20e-6, seed=2, graph=20e-6, eager=60e-6)
    split = split_between(baseline, subject, NOTHING)
    assert split is not None
    assert split.device.ratio == pytest.approx(2, rel=0.01)
    assert split.launch.ratio == pytest.approx(0.5, rel=0.01)
    assert split.device.ratio * split.launch.ratio == pytest.approx(split.end_to_end.ratio, rel=1e-9)
    assert split_between(cells(40e-6), cells(20e-6), NOTHING) is None


def emptied(each: Cell, kept: int) -> Cell:
    """Every sample void in all rounds but the first few."""
    (timing_,) = each.timings
    rounds = tuple(block if number < kept else () for number, block in enumerate(timing_.rounds))
    return dataclasses.replace(each, timings=(dataclasses.replace(timing_, rounds=rounds),))


def test_rounds_without_a_valid_sample_are_no_rounds() -> None:
    subject = [emptied(each, 3) if each.sweep == 0 else emptied(each, 4) for each in cells(20e-6, seed=2)]
    speedup = speedup_between(cells(40e-6), subject, "device_cold", NOTHING)
    assert speedup is not None
    assert len(speedup.sweep_ratios) == 4


def test_a_round_counts_only_where_both_sides_have_it() -> None:
    """Four rounds each, and two of them in common."""
    (first,) = cells(40e-6, sweeps=1)
    (timing_,) = first.timings
    late = tuple(block if number > 1 else () for number, block in enumerate(timing_.rounds))
    other = dataclasses.replace(first, timings=(dataclasses.replace(timing_, rounds=late),))
    assert speedup_between([emptied(first, 4)] * 2, [other] * 2, "device_cold", NOTHING) is None


def test_void_samples_of_rounds_that_were_left_out_do_not_count() -> None:
    (first, *_) = cells(40e-6)
    (timing_,) = first.timings
    starved = dataclasses.replace(first, timings=(dataclasses.replace(timing_, void=(1, 2, 0, 0, 4, 0)),))
    assert void_samples(starved, "device_cold", NOTHING) == 7
    assert void_samples(starved, "device_cold", spoiled(1, 4)) == 1


def test_the_clocks_step_is_what_many_cells_show_of_it() -> None:
    """A graph of ten calls divides the step by ten; a cell that always reads the same shows none."""

    def read(*seconds: float, calls: int = 1) -> Cell:
        (first,) = cells(1.0, sweeps=1)
        (timing_,) = first.timings
        return dataclasses.replace(
            first, timings=(dataclasses.replace(timing_, rounds=(seconds,) * 6, calls_per_sample=calls),)
        )

    still, fine, graph = read(64e-9, 64e-9), read(64e-9, 96e-9, 192e-9), read(32.0e-9, 35.2e-9, calls=10)
    assert clock_step_seconds([still, fine], "device_cold") == pytest.approx(32e-9)
    assert clock_step_seconds([graph], "device_cold") == pytest.approx(32e-9)
    assert clock_step_seconds([still], "device_cold") == 0.0
