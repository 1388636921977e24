"""How samples are taken: on the CPU's own clock, and on a clock that only writes down what it is asked."""

import gc
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from lab import measure
from lab.errors import PlanError
from lab.measure import Block, Call, CpuClock, choose_device, time_case
from lab.plan import Protocol

QUICK = Protocol(warmup_seconds=0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Flushing a whole cache before each sample, and collecting all of torch's garbage, would only take time."""
    monkeypatch.setattr(measure, "last_level_cache_bytes", lambda: 1 << 12)
    gc.freeze()
    yield
    gc.unfreeze()


class Notebook:
    """A clock that calls, and notes each block as (calls, spin)."""

    def __init__(self, device: str = "cpu", enqueue: Sequence[float] = (0.0,), void: int = 0) -> None:
        self.device = device
        self.blocks: list[tuple[int, float]] = []
        self._enqueue = enqueue
        self._void = void

    def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
        self.blocks.append((len(calls), spin_seconds))
        output = None
        for call in calls:
            output = call()
        return Block((1e-5,) * (len(calls) - self._void), self._void, output)

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        return [self._enqueue[i % len(self._enqueue)] for i in range(len(calls))]

    def properties(self) -> dict[str, Any]:
        return {}

    def launch_floor_seconds(self) -> float:
        return 1e-6


class Trace:
    """Calls that write down (profile, ring index), with what time_case announced and verified."""

    def __init__(self, profiles: Sequence[str] = ("a", "b", "c"), ring: int = 3) -> None:
        self.events: list[tuple[str, Any]] = []
        self.verified: list[tuple[str, int, Any]] = []
        self.calls = {name: [partial(self._call, name, i) for i in range(ring)] for name in profiles}

    def _call(self, name: str, index: int) -> tuple[str, int]:
        self.events.append((name, index))
        return name, index

    def announce(self, name: str) -> None:
        self.events.append((name, "announced"))

    def verify(self, name: str, index: int, output: Any) -> None:
        self.verified.append((name, index, output))

    def run(self, clock: Any, protocol: Protocol = QUICK, seed: int = 1) -> dict[str, Any]:
        return time_case(clock, self.calls, protocol, random.Random(seed), self.verify, self.announce)

    def blocks(self) -> list[tuple[str, list[int]]]:
        """The timed blocks: what was called after each announcement, warm-up left out."""
        found: list[tuple[str, list[int]]] = []
        for name, what in self.events:
            if what == "announced":
                found.append((name, []))
            else:
                found[-1][1].append(what)
        return found[len(self.calls) :]


def test_rounds_and_blocks_are_as_planned() -> None:
    timings = Trace().run(Notebook())
    assert set(timings) == {"a", "b", "c"}
    for timing in timings.values():
        assert timing.scope == "device_cold"
        assert [len(block) for block in timing.rounds] == [10] * 6
        assert timing.void == (0,) * 6


def test_each_round_holds_one_block_of_each_profile_in_random_order() -> None:
    trace = Trace()
    trace.run(Notebook())
    order = [name for name, _ in trace.blocks()]
    rounds = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert len(rounds) == 6
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 1


def test_the_order_follows_from_the_seed() -> None:
    first, again, other = Trace(), Trace(), Trace()
    first.run(Notebook(), seed=1)
    again.run(Notebook(), seed=1)
    other.run(Notebook(), seed=2)
    assert first.events == again.events
    assert first.blocks() != other.blocks()


def test_each_call_takes_the_next_input_set_of_the_ring_across_blocks() -> None:
    trace = Trace(profiles=["a"])
    trace.run(Notebook())
    called = [index for _, indices in trace.blocks() for index in indices]
    assert called == [i % 3 for i in range(60)]


def test_every_profile_is_verified_once_with_the_last_output_of_a_block() -> None:
    trace = Trace()
    trace.run(Notebook())
    assert Counter(name for name, _, _ in trace.verified) == {"a": 1, "b": 1, "c": 1}
    assert all(output == (name, index) for name, index, output in trace.verified)


def test_the_block_that_is_verified_may_be_any() -> None:
    """Which one is drawn only after it was timed, so a profile cannot behave for the occasion."""
    rounds = set()
    for seed in range(60):
        trace = Trace(profiles=["a"])
        seen: list[int] = []

        def verify(name: str, index: int, output: Any, trace: Trace = trace, seen: list[int] = seen) -> None:
            seen.append(len(trace.blocks()))

        trace.verify = verify  # type: ignore[method-assign]
        trace.run(Notebook(), seed=seed)
        rounds.update(seen)
    assert rounds == {1, 2, 3, 4, 5, 6}


def test_a_profile_is_announced_before_any_of_its_code_runs() -> None:
    trace = Trace()
    trace.run(Notebook())
    announced = ""
    for name, what in trace.events:
        announced = name if what == "announced" else announced
        assert name == announced


def test_void_samples_are_counted_by_round() -> None:
    timing = Trace(profiles=["a"]).run(Notebook(void=4))["a"]
    assert timing.void == (4,) * 6
    assert [len(block) for block in timing.rounds] == [6] * 6


def test_a_profile_whose_samples_are_all_void_ends_all_the_same() -> None:
    class Void(Notebook):
        def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
            return Block((), len(calls), super().block(calls, spin_seconds).output)

    timing = Trace(profiles=["a"]).run(Void())["a"]
    assert timing.rounds == ((),) * 6


def test_the_spin_covers_the_slow_tail_of_enqueueing_and_not_its_median() -> None:
    enqueue = [20e-6] * 18 + [900e-6] * 2
    clock = Notebook("cuda", enqueue)
    timing = Trace(profiles=["a"]).run(clock)["a"]
    assert timing.enqueue_seconds == pytest.approx(20e-6)
    assert timing.spin_seconds == pytest.approx(1.5 * 900e-6)
    assert {spin for _, spin in clock.blocks} == {timing.spin_seconds}


def test_the_spin_is_never_shorter_than_the_protocol_says() -> None:
    assert Trace(profiles=["a"]).run(Notebook("cuda", [1e-6]))["a"].spin_seconds == QUICK.shortest_spin_seconds


def test_slow_cells_shrink_their_blocks_and_then_the_rounds_of_the_case() -> None:
    protocol = Protocol(warmup_seconds=0.005, cell_seconds=0.3)
    trace = Trace(profiles=["quick"])
    trace.calls["slow"] = [partial(time.sleep, 0.02)] * 3
    timings = trace.run(Notebook(), protocol)
    assert [len(block) for block in timings["slow"].rounds] == [3] * 4
    assert [len(block) for block in timings["quick"].rounds] == [10] * 4


def test_a_cell_that_is_a_little_slow_shrinks_its_block_only() -> None:
    protocol = Protocol(warmup_seconds=0.005, cell_seconds=0.2)
    trace = Trace(profiles=[])
    trace.calls["slow"] = [partial(time.sleep, 0.004)] * 3
    rounds = trace.run(Notebook(), protocol)["slow"].rounds
    assert len(rounds) == 6
    assert 3 <= len(rounds[0]) < 10


def test_warming_up_ends_when_three_windows_agree_and_otherwise_when_time_is_up() -> None:
    class Restless(Notebook):
        def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
            block = super().block(calls, spin_seconds)
            return Block((1e-5 * len(self.blocks),) * len(calls), 0, block.output)

    steady, restless = Notebook(), Restless()
    protocol = Protocol(warmup_seconds=0.05, rounds=1, fewest_rounds=1)
    Trace(profiles=["a"]).run(steady, protocol)
    began = time.perf_counter()
    Trace(profiles=["a"]).run(restless, protocol)
    assert len(steady.blocks) == 3 + 1
    assert len(restless.blocks) > 4
    assert time.perf_counter() - began < 2


def test_garbage_is_not_collected_while_samples_are_taken() -> None:
    seen = []

    class Watching(Notebook):
        def block(self, calls: Sequence[Call], spin_seconds: float) -> Block:
            seen.append(gc.isenabled())
            return super().block(calls, spin_seconds)

    Trace(profiles=["a"]).run(Watching())
    assert seen[-6:] == [False] * 6
    assert gc.isenabled()


def test_a_profile_that_raises_while_it_is_timed_is_not_hidden() -> None:
    trace = Trace(profiles=["a"])
    trace.calls["bad"] = [partial(int, "x")] * 3
    with pytest.raises(ValueError, match="invalid literal"):
        trace.run(Notebook())
    assert gc.isenabled()


# The CPU's clock


def test_the_cpu_clock_gives_a_time_for_each_call_and_the_last_result() -> None:
    outputs = iter([torch.ones(3), torch.ones(3), torch.full((3,), 7.0)])
    block = CpuClock().block([partial(next, outputs)] * 3, 0.0)
    assert len(block.seconds) == 3
    assert all(second > 0 for second in block.seconds)
    assert block.void == 0
    assert torch.equal(block.output, torch.full((3,), 7.0))


def test_a_sleep_takes_about_as_long_as_it_lasts() -> None:
    (seconds,) = CpuClock().block([partial(time.sleep, 0.02)], 0.0).seconds
    assert 0.02 <= seconds < 0.2


def test_each_result_is_poisoned_before_the_next_call_and_the_last_is_kept() -> None:
    """A kernel that writes nothing would otherwise find the right answer in its memory."""
    outputs: list[Tensor] = []

    def call() -> Tensor:
        if outputs:
            assert outputs[-1].isnan().all()
        outputs.append(torch.ones(5))
        return outputs[-1]

    block = CpuClock().block([call] * 4, 0.0)
    assert [bool(output.isnan().all()) for output in outputs] == [True, True, True, False]
    assert block.output is outputs[-1]


def test_a_call_that_writes_nothing_gives_nan() -> None:
    """Without poison the right result of the sample before would still lie there."""
    memory = torch.ones(5)
    block = CpuClock().block([lambda: memory] * 2, 0.0)
    assert block.output.isnan().all()


def test_integers_and_other_results_are_left_alone() -> None:
    numbers = torch.arange(3)
    CpuClock().block([lambda: numbers, lambda: None, lambda: (numbers, "text")], 0.0)
    assert torch.equal(numbers, torch.arange(3))


def test_a_whole_case_on_the_cpu_clock() -> None:
    inputs = [torch.full((64,), float(i)) for i in range(3)]
    verified = []

    def verify(name: str, index: int, output: Tensor) -> None:
        verified.append(torch.equal(output, inputs[index] * 2))

    calls = {name: [partial(torch.mul, x, 2) for x in inputs] for name in ("a", "b")}
    timings = time_case(CpuClock(), calls, QUICK, random.Random(1), verify, lambda name: None)
    assert verified == [True, True]
    assert all(second > 0 for timing in timings.values() for block in timing.rounds for second in block)


def test_the_cpu_has_a_launch_floor_and_a_cache() -> None:
    clock = CpuClock()
    assert 0 < clock.launch_floor_seconds() < 0.01
    assert clock.properties() == {"l2_bytes": 1 << 12}


def test_the_size_of_this_machines_cache_is_plausible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 1 << 18 <= measure.last_level_cache_bytes() <= 1 << 34


def test_cuda_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    assert choose_device("cpu") == "cpu"
    with pytest.raises(PlanError, match="torch sees no CUDA GPU here"):
        choose_device("cuda")


def test_a_gpu_is_chosen_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(wanted) for wanted in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]


