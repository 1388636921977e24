"""How samples are taken: on the CPU's own clock, and on a clock that only writes down what it is asked."""

import gc
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.clock import Block, Call
from lab.cpu import CpuClock
from lab.measure import CaseTimer, CaseTimings, Checked, Subject, Witness, rotation
from lab.plan import Protocol
from lab.ring import Ring, copies

QUICK = Protocol(warmup_seconds=0.004, cell_seconds=10.0, block=8)
SCOPES = ("device_cold", "device_warm", "graph", "eager")


class Notebook:
    """A clock that calls, and notes each block as (scope, samples, spin)."""

    device = "cuda"
    cache_bytes = 1 << 20

    def __init__(self, enqueue: Sequence[float] = (1e-6,), void: int = 0, refusal: str = "") -> None:
        self.scopes: tuple[str, ...] = SCOPES
        self.blocks: list[tuple[str, int, float]] = []
        self._enqueue, self._void, self._refusal = enqueue, void, refusal

    def block(self, scope: str, calls: Sequence[Call], spin_seconds: float, keep: int = -1) -> Block:
        self.blocks.append((scope, len(calls), spin_seconds))
        kept = None
        for number, call in enumerate(calls):
            call.prepare()
            call.touch()
            output = call.run()
            if number == keep:
                kept = output.clone()
        return Block((1e-5,) * (len(calls) - self._void), min(self._void, len(calls)), kept, 1.9e9)

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        for call in calls:
            call.prepare()
            call.touch()
            call.run()
        return [self._enqueue[i % len(self._enqueue)] for i in range(len(calls))]

    def capture(self, runs: Sequence[Callable[[], Any]]) -> Any:
        if self._refusal:
            raise RuntimeError(self._refusal)
        return Replayed(runs)

    def properties(self) -> dict[str, Any]:
        return {}

    def floors(self) -> tuple[float, float]:
        return 2e-6, 1e-6

    def canary(self) -> tuple[float, float] | None:
        return None

    def tampering(self) -> str:
        return ""


class Replayed:
    def __init__(self, runs: Sequence[Callable[[], Any]]) -> None:
        self._runs = runs
        self.outputs = [run() for run in runs]

    def replay(self) -> None:
        for output, run in zip(self.outputs, self._runs, strict=True):
            output.copy_(run())


