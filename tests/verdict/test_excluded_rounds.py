"""Rounds are left out because of the GPU's state, and never because of a time."""

import random
from typing import Any

import pytest
from factory import canary, plan_of, quiet_round, records_of, watch

from lab.evidence.record import Canary, Cell, Watch
from lab.verdict.excluded_rounds import excluded_rounds
from lab.verdict.judge_run import judge_run

PLACE = (0, "0-1", "e", "c")


def watched(**changes: Any) -> Watch:
    """One case of six rounds, the third of which was otherwise."""
    rounds = [quiet_round() for _ in range(6)]
    rounds[2] = quiet_round(**changes)
    return Watch(experiment="e", case="c", sweep=0, process="0-1", rounds=tuple(rounds))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reasons": 0x8}, "hardware slowdown"),
        ({"reasons": 0x20}, "thermal slowdown"),
        ({"reasons": 0x40}, "hardware thermal slowdown"),
        ({"reasons": 0x80 | 0x4}, "power brake"),
        (
            {"violation_seconds": {"thermal": 0.002, "board": 0.001}},
            "clock reduced by heat, board limit or reliability",
        ),
        ({"foreign_processes": 1}, "another process on the GPU"),
        ({"spin_hertz": 1.7e9}, "clock far below its process's median"),
    ],
)
def test_a_round_is_spoiled_by_the_gpus_state(changes: dict[str, Any], reason: str) -> None:
    excluded = excluded_rounds([watched(**changes)], [])
    assert excluded.rounds(*PLACE) == {2}
    assert excluded.by_round[PLACE][2] == reason
    assert excluded.share("e", "c") == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"reasons": 0x1}, {"reasons": None}, {"spin_hertz": 1.75e9}, {"spin_hertz": None},
        {"foreign_processes": None},
        {"violation_seconds": {"thermal": 0.002}}, {"violation_seconds": {"power": 0.1}}, {"reasons": 0x4},
        {"reasons": 0x4, "spin_hertz": 1.4e9}, {"violation_seconds": {"power": 0.1}, "spin_hertz": 1.4e9},
    ],
)  # fmt: skip
def test_a_round_is_not_spoiled_by_less(changes: dict[str, Any]) -> None:
    assert excluded_rounds([watched(**changes)], []).rounds(*PLACE) == frozenset()


@pytest.mark.parametrize("changes", [{"reasons": 0x4}, {"violation_seconds": {"power": 0.1}}])
def test_a_power_cap_is_a_label(changes: dict[str, Any]) -> None:
    capped = excluded_rounds([watched(**changes)], [])
    assert capped.capped_shares["e", "c"] == pytest.approx(1 / 6)
    assert capped.power_limited("e", "c")
    assert excluded_rounds([watched()], []).capped_shares == {("e", "c"): 0.0}


@pytest.mark.parametrize(
    ("rounds", "limited"),
    [
        ([{"reasons": 0x4}, {}], True),
        ([{}, {"reasons": None, "violation_seconds": {"power": 0.1}}], True),
        ([{"violation_seconds": {"power": 0.001}}], False),
        ([{"reasons": None, "violation_seconds": {}}, {}], False),
        ([{"reasons": None, "violation_seconds": {}}], True),
        ([], True),
    ],
    ids=["a reason", "a time", "too short a time", "none of those known", "nothing is known", "nobody looked"],
)
def test_a_case_is_power_limited_where_any_round_was_or_none_is_known(rounds: list[Any], limited: bool) -> None:
    seen = tuple(quiet_round(**changes) for changes in rounds)
    watches = [Watch(experiment="e", case="c", sweep=0, process="0-1", rounds=seen)] if rounds else []
    assert excluded_rounds(watches, []).power_limited("e", "c") is limited


def songs(**off: Any) -> list[Canary]:
    return [canary(0, "0-1", after, **(off if after == "b" else {})) for after in ("", "a", "b", "c", "d")]


@pytest.mark.parametrize("off", [{"copy_seconds": 140e-6}, {"spin_hertz": 1.93e9}])
def test_a_canary_that_is_off_spoils_the_cases_beside_it(off: dict[str, Any]) -> None:
    watches = [watch("e", case, 0, "0-1") for case in "abcd"]
    excluded = excluded_rounds(watches, songs(**off))
    spoiled = {case for case in "abcd" if excluded.rounds(0, "0-1", "e", case)}
    assert spoiled == {"b", "c"}
    assert excluded_rounds(watches, songs(copy_seconds=138e-6)).by_round == {}


def test_a_silent_canary_moves_the_blame_to_no_other_case() -> None:
    """The one after b was not heard: c lies beside the silence, not beside the one that was off."""
    watches = [watch("e", case, 0, "0-1") for case in "abcd"]
    sung = [canary(0, "0-1", each, **({"copy_seconds": 140e-6} if each == "a" else {})) for each in ("", "a", "c", "d")]
    excluded = excluded_rounds(watches, sung)
    assert {case for case in "abcd" if excluded.rounds(0, "0-1", "e", case)} == {"a", "b"}


def test_the_first_canary_is_beside_the_first_case() -> None:
    watches = [watch("e", case, 0, "0-1") for case in "abcd"]
    sung = [canary(0, "0-1", each, **({} if each else {"spin_hertz": 1.5e9})) for each in ("", "a", "b", "c", "d")]
    assert {place[3] for place in excluded_rounds(watches, sung).by_round} == {"a"}


def test_a_canary_spoils_no_case_of_the_same_name_in_another_experiment() -> None:
    order = [("", ""), ("e", "a"), ("f", "b"), ("f", "a"), ("f", "c"), ("f", "d")]
    sung = [
        canary(0, "0-1", case, experiment=name, **({"copy_seconds": 140e-6} if (name, case) == ("e", "a") else {}))
        for name, case in order
    ]
    excluded = excluded_rounds([watch(name, case, 0, "0-1") for name, case in order[1:]], sung)
    assert {place[2:] for place in excluded.by_round} == {("e", "a"), ("f", "b")}


def test_permuting_profiles_never_changes_which_rounds_are_dropped() -> None:
    """The rule is given no times; and a journal whose times are dealt out anew drops the same rounds."""
    plan = plan_of()
    records = records_of(plan, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6, "torch-baseline": 99e-6})
    dice = random.Random(5)
    records = [
        record if not isinstance(record, Watch) else watch(record.experiment, record.case, record.sweep, record.process)
        for record in records
    ]
    for position, record in enumerate(records):
        if isinstance(record, Watch) and dice.random() < 0.3:
            rounds = list(record.rounds)
            rounds[dice.randrange(6)] = quiet_round(reasons=0x40)
            records[position] = Watch(
                experiment=record.experiment, case=record.case, sweep=record.sweep, process=record.process,
                rounds=tuple(rounds),
            )  # fmt: skip
    cells = [position for position, record in enumerate(records) if isinstance(record, Cell) and record.timings]
    dealt = [records[position].timings for position in cells]  # type: ignore[union-attr]
    dice.shuffle(dealt)
    import dataclasses

    other = list(records)
    for position, timings in zip(cells, dealt, strict=True):
        other[position] = dataclasses.replace(other[position], timings=timings)  # type: ignore[type-var]
    first, second = (judge_run(plan, each).experiments[0].spoiled for each in (records, other))
    assert first.by_round == second.by_round != {}
