"""How the samples of a case are taken, seen by a clock that only records what it is asked."""

import gc
import time
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor
from trial import QUICK, Notebook, Replayed, Trial, double

from lab.definition.experiment import SCOPES
from lab.definition.plan import PlannedCase, Protocol
from lab.worker.clock import Block, Call
from lab.worker.measure import LARGEST_ROTATION, rotation


class Restless(Notebook):
    """A clock by which windows never agree: samples take twice as long every other time."""

    def sample_seconds(self) -> float:
        return 1e-5 * (1 + len(self.asked) % 2)


# Rounds, blocks, order


def test_every_profile_has_one_block_of_each_scope_in_every_round() -> None:
    trial = Trial()
    result = trial.run()
    rounds = trial.clock.rounds(3 * len(SCOPES))
    assert len(rounds) == len(result.windows) == QUICK.rounds
    for blocks in rounds:
        assert sorted((block.profile, block.scope) for block in blocks) == sorted(product("abc", SCOPES))
    for timings in result.timings.values():
        assert tuple(timing.scope for timing in timings) == SCOPES
        assert all(len(timing.rounds) == len(timing.void) == QUICK.rounds for timing in timings)


def test_scopes_and_profiles_come_in_random_order_scope_by_scope() -> None:
    trial = Trial()
    trial.run()
    orders = []
    for blocks in trial.clock.rounds(3 * len(SCOPES)):
        scopes = [block.scope for block in blocks[::3]]
        assert [block.scope for block in blocks] == [scope for scope in scopes for _ in range(3)]
        orders.append((tuple(scopes), tuple(block.profile for block in blocks[:3])))
    assert len({scopes for scopes, _ in orders}) > 1
    assert len({profiles for _, profiles in orders}) > 1


def test_the_order_follows_from_the_seed_and_not_from_how_long_warming_up_takes() -> None:
    def order(clock: Notebook, seed: int) -> list[Any]:
        Trial(clock=clock).run(seed=seed)
        return [(block.scope, block.profile, block.indices[: block.calls]) for block in clock.timed]

    assert order(Notebook(), 1) == order(Notebook(), 1) == order(Restless(), 1)
    assert order(Notebook(), 1) != order(Notebook(), 2)


