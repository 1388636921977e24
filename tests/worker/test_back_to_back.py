"""Calls back to back: how many replays make a second, and what is kept of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import sweeps
import torch
from sweeps import swept
from test_measure_sweep import ON_CPU, CpuAsGpu
from trial import Replayed

from lab.evidence.record import Sustained, Timing
from lab.kernels.traffic import Traffic
from lab.worker.clock import BackToBack, Replay
from lab.worker.sustained import LATE, NEVER_SPACED, sustained
from lab.worker.sweep_case import IN_PLACE

ARITHMETIC = dataclasses.replace(
    ON_CPU, traffic=lambda shape, itemsize: Traffic(read_bytes=64, written_bytes=64, flops=300 * 128)
)


class Board(CpuAsGpu):
    """Has graphs, and notes how often it is asked to replay one."""

    scopes = ("device_cold", "graph")

    def __init__(self, late: bool = False) -> None:
        super().__init__()
        self.late = late
        self.asked: list[tuple[int, int]] = []

    def capture(self, runs: Any) -> Replayed:
        return Replayed(runs)

    def back_to_back(self, replay: Replay, replays: int, batches: int, ask: Callable[[], float | None]) -> BackToBack:
        self.asked.append((replays, batches))
        replay.replay()
        return BackToBack((0.06,) * batches, (1_380_000_000,) * batches, 696.0, self.late)


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
        pytest.param(0.2, 3, (1, 2), id="one long replay in each of two"),
        pytest.param(0.1, 1, (1, 11), id="a batch is one replay, however long"),
    ],
)
def test_batches_of_about_50_ms_last_about_a_second(seconds: float, calls: int, asked: tuple[int, int]) -> None:
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


def lasting(
    monkeypatch: pytest.MonkeyPatch, clock: type[CpuAsGpu] = Board, **changes: Any
) -> dict[str, Sustained | None]:
    how = {"operator": ARITHMETIC, "sustained": True, "scopes": ("device_cold", "graph")} | changes
    return {name: cell.sustained for name, cell in swept(monkeypatch, {}, clock=clock, **how).items()}


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
