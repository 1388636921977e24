"""What ncu looks at, with ranges that only note their names: each profile's fault costs its own counters."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import DOUBLING, PLAIN, SMALL, plan_of, profile, small_experiment
from torch import Tensor

from lab.definition.experiment import Profile
from lab.definition.plan_file import save_plan
from lab.profiler import profiled
from lab.profiler.profiled import CALLS_BEFORE, show
from lab.worker.guard import Guard

CASE = SMALL.name


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ranges that were opened."""
    opened: list[str] = []

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        opened.append(name)
        yield

    monkeypatch.setattr(profiled, "profiled_range", noted)
    return opened


def doubling(name: str, load: Callable[[], Any], **changes: Any) -> Profile:
    return profile(name, implementations={"doubling": load}, **changes)


def failing(after: int) -> Callable[[], Any]:
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) > after:
            raise RuntimeError("no such kernel in /somewhere/else/x.cu")
        return x * 2

    return lambda: function


def absent() -> Any:
    raise ImportError("no module of that name")


def test_each_profile_is_called_in_its_own_range_once_it_is_warm(ranges: list[str]) -> None:
    calls: list[str] = []

    def load(name: str) -> Callable[[], Any]:
        return lambda: lambda x: calls.append(f"{name}{len(ranges)}")

    assert list(show(SMALL, [doubling("a", load("a")), doubling("b", load("b"))], "cpu", Guard([]))) == []
    assert ranges == [f"{CASE}|a", f"{CASE}|b"]
    assert calls == [*["a0"] * CALLS_BEFORE, "a1", *["b1"] * CALLS_BEFORE, "b2"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (doubling("broken", absent), "ImportError: no module of that name"),
        (doubling("broken", failing(0)), "RuntimeError: no such kernel in (path)"),
        (doubling("broken", failing(CALLS_BEFORE)), "RuntimeError: no such kernel in (path)"),
        (doubling("broken", failing(9), devices=("cuda",)), "needs a CUDA GPU, and this run measures the CPU"),
        (doubling("broken", failing(9), package="nowhere_to_be_found"),
         "nowhere_to_be_found is not installed; the optional extra 'peers' brings it"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_and_costs_its_own_counters_only(ranges: list[str], broken: Profile, reason: str) -> None:
    assert list(show(SMALL, [broken, PLAIN], "cpu", Guard([]))) == [("broken", reason)]
    assert ranges[-1] == f"{CASE}|plain"


def test_a_profile_in_cuda_is_skipped_where_nothing_compiles_it(
    ranges: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.worker.faults.missing_compiler", lambda: "nvcc is not on this machine")
    shown = list(show(SMALL, [doubling("cuda-cpp", absent, needs_nvcc=True), PLAIN], "cpu", Guard([])))
    assert shown == [("cuda-cpp", "nvcc is not on this machine")]
    assert ranges[-1] == f"{CASE}|plain"


def test_what_a_profile_replaced_is_put_right_before_the_next_also_where_it_failed(ranges: list[str]) -> None:
    original = torch.relu

    def load() -> Any:
        torch.relu = lambda x: x
        raise ImportError("no module of that name")

    intact: list[bool] = []
    looks = doubling("looks", lambda: lambda x: intact.append(torch.relu is original))
    list(show(SMALL, [doubling("patches", load), looks], "cpu", Guard([(torch, "relu")])))
    assert set(intact) == {True}


def test_inputs_that_cannot_be_made_are_reported_of_each_profile_of_the_case(ranges: list[str]) -> None:
    def too_large(*asked: Any) -> Any:
        raise MemoryError("no room for the inputs")

    case = dataclasses.replace(SMALL, operator=dataclasses.replace(DOUBLING, inputs=too_large))
    assert list(show(case, [PLAIN, doubling("b", absent)], "cpu", Guard([]))) == [
        ("plain", "inputs: MemoryError: no room for the inputs"),
        ("b", "inputs: MemoryError: no room for the inputs"),
    ]


def test_the_program_shows_the_planned_cells_but_those_that_are_named_and_writes_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: list[str]
) -> None:
    experiment = small_experiment(profiles=(PLAIN, doubling("fast", failing(0)), doubling("crashes", absent)),
                                  claims=(claim := small_experiment().claims[0],), headlines=(claim,))  # fmt: skip
    save_plan(plan_of(experiments=[experiment], include=(), device="cpu"), tmp_path)
    monkeypatch.setattr(profiled, "choose_experiments", lambda names: (experiment,))
    failures = tmp_path / "failures"
    monkeypatch.setattr(sys, "argv", ["profiled", str(tmp_path), "doubling", str(failures), f"{CASE}|crashes"])
    profiled.main()
    assert ranges == [f"{CASE}|plain"]
    assert [json.loads(line) for line in failures.read_text().splitlines()] == [
        [CASE, "fast", "RuntimeError: no such kernel in (path)"]
    ]