# The GPU's clock


@pytest.mark.gpu
def test_on_a_gpu_a_large_copy_takes_about_its_bytes_over_the_bandwidth() -> None:
    from lab.machine import gpu_facts

    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    block = measure.make_clock("cuda", 10).block([partial(target.copy_, source)] * 10, 500e-6)
    shortest = 2 * source.nbytes / gpu_facts()["peak_bytes_per_second"]
    assert block.void == 0
    assert all(shortest < second < 2 * shortest for second in block.seconds)


@pytest.mark.gpu
def test_on_a_gpu_a_launch_that_the_host_is_late_for_is_void() -> None:
    x = torch.ones(8, device="cuda")

    def late() -> Tensor:
        time.sleep(0.005)
        return x + 1

    clock = measure.make_clock("cuda", 5)
    assert clock.block([late] * 5, 10e-6).void == 5
    in_time = clock.block([late] * 5, 20e-3)
    assert in_time.void == 0
    assert all(second < 1e-3 for second in in_time.seconds)


@pytest.mark.gpu
def test_on_a_gpu_each_result_is_poisoned_before_the_next_call() -> None:
    outputs: list[Tensor] = []

    def call() -> Tensor:
        outputs.append(torch.ones(5, device="cuda"))
        return outputs[-1]

    measure.make_clock("cuda", 5).block([call] * 3, 1e-3)
    assert [bool(output.isnan().all()) for output in outputs] == [True, True, False]


@pytest.mark.gpu
def test_on_a_gpu_an_empty_kernel_costs_a_few_microseconds() -> None:
    assert 5e-7 < measure.make_clock("cuda", 5).launch_floor_seconds() < 50e-6
