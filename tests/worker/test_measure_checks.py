"""Timed outputs are checked, so that nothing but the work itself gives a right one; inputs are kept in order."""

import weakref
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from trial import INPUT, QUICK, Profile, Trial, double

from lab.definition.experiment import SCOPES
from lab.definition.plan import Protocol
from lab.worker import cpu
from lab.worker.cpu import CpuClock
from lab.worker.deferred import remove_modes
from lab.worker.measure import Checked, Subject


def double_in_place(x: Tensor) -> Tensor:
    return x.mul_(2)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_checked_sample_is_the_output_and_the_pristine_inputs_of_one_call(scope: str) -> None:
    trial = Trial()
    trial.run([scope])
    assert len(trial.samples) >= 3
    for profile, of_scope, sample in trial.samples:
        contents, index = sample.arguments
        blocks = [block for block in trial.clock.timed if block.profile == profile]
        seen = [x for block in blocks for _, number, x in block.called if number == index]
        assert of_scope == scope
        assert sum(torch.equal(x, contents) for x in seen) >= 1
        assert torch.equal(sample.output, double(contents))


def test_every_profile_is_checked_in_every_scope_and_in_its_last_round() -> None:
    for seed in range(8):
        trial = Trial()
        trial.run(seed=seed)
        assert {(profile, scope) for profile, scope, _ in trial.samples} == set(product("abc", SCOPES))
        events = [event for event in trial.events if event[0] in ("ran", "checked")]
        last = [after for before, after in pairwise(events[-2 * 3 * 4 :]) if before[0] == "ran"]
        assert [what for what, _, _ in last] == ["checked"] * 3 * 4


def position(trial: Trial, sample: Checked) -> tuple[int, int]:
    """(round, call in the block) of a checked sample, found by the contents of its inputs."""
    for number, block in enumerate(trial.clock.timed):
        for call, (_, index, contents) in enumerate(block.called):
            if index == sample.arguments[1] and torch.equal(contents, sample.arguments[0]):
                return number, call
    raise AssertionError


def test_any_call_of_any_round_may_be_checked() -> None:
    protocol = Protocol(rounds=3, block=6, warmup_seconds=0.0, cell_seconds=1000.0)
    counts = Counter()
    for _ in range(150):
        trial = Trial(["a"])
        trial.run(["device_cold"], protocol)
        counts.update(position(trial, sample) for _, _, sample in trial.samples)
    last = {call: count for (number, call), count in counts.items() if number == 2}
    assert sum(last.values()) == 150
    assert set(last) == set(range(6))
    assert max(last.values()) < 3 * min(last.values()) + 10
    assert {number for number, _ in counts} == {0, 1, 2}


def test_a_set_changes_between_any_two_calls_that_see_it() -> None:
    trial = Trial(["a"])
    trial.run(["device_cold", "device_warm"])
    seen = [contents for block in trial.clock.timed for _, index, contents in block.called if index == 0]
    assert len(seen) > QUICK.rounds * QUICK.block // 2
    assert not any(torch.equal(before, after) for before, after in pairwise(seen))


# What no honest profile does, on the CPU's own clock


@pytest.fixture
def cpu_clock(monkeypatch: pytest.MonkeyPatch) -> CpuClock:
    """Flushing a whole cache before each sample would only take time."""
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 1 << 12)
    return CpuClock()


def remembering(key: Callable[[Tensor], object]) -> Profile:
    results: dict[object, Tensor] = {}

    def function(x: Tensor) -> Tensor:
        known = key(x)
        if known not in results:
            results[known] = double(x)
        return results[known].clone()

    return function


def test_honest_profiles_are_found_right(cpu_clock: CpuClock) -> None:
    trial = Trial(clock=cpu_clock)
    result = trial.run()
    assert {name: trial.right(name) for name in trial.subjects} == {name: {True} for name in "abc"}
    assert trial.accused == []
    assert {window.spin_hertz for window in result.windows} == {None}
    for timings in result.timings.values():
        assert [timing.scope for timing in timings] == ["device_cold", "device_warm"]
        assert all(second > 0 for timing in timings for block in timing.rounds for second in block)


