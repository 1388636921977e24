"""What ncu looks at, with ranges that only note their names: each profile's fault costs its own counters."""

import dataclasses
import json
import os
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
         "nowhere_to_be_found is not installed"),
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


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: list[str]) -> Callable[..., list[Any]]:
    """Runs the program on profiles of doubling, with an order or without; what it wrote."""

    def run(*profiles: Profile, order: dict[str, Any] | None, not_loaded: tuple[str, ...] = ()) -> list[Any]:
        experiment = small_experiment(profiles=(PLAIN, *profiles),
                                      claims=(claim := small_experiment().claims[0],), headlines=(claim,))  # fmt: skip
        save_plan(plan_of(experiments=[experiment], include=(), device="cpu"), tmp_path)
        monkeypatch.setattr(profiled, "choose_experiments", lambda names: (experiment,))
        failures, file = tmp_path / "failures", tmp_path / "order"
        file.write_text(json.dumps(order) if order else "")
        monkeypatch.setattr(sys, "argv", ["profiled", str(tmp_path), "doubling", str(failures), *not_loaded, str(file)])
        profiled.main()
        return [json.loads(line) for line in failures.read_text().splitlines()] if failures.exists() else []

    return run


def test_the_program_shows_the_planned_cells_but_those_of_its_order_and_writes_what_failed(
    program: Callable[..., list[Any]], ranges: list[str]
) -> None:
    order = {"left_out": [f"{CASE}|crashes"], "environment": {}}
    failed = program(doubling("fast", failing(0)), doubling("crashes", absent), order=order)
    assert ranges == [f"{CASE}|plain"]
    assert failed == [[CASE, "fast", "RuntimeError: no such kernel in (path)"]]


def test_profiles_are_loaded_before_the_order_and_called_after_it_with_its_variables(
    program: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "of nobody")
    seen: list[str] = []

    def load() -> Any:
        seen.append("load")
        return lambda x: seen.append(os.environ["TRITON_CACHE_DIR"])

    fast = doubling("fast", load)
    program(fast, order=None)
    assert seen == ["load"]
    seen.clear()
    program(fast, order={"left_out": [], "environment": {"TRITON_CACHE_DIR": "of a sweep"}})
    assert seen == ["load", "load", *["of a sweep"] * (CALLS_BEFORE + 1)]


def test_a_profile_that_took_a_process_down_is_not_loaded_ahead(program: Callable[..., list[Any]]) -> None:
    loaded: list[str] = []
    crashes = doubling("fast", lambda: loaded.append("fast"))
    program(crashes, order={"left_out": [f"{CASE}|fast"], "environment": {}}, not_loaded=("fast",))
    assert loaded == []
