"""Calls back to back: how many replays make a second, and what is kept of them."""

import dataclasses
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sweeps
import torch
from factory import quiet_round
from sweeps import swept
from test_measure_sweep import ON_CPU, CpuAsGpu
from trial import Replayed

from lab.evidence.nvml import GpuState
from lab.evidence.record import SLOWDOWNS, Sustained, Timing, Watch
from lab.kernels.traffic import Traffic
from lab.verdict.excluded_rounds import POWER_CAP, excluded_rounds
from lab.worker.clock import BackToBack, Replay
from lab.worker.sustained import FOREIGN, LATE, NEVER_SPACED, sustained
from lab.worker.sweep_case import IN_PLACE

ARITHMETIC = dataclasses.replace(
    ON_CPU, traffic=lambda shape, itemsize: Traffic(read_bytes=64, written_bytes=64, flops=300 * 128)
)


ASKED_FOR: dict[str, Any] = {"operator": ARITHMETIC, "sustained": True, "scopes": ("device_cold", "graph")}
AT_ITS_LIMIT = GpuState(
    reasons=POWER_CAP, sm_hertz=1.38e9, energy_joules=None, power_watts=696.0, temperature_celsius=60.0,
    processes=None, violation_seconds={},
)  # fmt: skip


class Board(CpuAsGpu):
    """Has graphs, and notes how often it is asked to replay one."""

    scopes = ("device_cold", "graph")

    def __init__(self, late: bool = False, told: GpuState | None = AT_ITS_LIMIT) -> None:
        super().__init__()
        self.late, self.told = late, told
        self.asked: list[tuple[int, int]] = []

    def capture(self, runs: Any) -> Replayed:
        return Replayed(runs)

    def back_to_back(self, replay: Replay, replays: int, batches: int, ask: Callable[[], Any]) -> BackToBack:
        self.asked.append((replays, batches))
        replay.replay()
        return BackToBack((0.06,) * batches, (1_380_000_000,) * batches, self.told, self.late)


class Refusing(Board):
    def capture(self, runs: Any) -> Replayed:
        raise RuntimeError("operation not permitted when stream is capturing")


def replay_of(calls: int) -> Replayed:
    return Replayed([lambda: torch.ones(1)] * calls)


def spaced(seconds: float, calls: int) -> Timing:
    rounds = ((seconds,) * 3, (2 * seconds, seconds))
    return Timing(
        scope="graph", rounds=rounds, void=(0, 0), enqueue_seconds=0.0, spin_seconds=0.0, calls_per_sample=calls
    )


@pytest.mark.parametrize(
    ("seconds", "calls", "asked"),
    [
        pytest.param(1e-3, 5, (10, 22), id="ten replays in each of 22 batches"),
        pytest.param(0.1, 1, (1, 12), id="a batch is one replay, however long"),
        pytest.param(0.35, 2, (1, 3), id="two long replays come before the last"),
        pytest.param(3.0, 1, (1, 2), id="or one"),
    ],
)
def test_batches_of_about_50_ms_last_a_second_before_the_last_one(
    seconds: float, calls: int, asked: tuple[int, int]
) -> None:
    board = Board()
    took = sustained(board, replay_of(calls), spaced(seconds, calls))
    assert board.asked == [asked]
    assert took.calls_per_batch == asked[0] * calls
    assert took.batch_seconds == pytest.approx([0.06 / took.calls_per_batch] * asked[1])
    assert (took.spin_hertz, took.power_watts, took.reason) == ((1_380_000_000,) * asked[1], 696.0, "")


def test_where_the_host_is_late_there_is_no_time() -> None:
    assert sustained(Board(late=True), replay_of(1), spaced(1e-3, 1)) == Sustained(reason=LATE)


def test_a_graph_whose_samples_were_all_void_is_not_replayed() -> None:
    void = dataclasses.replace(spaced(1e-3, 1), rounds=((), ()))
    board = Board()
    assert sustained(board, replay_of(1), void) == Sustained(reason=NEVER_SPACED)
    assert board.asked == []


def told(**changes: Any) -> Sustained:
    board = Board(told=dataclasses.replace(AT_ITS_LIMIT, **changes))
    return sustained(board, replay_of(1), spaced(1e-3, 1))


def excluded(reasons: int) -> str:
    """Why a round is left out in which NVML gave these reasons, or nothing."""
    watch = Watch(experiment="e", case="c", sweep=0, process="0-1", rounds=(quiet_round(reasons=reasons),))
    return excluded_rounds([watch], []).reasons(watch).get(0, "")


@pytest.mark.parametrize("bit", SLOWDOWNS)
def test_what_excludes_a_round_leaves_no_time(bit: int) -> None:
    reason = excluded(bit | POWER_CAP)
    assert reason == SLOWDOWNS[bit]
    assert told(reasons=bit | POWER_CAP) == Sustained(reason=reason)


def test_the_power_limit_excludes_no_round_and_leaves_a_time() -> None:
    assert not excluded(POWER_CAP)
    assert told(reasons=POWER_CAP).batch_seconds