@pytest.mark.parametrize(
    "key",
    [Tensor.data_ptr, lambda x: x.shape, lambda x: x[0, 0].item()],
    ids=["pointer", "shape", "first value"],
)
def test_a_profile_that_remembers_its_results_is_found(cpu_clock: CpuClock, key: Callable[[Tensor], object]) -> None:
    """Which outputs are looked at is drawn, and one whose key has just changed is right: a few trials find it."""
    answers: set[bool] = set()
    for _ in range(4):
        trial = Trial({"remembers": remembering(key), "honest": double}, cpu_clock)
        trial.run()
        answers |= trial.right("remembers")
        assert trial.right("honest") == {True}
        if False in answers:
            break
    assert False in answers


def test_a_profile_that_stops_working_after_a_while_is_found(cpu_clock: CpuClock) -> None:
    """In the middle of the timed calls: how many calls come before them depends on how busy the machine is."""
    calls = []

    def tired(x: Tensor) -> Tensor:
        calls.append(len(calls))
        return double(x) if len(calls) < QUICK.rounds * QUICK.block // 2 else torch.zeros_like(x)

    trial = Trial({"tired": tired}, cpu_clock)
    trial.run(["device_cold"])
    assert False in trial.right("tired")


def test_a_profile_that_gives_back_what_it_has_not_written_is_found(cpu_clock: CpuClock) -> None:
    memory: list[Tensor] = []

    def idle(x: Tensor) -> Tensor:
        memory.append(memory[0] if memory else double(x))
        return memory[0]

    trial = Trial({"idle": idle}, cpu_clock)
    trial.run()
    assert all(sample.output.isnan().all() for _, _, sample in trial.samples)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_profile_that_writes_to_its_inputs_is_reported_and_the_others_see_right_ones(scope: str) -> None:
    trial = Trial({"writes": double_in_place, "honest": double})
    trial.run([scope])
    assert set(trial.accused) == {("writes", "an input was changed by a timed call")}
    assert trial.right("honest") == {True}
    honest = [block for block in trial.clock.timed if block.profile == "honest"]
    assert all(torch.isin(seen, INPUT).all() for block in honest for _, _, seen in block.called)


def test_a_profile_that_writes_to_its_inputs_is_reported_by_the_cpus_clock_too(cpu_clock: CpuClock) -> None:
    trial = Trial({"writes": double_in_place, "honest": double}, cpu_clock)
    trial.run()
    assert set(trial.accused) == {("writes", "an input was changed by a timed call")}
    assert trial.right("honest") == {True}


def test_an_in_place_profile_sees_restored_inputs_in_each_call_and_is_not_reported() -> None:
    trial = Trial({"overwrites": Subject(double_in_place, in_place=True), "honest": double})
    trial.run()
    assert trial.accused == []
    assert {name: trial.right(name) for name in trial.subjects} == {"overwrites": {True}, "honest": {True}}
    assert {scope for _, scope, _ in trial.samples} == set(SCOPES)
    assert all(torch.isin(seen, INPUT).all() for block in trial.clock.timed for _, _, seen in block.called)


def test_an_in_place_profile_on_the_cpus_clock(cpu_clock: CpuClock) -> None:
    trial = Trial({"overwrites": Subject(double_in_place, in_place=True), "honest": double}, cpu_clock)
    trial.run()
    assert trial.accused == []
    assert {name: trial.right(name) for name in trial.subjects} == {"overwrites": {True}, "honest": {True}}


def test_work_that_is_put_off_until_the_result_is_dropped_is_charged() -> None:
    def ahead(x: Tensor) -> Tensor:
        y = double(x)
        weakref.finalize(y, lambda: None)
        return y

    for scope in SCOPES:
        trial = Trial({"ahead": ahead, "honest": double})
        trial.run([scope])
        assert {profile for profile, _ in trial.accused} == {"ahead"}
        assert "could set off work when dropped" in trial.accused[0][1]


def test_a_mode_that_is_left_active_for_a_while_is_charged_although_it_goes_away(cpu_clock: CpuClock) -> None:
    """The judges' own calls would do the work, before the mode is noticed at the end of the block."""

    class PassiveMode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    entered: list[PassiveMode] = []

    def lazy(x: Tensor) -> Tensor:
        if entered:
            entered.pop().__exit__(None, None, None)
        else:
            entered.append(PassiveMode())
            entered[0].__enter__()
        return double(x)

    try:
        trial = Trial({"lazy": lazy}, cpu_clock)
        trial.run(["device_cold"])
    finally:
        remove_modes()
    assert ("lazy", "left a torch mode active, which could compute a result when it is looked at") in trial.accused
