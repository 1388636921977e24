"""The CPU's own clock: wall time, with the cache flushed and memory poisoned between calls."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.worker import cpu
from lab.worker.clock import Call, nothing
from lab.worker.cpu import CpuClock, last_level_cache_bytes


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing a whole cache before each sample would only take time."""
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 1 << 12)


def calls(*runs: Callable[[], Any]) -> list[Call]:
    return [Call(nothing, nothing, run) for run in runs]


@pytest.mark.parametrize("scope", CpuClock.scopes)
def test_each_call_is_timed_once_and_none_is_void(scope: str) -> None:
    block = CpuClock().block(scope, calls(*[lambda: torch.ones(3)] * 5), 0.0)
    assert len(block.seconds) == 5
    assert all(second > 0 for second in block.seconds)
    assert (block.void, block.spin_hertz) == (0, None)


@pytest.mark.parametrize("scope", CpuClock.scopes)
def test_each_call_is_prepared_then_touched_then_run_then_done(scope: str) -> None:
    events: list[str] = []
    order = ("prepare", "touch", "run", "done", "ended")
    parts = (lambda *output, name=name: events.append(name) for name in order)
    CpuClock().block(scope, [Call(*parts)] * 2, 0.0)
    assert events == [*order] * 2


def test_a_sleep_takes_about_as_long_as_it_lasts() -> None:
    block = CpuClock().block("device_cold", calls(*[lambda: time.sleep(0.02)] * 5), 0.0)
    assert 0.02 <= min(block.seconds) < 0.2  # of several: a busy machine may let one of them wait
    assert block.void == 0


def test_the_cache_is_flushed_before_a_cold_call_and_not_before_a_warm_one() -> None:
    events: list[str] = []
    clock = CpuClock()
    assert clock._flush_buffer.numel() * clock._flush_buffer.itemsize == 2 * clock.cache_bytes
    clock._flush_buffer = SimpleNamespace(sum=lambda: events.append("flush"))  # type: ignore[assignment]
    two = calls(*[lambda: events.append("call")] * 2)
    clock.block("device_warm", two, 0.0)
    assert events == ["call"] * 2
    clock.block("device_cold", two, 0.0)
    assert events == ["call"] * 2 + ["flush", "call"] * 2


@pytest.mark.parametrize("scope", CpuClock.scopes)
def test_each_result_is_shown_as_the_call_left_it(scope: str) -> None:
    outputs = [torch.full((3,), float(number)) for number in range(4)]
    shown: list[list[float]] = []
    runs = [Call(nothing, nothing, lambda y=y: y, lambda y: shown.append(y.tolist())) for y in outputs]
    CpuClock().block(scope, runs, 0.0)
    assert shown == [[float(number)] * 3 for number in range(4)]
    assert outputs[2].isnan().all(), "the call's own output is poisoned before the next"


def test_several_results_are_poisoned_together() -> None:
    pairs = [(torch.ones(3), torch.arange(3)) for _ in range(2)]
    CpuClock().block("device_cold", calls(*((lambda pair=pair: pair) for pair in pairs)), 0.0)
    assert pairs[0][0].isnan().all()
    assert torch.equal(pairs[0][1], torch.arange(3))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8_is_poisoned_too(dtype: torch.dtype) -> None:
    pairs = [(torch.ones(3).to(dtype), torch.ones(1)) for _ in range(2)]
    CpuClock().block("device_cold", calls(*((lambda pair=pair: pair) for pair in pairs)), 0.0)
    assert pairs[0][0].float().isnan().all()
    assert pairs[0][1].isnan().all()


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
    CpuClock().block("device_cold", calls(*[lambda: memory] * 2), 0.0)
    assert memory.isnan().all()


def test_a_result_is_released_before_the_next_call_so_that_its_memory_is_handed_out_again() -> None:
    alive: list[object] = []

    class CountedOutput:
        def __init__(self) -> None:
            alive.append(id(self))

        def __del__(self) -> None:
            alive.remove(id(self))

    counts: list[int] = []
    CpuClock().block("device_cold", [Call(lambda: counts.append(len(alive)), nothing, CountedOutput)] * 3, 0.0)
    assert counts == [0, 0, 0]


def test_integers_and_other_results_are_left_alone() -> None:
    numbers = torch.arange(3)
    CpuClock().block("device_cold", calls(lambda: numbers, lambda: None, lambda: (numbers, "text")), 0.0)
    assert torch.equal(numbers, torch.arange(3))


def test_only_the_run_is_timed() -> None:
    slow = Call(*[lambda: time.sleep(0.05)] * 2, nothing, lambda output: time.sleep(0.05))
    assert min(CpuClock().block("device_cold", [slow] * 5, 0.0).seconds) < 0.02


def test_what_a_call_raises_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        CpuClock().block("device_cold", calls(lambda: int("x")), 0.0)


def test_the_cpu_enqueues_and_captures_nothing() -> None:
    clock = CpuClock()
    assert clock.enqueue_seconds(calls(nothing, nothing)) == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="a CPU has no CUDA graphs"):
        clock.capture([nothing])


def test_the_cpu_has_floors_and_a_cache_and_neither_canary_nor_tampering() -> None:
    clock = CpuClock()
    work, empty = clock.floors()
    assert 0 < empty < work < 0.01
    assert clock.properties() == {"l2_bytes": 1 << 12}
    assert clock.cache_bytes == 1 << 12
    assert clock.canary() is None
    assert clock.tampering() == ""


def test_the_size_of_this_machines_cache_is_plausible() -> None:
    assert 1 << 18 <= last_level_cache_bytes() <= 1 << 34


def test_a_call_that_replaces_the_counter_for_a_moment_does_not_change_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a replacement undoes itself when it is asked, so that nobody finds it later."""
    monkeypatch.setattr(time, "perf_counter", real := time.perf_counter)

    def healing() -> None:
        def forged() -> float:
            time.perf_counter = real
            return real() - 10

        time.perf_counter = forged

    block = CpuClock().block("device_cold", calls(*[healing] * 3), 0.0)
    assert all(second >= 0 for second in block.seconds)
    assert time.perf_counter is not real, "it is there to be found"