def test_what_the_board_does_not_tell_is_no_fault() -> None:
    assert told(reasons=None, power_watts=None).batch_seconds
    took = sustained(Board(told=None), replay_of(1), spaced(1e-3, 1))
    assert (bool(took.batch_seconds), took.power_watts) == (True, None)


@pytest.fixture
def workers() -> Iterator[list[int]]:
    """Two that this process began, each in a session of its own."""
    with ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen(["sleep", "60"], start_new_session=True)) for _ in range(2)]
        yield [worker.pid for worker in running]
        for worker in running:
            worker.kill()


def test_another_process_leaves_no_time_unless_it_is_one_of_this_run(
    monkeypatch: pytest.MonkeyPatch, workers: list[int]
) -> None:
    own, ended = os.getpid(), 1 << 23
    assert told(processes=frozenset({own, workers[1]})) == Sustained(reason=FOREIGN), "begun by another than we were"
    assert told(processes=frozenset({own})).batch_seconds
    # As if this process were in the session of the first, so that its supervisor is this process.
    monkeypatch.setattr(os, "getsid", lambda process: workers[0] if process == own else process)
    assert told(processes=frozenset({own, *workers})).batch_seconds
    assert told(processes=frozenset({own, ended})) == Sustained(reason=FOREIGN)
    assert told(processes=frozenset({ended})).batch_seconds, "counted in another namespace"


def lasting(
    monkeypatch: pytest.MonkeyPatch, clock: type[CpuAsGpu] = Board, **changes: Any
) -> dict[str, Sustained | None]:
    cells = swept(monkeypatch, {}, clock=clock, **ASKED_FOR | changes)
    return {name: cell.sustained for name, cell in cells.items()}


def test_each_profile_of_a_case_that_is_mainly_arithmetic_is_measured_back_to_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = lasting(monkeypatch)
    assert took.keys() == {"plain", "fast"}
    assert all(each and each.batch_seconds and each.power_watts == 696.0 for each in took.values())


@pytest.mark.parametrize(
    "changes",
    [{"sustained": False}, {"operator": ON_CPU}, {"clock": CpuAsGpu}, {"sweep": 1}],
    ids=["not asked for", "waits for memory", "no graphs", "a later sweep"],
)
def test_no_other_cell_is(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    assert lasting(monkeypatch, **changes) == {"plain": None, "fast": None}


class Telling(Board):
    """Tells the profiles whether they are called back to back."""

    back_to_back_now = False

    def back_to_back(self, *asked: Any) -> BackToBack:
        Telling.back_to_back_now = True
        took = super().back_to_back(*asked)
        Telling.back_to_back_now = False
        return took


def test_profiles_come_in_a_random_order_that_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of their definition the first would always meet the coolest board."""

    def order() -> list[str]:
        called: list[str] = []

        def load(name: str) -> Callable[[], Any]:
            def function(x: torch.Tensor) -> torch.Tensor:
                if Telling.back_to_back_now and name not in called:
                    called.append(name)
                return x * 2

            return lambda: function

        swept(monkeypatch, {name: load(name) for name in "abcdefg"}, clock=Telling, **ASKED_FOR)
        return called

    first = order()
    assert sorted(first) == list("abcdefg") != first
    assert order() == first


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError])
def test_an_error_back_to_back_costs_no_time_of_the_rounds(
    monkeypatch: pytest.MonkeyPatch, kind: type[RuntimeError]
) -> None:
    class Failing(Board):
        device = "cpu"  # which still works after the error

        def back_to_back(self, *asked: Any) -> BackToBack:
            raise kind("no room for the events")

    cells = swept(monkeypatch, {}, clock=Failing, **ASKED_FOR)
    assert {cell.outcome for cell in cells.values()} == {"measured"}
    assert all(len(cell.timings) == 2 for cell in cells.values())
    assert {cell.sustained for cell in cells.values()} == {Sustained(reason=f"{kind.__name__}: no room for the events")}


def test_an_error_that_leaves_the_gpu_useless_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("an illegal memory access was encountered")

    class Poisoned(Board):
        def back_to_back(self, *asked: Any) -> BackToBack:
            monkeypatch.setattr(torch, "zeros", fail)
            return fail()

    with pytest.raises(RuntimeError, match="illegal memory access"):
        swept(monkeypatch, {}, clock=Poisoned, **ASKED_FOR)


def test_a_profile_that_cannot_be_captured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "operation not permitted when stream is capturing"
    assert lasting(monkeypatch, Refusing) == dict.fromkeys(("plain", "fast"), Sustained(reason=reason))


def test_a_profile_that_overwrites_its_inputs_is_not_called_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = sweeps.profile
    monkeypatch.setattr(
        sweeps,
        "profile",
        lambda name, **facts: profile(
            name, in_place=True, **facts | {"implementations": {"doubling": lambda: lambda x: x.mul_(2)}}
        ),
    )
    assert lasting(monkeypatch) == dict.fromkeys(("plain", "fast"), Sustained(reason=IN_PLACE))
