"""Timed outputs are checked, so that nothing but the work itself gives a right one; inputs are kept in order."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from trial import INPUT, QUICK, Profile, Trial, double

from lab import cpu
from lab.cpu import CpuClock
from lab.definition import SCOPES
from lab.measure import Subject


def double_in_place(x: Tensor) -> Tensor:
    return x.mul_(2)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_checked_sample_is_the_output_and_the_pristine_inputs_of_that_very_call(scope: str) -> None:
    trial = Trial()
    trial.run([scope])
    kept = [block for block in trial.clock.timed if block.keep >= 0]
    assert len(kept) == len(trial.samples) >= 3
    for block, (profile, of_scope, sample) in zip(kept, trial.samples, strict=True):
        contents, index = sample.arguments
        calls = len(block.called) // block.calls
        seen = {number: x for _, number, x in block.called[block.keep * calls : (block.keep + 1) * calls]}
        assert (profile, of_scope) == (block.profile, scope)
        assert torch.equal(seen[index], contents)
        assert torch.equal(sample.output, double(contents))


def test_every_profile_is_checked_in_every_scope_and_in_the_last_round_of_the_first() -> None:
    for seed in range(8):
        trial = Trial()
        trial.run(seed=seed)
        last = [block for block in trial.clock.rounds(3 * 4)[-1] if block.keep >= 0]
        assert {block.profile for block in last if block.scope == "device_cold"} == set("abc")
        counts = Counter((profile, scope) for profile, scope, _ in trial.samples)
        assert counts.keys() == set(product("abc", SCOPES))
        assert all(count == 1 for (_, scope), count in counts.items() if scope != "device_cold")
        assert all(count in (1, 2) for (_, scope), count in counts.items() if scope == "device_cold")


def test_the_rounds_and_the_calls_that_are_checked_may_be_any() -> None:
    """They are drawn beforehand in secret, so a profile cannot behave for the occasion."""
    rounds: dict[str, set[int]] = {"device_cold": set(), "device_warm": set()}
    calls = set()
    for seed in range(60):
        trial = Trial(["a"])
        trial.run(["device_cold", "device_warm"], seed=seed)
        for number, blocks in enumerate(trial.clock.rounds(2)):
            for block in blocks:
                if block.keep >= 0:
                    rounds[block.scope].add(number)
                    calls.add((block.scope, block.keep))
    assert all(numbers == set(range(QUICK.rounds)) for numbers in rounds.values())
    assert {keep for scope, keep in calls if scope == "device_warm"} == set(range(QUICK.block // 2))


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
    found = trial.run()
    assert {name: trial.right(name) for name in trial.subjects} == {name: {True} for name in "abc"}
    assert trial.accused == []
    assert {window.spin_hertz for window in found.windows} == {None}
    for timings in found.timings.values():
        assert [timing.scope for timing in timings] == ["device_cold", "device_warm"]
        assert all(second > 0 for timing in timings for block in timing.rounds for second in block)


@pytest.mark.parametrize(
    "key",
    [Tensor.data_ptr, lambda x: x.shape, lambda x: x[0, 0].item(), lambda x: x.abs().sum().item()],
    ids=["pointer", "shape", "first value", "sum of sizes"],
)
def test_a_profile_that_remembers_its_results_is_found(cpu_clock: CpuClock, key: Callable[[Tensor], object]) -> None:
    trial = Trial({"remembers": remembering(key), "honest": double}, cpu_clock)
    trial.run()
    assert False in trial.right("remembers")
    assert trial.right("honest") == {True}


def test_a_profile_that_stops_working_after_a_while_is_found(cpu_clock: CpuClock) -> None:
    calls = []

    def tired(x: Tensor) -> Tensor:
        calls.append(len(calls))
        return double(x) if len(calls) < QUICK.rounds * QUICK.block else torch.zeros_like(x)

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
    assert set(trial.accused) == {"writes"}
    assert trial.right("honest") == {True}
    honest = [block for block in trial.clock.timed if block.profile == "honest"]
    assert all(torch.equal(seen.abs(), INPUT) for block in honest for _, _, seen in block.called)


def test_a_profile_that_writes_to_its_inputs_is_reported_by_the_cpus_clock_too(cpu_clock: CpuClock) -> None:
    trial = Trial({"writes": double_in_place, "honest": double}, cpu_clock)
    trial.run()
    assert set(trial.accused) == {"writes"}
    assert trial.right("honest") == {True}


def test_an_in_place_profile_sees_restored_inputs_in_each_call_and_is_not_reported() -> None:
    trial = Trial({"overwrites": Subject(double_in_place, in_place=True), "honest": double})
    trial.run()
    assert trial.accused == []
    assert {name: trial.right(name) for name in trial.subjects} == {"overwrites": {True}, "honest": {True}}
    assert {scope for _, scope, _ in trial.samples} == set(SCOPES)
    assert all(torch.equal(seen.abs(), INPUT) for block in trial.clock.timed for _, _, seen in block.called)


def test_an_in_place_profile_on_the_cpus_clock(cpu_clock: CpuClock) -> None:
    trial = Trial({"overwrites": Subject(double_in_place, in_place=True), "honest": double}, cpu_clock)
    trial.run()
    assert trial.accused == []
    assert {name: trial.right(name) for name in trial.subjects} == {"overwrites": {True}, "honest": {True}}