class Diary(Witness):
    """Everything that the protocol tells, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.samples: list[tuple[str, str, Checked]] = []

    def announce(self, profile: str, stage: str) -> None:
        self.events.append(("announce", profile))

    def checked(self, profile: str, scope: str, sample: Checked) -> None:
        self.samples.append((profile, scope, sample))

    def written(self, profile: str) -> None:
        self.events.append(("written", profile))

    def ran(self, profile: str) -> None:
        self.events.append(("ran", profile))


def double(x: Tensor) -> Tensor:
    return x * 2


def timed(
    functions: dict[str, Any],
    clock: Any = None,
    protocol: Protocol = QUICK,
    seed: int = 1,
    scopes: Sequence[str] = SCOPES,
    sets: int = 5,
) -> tuple[CaseTimings, Diary, Any]:
    clock, diary = clock or Notebook(), Diary()
    subjects = {name: f if isinstance(f, Subject) else Subject(f) for name, f in functions.items()}
    ring = Ring(copies([(torch.randn(16, 8),) for _ in range(3)], sets), random.Random(seed))
    timer = CaseTimer(clock, subjects, ring, scopes, protocol, random.Random(seed), diary)
    return timer.time(), diary, clock


def wrong(diary: Diary, profile: str) -> list[str]:
    """The scopes in which a checked output of the profile is not what its inputs ask for."""
    return [
        scope
        for name, scope, sample in diary.samples
        if name == profile and not torch.equal(sample.output, sample.arguments[0] * 2)
    ]


def test_every_profile_has_a_block_of_every_scope_in_every_round() -> None:
    found, _, _ = timed({"a": double, "b": double})
    for timings in found.timings.values():
        assert [timing.scope for timing in timings] == list(SCOPES)
        assert [len(block) for block in timings[0].rounds] == [8] * 6
        assert all(len(block) == 4 for timing in timings[1:] for block in timing.rounds)
    assert len(found.windows) == 6
    assert all(window.begin_seconds < window.end_seconds for window in found.windows)
    assert {window.spin_hertz for window in found.windows} == {1.9e9}


def test_scopes_and_profiles_come_in_an_order_that_follows_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        _, diary, clock = timed({"a": double, "b": double, "c": double}, seed=seed)
        ran = [name for event, name in diary.events if event == "ran"]
        rounds = [tuple(ran[i : i + 12]) for i in range(0, 72, 12)]
        assert all(Counter(names) == {"a": 4, "b": 4, "c": 4} for names in rounds)
        assert len(set(rounds)) > 1
        return [scope for scope, _, _ in clock.blocks]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_each_scope_goes_round_its_own_sets() -> None:
    seen: dict[str, set[int]] = {}
    clock = Notebook()

    def note(x: Tensor) -> Tensor:
        seen.setdefault(clock.blocks[-1][0] if clock.blocks else "", set()).add(x.data_ptr())
        return x * 2

    timed({"a": note}, clock)
    assert len(seen["device_cold"]) == 3
    assert len(seen["device_warm"]) == 1
    assert len(seen["eager"]) == 4  # samples of a block; five sets
    assert len(seen["graph"]) == 5


def test_the_spin_covers_the_slow_tail_of_enqueueing_and_not_its_median() -> None:
    found, _, clock = timed({"a": double}, Notebook([20e-6] * 18 + [900e-6] * 2))
    cold = found.timings["a"][0]
    assert cold.enqueue_seconds == pytest.approx(20e-6)
    assert cold.spin_seconds == pytest.approx(1.5 * 900e-6)
    assert {spin for scope, _, spin in clock.blocks if scope == "eager"} == {0.0}


def test_the_spin_is_never_shorter_than_the_protocol_says() -> None:
    found, _, _ = timed({"a": double})
    assert found.timings["a"][0].spin_seconds == QUICK.shortest_spin_seconds


def test_void_samples_are_counted_by_round() -> None:
    found, _, _ = timed({"a": double}, Notebook(void=3))
    assert found.timings["a"][0].void == (3,) * 6
    assert [len(block) for block in found.timings["a"][0].rounds] == [5] * 6


def test_a_replay_is_divided_by_its_calls() -> None:
    found, _, _ = timed({"a": double}, sets=5)
    graph = found.timings["a"][2]
    assert graph.calls_per_sample == 5
    assert {second for block in graph.rounds for second in block} == {2e-6}


def test_a_capture_that_is_refused_leaves_that_scope_unmeasured_and_the_others_not() -> None:
    found, _, _ = timed({"a": double}, Notebook(refusal="no graph of this"))
    assert found.unmeasured["a"] == {"graph": "no graph of this"}
    assert [timing.scope for timing in found.timings["a"]] == ["device_cold", "device_warm", "eager"]


def test_slow_cells_shrink_their_blocks_and_then_the_rounds_of_the_case() -> None:
    protocol = Protocol(warmup_seconds=0.004, cell_seconds=0.3, block=8)

    def slow(x: Tensor) -> Tensor:
        time.sleep(0.03)
        return x * 2

    found, _, _ = timed({"quick": double, "slow": slow}, protocol=protocol, scopes=("device_cold",))
    assert [len(block) for block in found.timings["slow"][0].rounds] == [3] * 4
    assert [len(block) for block in found.timings["quick"][0].rounds] == [8] * 4


def test_a_checked_sample_is_an_output_with_the_inputs_of_that_very_call() -> None:
    _, diary, _ = timed({"a": double, "b": double})
    assert Counter(scope for name, scope, _ in diary.samples if name == "a").keys() == set(SCOPES)
    assert wrong(diary, "a") == wrong(diary, "b") == []


def test_any_round_may_be_checked_and_the_last_of_the_first_scope_always_is() -> None:
    rounds: Counter[int] = Counter()
    for seed in range(40):
        ran = 0

        class Counting(Diary):
            def ran(self, profile: str) -> None:
                nonlocal ran
                ran += 1

            def checked(self, profile: str, scope: str, sample: Checked, seed: int = seed) -> None:
                rounds[(ran - 1) % 6] += 1

        ring = Ring([(torch.randn(4, 4),) for _ in range(3)], random.Random(seed))
        subjects = {"a": Subject(double)}
        CaseTimer(Notebook(), subjects, ring, ("device_cold",), QUICK, random.Random(seed), Counting()).time()
    assert set(rounds) == set(range(6))
    assert rounds[5] == 40


@pytest.mark.parametrize("key", ["pointer", "first number"])
def test_a_result_that_is_remembered_is_found(key: str) -> None:
    memory: dict[Any, Tensor] = {}

    def remember(x: Tensor) -> Tensor:
        return memory.setdefault(x.data_ptr() if key == "pointer" else float(x[0, 0]), x * 2).clone()

    _, diary, _ = timed({"cheat": remember, "honest": double})
    assert len(wrong(diary, "cheat")) >= 3
    assert wrong(diary, "honest") == []


def test_a_profile_that_writes_to_its_inputs_is_told_and_costs_the_others_nothing() -> None:
    def spoil(x: Tensor) -> Tensor:
        y = x * 2
        x.zero_()
        return y

    _, diary, _ = timed({"cheat": spoil, "honest": double})
    assert {name for event, name in diary.events if event == "written"} == {"cheat"}
    assert wrong(diary, "honest") == []


def test_an_in_place_profile_is_given_fresh_inputs_and_not_blamed() -> None:
    _, diary, _ = timed({"in-place": Subject(lambda x: x.mul_(2), in_place=True), "honest": double})
    assert not [name for event, name in diary.events if event == "written"]
    assert wrong(diary, "in-place") == wrong(diary, "honest") == []


def test_a_profile_is_announced_before_any_of_its_code_runs() -> None:
    diary = Diary()

    def subject(name: str) -> Subject:
        def call(x: Tensor) -> Tensor:
            assert [who for event, who in diary.events if event == "announce"][-1] == name
            return x * 2

        return Subject(call)

    ring = Ring([(torch.randn(4, 4),) for _ in range(3)], random.Random(1))
    subjects = {name: subject(name) for name in ("a", "b")}
    CaseTimer(Notebook(), subjects, ring, SCOPES, QUICK, random.Random(1), diary).time()


def test_garbage_is_not_collected_while_samples_are_taken() -> None:
    seen = []

    class Watching(Notebook):
        def block(self, *arguments: Any) -> Block:
            seen.append(gc.isenabled())
            return super().block(*arguments)

    timed({"a": double}, Watching(), scopes=("device_cold",))
    assert seen[-6:] == [False] * 6
    assert gc.isenabled()


def test_a_profile_that_raises_while_it_is_timed_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        timed({"bad": lambda x: int("x")})
    assert gc.isenabled()


def test_a_whole_case_on_the_cpus_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cpu.last_level_cache_bytes", lambda: 1 << 12)
    found, diary, _ = timed({"a": double, "b": double}, CpuClock())
    assert [timing.scope for timing in found.timings["a"]] == ["device_cold", "device_warm"]
    assert wrong(diary, "a") == wrong(diary, "b") == []
    assert all(s > 0 for timings in found.timings.values() for t in timings for block in t.rounds for s in block)


def test_warming_up_ends_when_three_windows_agree_and_otherwise_when_time_is_up() -> None:
    class Restless(Notebook):
        def block(self, scope: str, calls: Sequence[Call], spin_seconds: float, keep: int = -1) -> Block:
            block = super().block(scope, calls, spin_seconds, keep)
            return Block((1e-5 * len(self.blocks),) * len(calls), 0, block.kept, block.spin_hertz)

    protocol = Protocol(warmup_seconds=0.03, rounds=1, fewest_rounds=1, cell_seconds=10.0)
    _, _, steady = timed({"a": double}, protocol=protocol, scopes=("device_cold",))
    _, _, restless = timed({"a": double}, Restless(), protocol=protocol, scopes=("device_cold",))
    assert len(steady.blocks) == 3 + 1
    assert len(restless.blocks) > 4
    assert statistics.median(n for _, n, _ in steady.blocks) == 5


@pytest.mark.parametrize(
    ("least", "memory", "profiles", "sets"),
    [
        (2 << 20, 80 << 30, 6, 75),  # three times a cache of 50 MiB
        (1 << 10, 80 << 30, 6, 96),  # never more than that
        (1 << 30, 80 << 30, 3, 3),  # already outgrows it
        (2 << 20, 1 << 30, 6, 16),  # as many as fit
        (2 << 30, 80 << 30, 11, 0),  # not even three fit
        (2 << 20, 0, 6, 3),  # memory unknown
    ],
)
def test_a_graph_goes_round_enough_sets_to_outgrow_the_cache(least: int, memory: int, profiles: int, sets: int) -> None:
    assert rotation(least, 50 << 20, memory, profiles, 3) == sets