def test_the_first_scope_gets_whole_blocks_most_others_half_and_a_dirty_cache_a_quarter() -> None:
    (timings,) = Trial(["a"]).run().timings.values()
    assert [len(timing.rounds[0]) for timing in timings] == [QUICK.block, *(3 * [QUICK.block // 2]), QUICK.block // 4]


def test_scopes_that_the_clock_does_not_know_are_left_out_and_the_first_of_the_rest_leads() -> None:
    class Bounded(Notebook):
        scopes = ("device_cold", "device_warm")

    (timings,) = Trial(["a"], Bounded()).run(("graph", "device_warm", "device_cold")).timings.values()
    assert [timing.scope for timing in timings] == ["device_cold", "device_warm"]
    assert [len(timing.rounds[0]) for timing in timings] == [QUICK.block, QUICK.block // 2]


def test_cold_calls_go_round_the_first_sets_warm_ones_stay_on_one_and_eager_ones_go_round_all() -> None:
    trial = Trial(["a"])
    trial.run()
    sets = {"device_cold": 3, "device_dirty": 3, "device_warm": 1, "eager": 5}
    for block in trial.clock.timed:
        if block.scope != "graph":
            first, count = block.indices[0], sets[block.scope]
            assert block.indices[: block.calls] == [(first + number) % count for number in range(block.calls)]


def test_after_a_warm_call_that_is_checked_the_cache_is_warmed_again() -> None:
    """Of the last round a call or more are copied: the copies would leave the next sample a cold cache."""
    trial = Trial(["a"])
    trial.run()
    last = {block.scope: block for block in trial.clock.timed}
    assert len(last["device_warm"].indices) > last["device_warm"].calls
    for scope in ("device_cold", "eager"):
        assert len(last[scope].indices) == last[scope].calls


def test_each_call_of_a_graph_goes_round_all_sets_and_its_time_is_that_of_one() -> None:
    trial = Trial(["a"])
    (timings,) = trial.run().timings.values()
    for block in trial.clock.timed:
        if block.scope == "graph":
            assert block.indices == list(range(5)) * block.calls
    assert {timing.scope: timing.calls_per_sample for timing in timings} == dict.fromkeys(SCOPES, 1) | {"graph": 5}
    seconds = {timing.scope: {second for block in timing.rounds for second in block} for timing in timings}
    assert seconds == {scope: {2e-6 if scope == "graph" else 1e-5} for scope in SCOPES}


@pytest.mark.parametrize("scope", ["device_warm", "graph"])
def test_the_first_call_after_a_change_of_the_cache_is_not_timed(scope: str) -> None:
    trial = Trial(["a", "b"])
    trial.run()
    pairs = [(before, block) for before, block in pairwise(trial.clock.asked) if block.timed and block.scope == scope]
    assert len(pairs) == QUICK.rounds * 2
    for before, block in pairs:
        assert (before.scope, before.calls, before.timed) == (scope, 1, False)
        assert before.profile == block.profile


# Budgets


class SimulatedTime:
    """Goes on by a little with each look at it, and by as much as somebody sleeps: no machine is too busy for it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1e-4
        return self.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    time = SimulatedTime()
    monkeypatch.setattr("lab.worker.measure.time", time)
    return time


def test_slow_cells_shrink_their_blocks_and_then_the_rounds_of_the_case(simulated: SimulatedTime) -> None:
    trial = Trial({"quick": double, "slow": lambda x: simulated.sleep(0.02)})
    result = trial.run(["device_cold"], Protocol(warmup_seconds=0.005, cell_seconds=0.3))
    assert [len(block) for block in result.timings["slow"][0].rounds] == [3] * 4
    assert [len(block) for block in result.timings["quick"][0].rounds] == [20] * 4
    assert len(result.windows) == 4


def test_a_cell_that_is_a_little_slow_shrinks_its_block_only(simulated: SimulatedTime) -> None:
    trial = Trial({"slow": lambda x: simulated.sleep(0.002)})
    (timing,) = trial.run(["device_cold"], Protocol(warmup_seconds=0.005, cell_seconds=0.2)).timings["slow"]
    assert len(timing.rounds) == 6
    assert 3 <= len(timing.rounds[0]) < 20


def test_a_scope_other_than_the_first_does_not_cost_the_case_its_rounds(simulated: SimulatedTime) -> None:
    class Slow(Notebook):
        def sample_seconds(self) -> float:
            if self.asked[-1].scope == "eager":
                simulated.sleep(0.1)
            return 1e-5

    cold, eager = Trial(["a"], Slow()).run(["device_cold", "eager"], Protocol(cell_seconds=0.6)).timings["a"]
    assert [len(block) for block in cold.rounds] == [20] * 6
    assert [len(block) for block in eager.rounds] == [3] * 6


@pytest.mark.usefixtures("simulated")
def test_warming_up_ends_when_three_windows_agree_and_otherwise_when_time_is_up() -> None:
    steady, restless = Notebook(), Restless()
    protocol = Protocol(warmup_seconds=0.05, rounds=1, fewest_rounds=1)
    for clock in (steady, restless):
        Trial(["a"], clock).run(["device_cold"], protocol)
    assert len(steady.asked) == 3 + 1
    assert 100 < len(restless.asked) < 500


@pytest.mark.parametrize("scopes", [("device_cold", "graph", "eager"), ("graph", "eager", "device_cold")])
def test_the_spin_covers_the_slow_tail_of_enqueueing_and_not_its_median(scopes: tuple[str, ...]) -> None:
    clock = Notebook([20e-6] * 18 + [900e-6] * 2)
    cold, graph, eager = Trial(["a"], clock).run(scopes).timings["a"]
    for timing in (cold, graph):
        assert timing.enqueue_seconds == pytest.approx(20e-6)
        assert timing.spin_seconds == pytest.approx(1.5 * 900e-6)
        assert {block.spin_seconds for block in clock.asked if block.scope == timing.scope} == {timing.spin_seconds}
    assert (eager.enqueue_seconds, eager.spin_seconds) == (0.0, 0.0)


@pytest.mark.parametrize(("call_seconds", "expected"), [(0.05, 5), (0.001, 20)])
def test_long_calls_are_paced_by_fewer_of_them(simulated: SimulatedTime, call_seconds: float, expected: int) -> None:
    """A whole model's call lasts tens of milliseconds, and twenty would take longer than all samples."""
    paced: list[int] = []

    class Slow(Notebook):
        def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
            simulated.sleep(call_seconds * len(calls))
            paced.append(len(calls))
            return super().enqueue_seconds(calls)

    Trial(["a"], Slow()).run(["device_cold"], Protocol(warmup_seconds=0.005))
    assert sum(paced) == expected


def test_a_graph_has_a_spin_of_its_own_whatever_the_order_of_the_scopes() -> None:
    class Counting(Notebook):
        def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
            """A millisecond for each call of a profile that a sample makes."""
            before = len(trial.events)
            calls[0].run()
            return [1e-3 * (len(trial.events) - before)] * len(calls)

    for scopes in (SCOPES, SCOPES[::-1]):
        trial = Trial(["a"], Counting())
        cold, warm, graph, _, dirty = trial.run(scopes).timings["a"]
        assert (cold.enqueue_seconds, warm.enqueue_seconds, graph.enqueue_seconds) == (1e-3, 1e-3, 5e-3)
        assert dirty.enqueue_seconds == 1e-3


def test_the_spin_is_never_shorter_than_the_protocol_says() -> None:
    (timing,) = Trial(["a"], Notebook([1e-6])).run(["device_cold"]).timings["a"]
    assert timing.spin_seconds == QUICK.shortest_spin_seconds


def test_void_samples_are_counted_by_round() -> None:
    (timing,) = Trial(["a"], Notebook(void=4)).run(["device_cold"]).timings["a"]
    assert timing.void == (4,) * 6
    assert [len(block) for block in timing.rounds] == [QUICK.block - 4] * 6


def test_a_profile_whose_samples_are_all_void_ends_all_the_same() -> None:
    class Void(Notebook):
        def block(self, *asked: Any) -> Block:
            block = super().block(*asked)
            return Block((), len(block.seconds))

    (timing,) = Trial(["a"], Void()).run(["device_cold"]).timings["a"]
    assert timing.rounds == ((),) * 6
    assert timing.void == (QUICK.block,) * 6


def test_each_round_has_a_window_with_the_lowest_clock_that_was_seen_in_it() -> None:
    trial = Trial()
    began = time.monotonic()
    windows = trial.run().windows
    moments = [moment for window in windows for moment in (window.begin_seconds, window.end_seconds)]
    moments = [began, *moments, time.monotonic()]
    assert moments == sorted(moments)
    lowest = [min(block.spin_hertz for block in blocks) for blocks in trial.clock.rounds(3 * len(SCOPES))]
    assert [window.spin_hertz for window in windows] == lowest


# Graphs


def test_a_profile_that_cannot_be_captured_is_measured_in_the_other_scopes() -> None:
    refusal = RuntimeError("  operation not permitted when stream is capturing\nCUDA kernel errors might ...")
    result = Trial(["a", "b"], Notebook(refuses=refusal)).run()
    reasons = {"graph": "operation not permitted when stream is capturing"}
    assert result.unmeasured == {"a": reasons, "b": reasons}
    for timings in result.timings.values():
        assert [timing.scope for timing in timings] == ["device_cold", "device_warm", "eager", "device_dirty"]
        assert all(len(timing.rounds) == QUICK.rounds for timing in timings)


def test_a_refusal_to_be_captured_costs_no_other_profile_its_graph() -> None:
    def refuses(x: Tensor) -> Tensor:
        if trial.events[-2:] == [("announced", "refuses", "time"), ("called", "refuses", 0)]:
            raise TypeError  # of whatever kind, and without a word
        return double(x)

    trial = Trial({"refuses": refuses, "captures": double})
    result = trial.run(["graph"])
    assert result.unmeasured == {"refuses": {"graph": "TypeError"}, "captures": {}}
    assert [timing.scope for timing in result.timings["captures"]] == ["graph"]
    assert result.timings["refuses"] == ()


def test_a_graph_that_writes_no_output_shows_nan_in_what_is_checked() -> None:
    class Idle(Replayed):
        def replay(self) -> None:
            pass

    class Forgetful(Notebook):
        def capture(self, runs: Sequence[Callable[[], Any]]) -> Replayed:
            return Idle(runs)

    trial = Trial(["a"], Forgetful())
    trial.run(["device_cold", "graph"])
    outputs = [sample.output for _, scope, sample in trial.samples if scope == "graph"]
    assert outputs
    assert all(output.isnan().all() for output in outputs)


def test_a_graph_that_works_only_on_what_changed_shows_nan_in_what_is_checked() -> None:
    """Its results would be right and its time a fraction of what the work takes."""

    class LazyGraph(Replayed):
        def __init__(self, runs: Sequence[Callable[[], Any]]) -> None:
            super().__init__(runs)
            self._last = [run() for run in runs]

        def replay(self) -> None:
            for output, last, run in zip(self.outputs, self._last, self._runs, strict=True):
                if not torch.equal(last, fresh := run()):
                    output.copy_(last.copy_(fresh))

    class LazyGraphClock(Notebook):
        def capture(self, runs: Sequence[Callable[[], Any]]) -> Replayed:
            return LazyGraph(runs)

    def seen_right() -> set[bool]:
        trial = Trial(["a"], LazyGraphClock(), sets=64)
        trial.run(["graph"], Protocol(block=2, rounds=8, warmup_seconds=0.0, cell_seconds=1000.0))
        return trial.right("a")

    # Two or so results of a cell are checked, however many rounds it has: once in 60 times all happen to be right.
    assert any(False in seen_right() for _ in range(8))


def test_any_call_of_a_graph_may_be_checked() -> None:
    """Else a profile could leave out the work of those that never are."""
    checked = set()
    for seed in range(200):
        trial = Trial(["a"], sets=12)
        trial.run(["graph"], Protocol(block=4, rounds=1, warmup_seconds=0.0, cell_seconds=1000.0), seed=seed)
        checked |= {sample.arguments[1] for _, _, sample in trial.samples}
    assert checked == set(range(12))


# What is told meanwhile


def test_a_profile_is_announced_before_any_of_its_code_runs_and_before_its_output_is_judged() -> None:
    trial = Trial()
    trial.run()
    announced = None
    for what, profile, more in trial.events:
        if what == "announced":
            announced = (profile, more)
        else:
            assert announced == (profile, "verify" if what == "checked" else "time")
    assert {what for what, _, _ in trial.events} == {"announced", "called", "ran", "checked"}


def test_warming_up_and_each_block_end_with_word_that_the_profile_ran() -> None:
    trial = Trial()
    trial.run()
    events = [(what, profile) for what, profile, _ in trial.events]
    for before, (what, profile), after in zip(events, events[1:], [*events[2:], None], strict=False):
        if what == "ran":
            assert before == ("called", profile)
            assert after in [None, *(("announced", name) for name in "abc")]
    assert events.count(("ran", "a")) == 1 + QUICK.rounds * len(SCOPES)


def test_garbage_is_not_collected_while_samples_are_taken() -> None:
    seen = []

    class Watching(Notebook):
        def sample_seconds(self) -> float:
            seen.append(gc.isenabled())
            return 1e-5

    Trial(["a"], Watching()).run(["device_cold"])
    assert set(seen) == {True, False}
    assert seen == sorted(seen, reverse=True), "collected while warming up, and not once after that"
    assert gc.isenabled()


def test_what_a_profile_raises_while_it_is_timed_is_not_hidden() -> None:
    collecting = []

    def failing(x: Tensor) -> Tensor:
        collecting.append(gc.isenabled())
        return double(x) if collecting[-1] else torch.tensor(int("x"))

    with pytest.raises(ValueError, match="invalid literal"):
        Trial({"a": double, "bad": failing}).run()
    assert collecting[-1] is False
    assert gc.isenabled()


@pytest.mark.parametrize("kind", [TypeError, AssertionError, ValueError, RuntimeError])
def test_whatever_a_capture_raises_is_the_reason_why_there_is_no_graph(kind: type[Exception]) -> None:
    result = Trial(["a"], Notebook(refuses=kind("not in a graph"))).run()
    assert result.unmeasured == {"a": {"graph": "not in a graph"}}
    assert [timing.scope for timing in result.timings["a"]] == ["device_cold", "device_warm", "eager", "device_dirty"]


# How many sets a graph goes round


@pytest.mark.parametrize(
    ("read_mib", "written_mib", "memory_mib", "profiles", "sets"),
    [
        (6, 4, 80 << 10, 5, 15),  # three times a cache of 50 MiB
        (6, 5, 80 << 10, 5, 14),  # rounded up
        (0.001, 0.001, 80 << 10, 5, LARGEST_ROTATION),
        (200, 200, 80 << 10, 5, 3),  # one would outgrow the cache; the protocol asks for three
        # A set, its shadow, and the outputs of five profiles and the control, in a third of the memory.
        (6, 4, 3 * (2 * 6 + 6 * 4) * 6, 5, 6),
        (6, 4, 3 * (2 * 6 + 6 * 4) * 3, 5, 3),
        (6, 4, 3 * (2 * 6 + 6 * 4) * 3 - 1, 5, 0),  # not even three fit
        (6, 4, 3 * (2 * 6 + 6 * 4) * 3, 6, 0),  # nor with one profile more
        (6, 4, 0, 5, 3),  # memory unknown
        (1024, 1024, 80 << 10, 2, 3),  # the largest copy of gpu-ceilings
        (2048, 0.5, 80 << 10, 2, 3),  # and the largest read
    ],
)
def test_sets_outgrow_the_cache_as_far_as_they_fit_the_memory(
    read_mib: float, written_mib: float, memory_mib: int, profiles: int, sets: int
) -> None:
    case = PlannedCase(
        name="c", op="o", shape=(1,), dtype="float32", description="", included=True, only_with="", flops=0,
        read_bytes=int(read_mib * (1 << 20)), written_bytes=int(written_mib * (1 << 20)),
    )  # fmt: skip
    assert rotation(case, 50 << 20, memory_mib << 20, profiles, 3) == sets
