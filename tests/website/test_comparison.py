"""Which published runs are held against one another, and what is said of them."""

import dataclasses
from functools import cache

from factory import FAST_BEATS_PLAIN, SMALL, plan_of, records_of, small_experiment

from lab.definition.experiment import CEILINGS
from lab.verdict.judge_run import judge_run
from lab.website.data.comparison import RUNS_BEFORE, comparison_data, has_page, run_pairs, shared
from lab.website.data.judged import Judged, judged_run
from lab.website.pages.compare import pairs_of
from lab.website.pages.outline import past_outlines

A, B = "NVIDIA H100 80GB HBM3", "NVIDIA A10G"


@cache
def measured(seed: int = 1) -> Judged:
    plan = plan_of(experiments=[small_experiment()], include=())
    (item,) = judged_run(judge_run(plan, records_of(plan, {"plain": 200e-6, "fast": 100e-6}, seed=seed)))
    return item


def renamed(item: Judged, name: str) -> Judged:
    return Judged(plan=dataclasses.replace(item.plan, name=name), data=item.data)


def run(number: int, gpu: str = A, card: str = "0123456789ab") -> Judged:
    """The same measurement as if it were that of another run."""
    known = measured()
    data = dict(known.data)
    data["evidence"] = {**known.evidence, "digest": f"{number:064}", "finished_utc": f"2026-01-02T{number:02}:00:00Z"}
    data["machine"] = {**known.machine, "gpu": gpu, "gpu_id": card}
    return Judged(plan=known.plan, data=data)


def numbers(*histories: list[Judged]) -> list[tuple[int, int]]:
    return [(int(older), int(newer)) for older, newer in run_pairs([tuple(past_outlines(each)) for each in histories])]


def test_few_runs_are_all_held_against_one_another_older_first():
    assert numbers([run(1), run(2, B), run(3)]) == [(1, 2), (1, 3), (2, 3)]


def test_a_run_is_paired_with_those_just_before_it_and_the_last_on_its_gpu_model():
    machines = [A, *[B] * RUNS_BEFORE, A, B]
    pairs = numbers([run(number, machine) for number, machine in enumerate(machines)])
    newest = len(machines) - 1
    assert {older for older, newer in pairs if newer == newest} == set(range(newest - RUNS_BEFORE, newest))
    assert {older for older, newer in pairs if newer == newest - 1} == set(range(newest - 1))  # the first is on A too


def test_only_runs_that_are_held_against_one_another_have_a_page():
    runs = [run(number, machine) for number, machine in enumerate([A, *[B] * (RUNS_BEFORE + 1), A])]
    oldest, second, *_, newest = (each.digest for each in runs)
    assert has_page(oldest, newest, runs)  # the last one on A
    assert not has_page(second, newest, runs)
    assert not has_page(newest, oldest, runs)


def test_a_newer_run_takes_no_pair_away():
    many = [run(number, (A, B)[number % 3 % 2]) for number in range(RUNS_BEFORE + 5)]
    for count in range(len(many)):
        assert set(numbers(many[:count])) <= set(numbers(many[: count + 1]))


def test_runs_that_share_two_experiments_are_one_pair():
    assert numbers([run(1), run(2)], [run(1), run(2)]) == [(1, 2)]


def test_runs_that_share_only_the_measured_ceilings_are_no_pair():
    ceilings = [renamed(run(number), CEILINGS) for number in (1, 2, 3)]
    outlined = tuple(past_outlines((*ceilings, run(2), run(3))))
    assert [(int(pair.older), int(pair.newer)) for pair in pairs_of(outlined)] == [(2, 3)]


def test_only_what_both_runs_have_is_shared():
    assert shared([run(1)], []) == ()
    ((older, newer),) = shared([run(1)], [run(2)])
    assert (int(older.digest), int(newer.digest)) == (1, 2)


def test_a_run_beside_itself_has_changed_in_nothing():
    data = comparison_data([run(1)], [run(2)])
    assert data["counts"] == {"claims": 1, "changed": 0, "cells": 2, "moved": 0}
    assert data["experiments"]["doubling"]["times"][SMALL.name]["fast"]["ratio"] == 1
    assert data["experiments"]["doubling"]["verdicts"][FAST_BEATS_PLAIN.name] == {
        "older": "supported", "newer": "supported",
    }  # fmt: skip


def test_times_of_two_cards_of_one_model_are_not_divided():
    data = comparison_data([run(1)], [run(2, card="fedcba987654")])
    assert not data["one_machine"]
    assert data["counts"]["cells"] == 0
    assert data["experiments"]["doubling"]["times"] == {}


def test_nothing_tells_that_two_machines_without_a_card_are_one():
    assert not comparison_data([run(1, card="")], [run(2, card="")])["one_machine"]


def test_only_runs_on_one_gpu_model_can_change_a_verdict():
    same, other = (pairs_of(tuple(past_outlines((run(1), newer))))[0] for newer in (run(2, A, "cd"), run(2, B, "cd")))
    assert (same.one_model, same.one_machine) == (True, False)
    assert (other.one_model, other.one_machine) == (False, False)
