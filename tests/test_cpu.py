"""The CPU's clock."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from lab import cpu
from lab.clock import Call, nothing
from lab.cpu import CpuClock, last_level_cache_bytes
from lab.device import choose_device
from lab.errors import PlanError


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Flushing a whole cache before each sample would only take time."""
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 1 << 12)
    yield


def calls(*runs: Callable[[], Any]) -> list[Call]:
    return [Call(nothing, nothing, run) for run in runs]


pytestmark = pytest.mark.usefixtures("small_cache")


def test_a_sleep_takes_about_as_long_as_it_lasts() -> None:
    block = CpuClock().block("device_cold", calls(lambda: time.sleep(0.02)), 0.0)
    assert 0.02 <= block.seconds[0] < 0.2
    assert block.void == 0


@pytest.mark.parametrize("scope", ["device_cold", "device_warm"])
def test_the_output_that_is_kept_is_a_copy_of_that_calls(scope: str) -> None:
    outputs = [torch.full((3,), float(number)) for number in range(4)]
    block = CpuClock().block(scope, calls(*((lambda y=y: y) for y in outputs)), 0.0, keep=2)
    assert torch.equal(block.kept, torch.full((3,), 2.0))
    assert block.kept.data_ptr() != outputs[2].data_ptr()


def test_each_result_is_poisoned_before_the_next_call() -> None:
    outputs: list[Tensor] = []

    def call() -> Tensor:
        if outputs:
            assert outputs[-1].isnan().all()
        outputs.append(torch.ones(5))
        return outputs[-1]

    CpuClock().block("device_cold", calls(*[call] * 4), 0.0)
    assert [bool(output.isnan().all()) for output in outputs] == [True, True, True, False]


def test_a_call_that_writes_nothing_gives_nan() -> None:
    memory = torch.ones(5)
    assert CpuClock().block("device_cold", calls(*[lambda: memory] * 2), 0.0, keep=1).kept.isnan().all()


def test_integers_and_other_results_are_left_alone() -> None:
    numbers = torch.arange(3)
    CpuClock().block("device_cold", calls(lambda: numbers, lambda: None, lambda: (numbers, "text")), 0.0, keep=2)
    assert torch.equal(numbers, torch.arange(3))


def test_preparing_and_touching_are_not_timed() -> None:
    slow = Call(lambda: time.sleep(0.05), lambda: time.sleep(0.05), nothing)
    assert CpuClock().block("device_cold", [slow], 0.0).seconds[0] < 0.02


def test_the_cpu_has_floors_no_canary_and_no_graphs() -> None:
    clock = CpuClock()
    work, empty = clock.floors()
    assert 0 <= empty < 0.01
    assert 0 < work < 0.01
    assert clock.canary() is None
    with pytest.raises(RuntimeError, match="no CUDA graphs"):
        clock.capture([])


def test_the_size_of_this_machines_cache_is_plausible() -> None:
    assert 1 << 18 <= last_level_cache_bytes() <= 1 << 34


def test_cuda_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    assert choose_device("cpu") == "cpu"
    with pytest.raises(PlanError, match="torch sees no CUDA GPU here"):
        choose_device("cuda")


def test_a_gpu_is_chosen_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(wanted) for wanted in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
