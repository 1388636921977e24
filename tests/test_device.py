"""The GPU's clock, on a GPU."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.clock import Call, nothing
from lab.device import make_clock
from lab.nvml import visible_gpu

pytestmark = pytest.mark.gpu
SPIN = 500e-6


def calls(*runs: Callable[[], Any]) -> list[Call]:
    return [Call(nothing, nothing, run) for run in runs]


def median(values: tuple[float, ...]) -> float:
    return sorted(values)[len(values) // 2]


def test_a_large_copy_takes_about_its_bytes_over_the_bandwidth() -> None:
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    block = make_clock("cuda").block("device_cold", calls(*[lambda: target.copy_(source)] * 10), SPIN)
    with visible_gpu("cuda") as gpu:
        assert gpu is not None
        shortest = 2 * source.nbytes / gpu.facts()["peak_bytes_per_second"]
    assert block.void == 0
    assert all(shortest < second < 2 * shortest for second in block.seconds)


def test_a_launch_that_the_host_is_late_for_is_void() -> None:
    x = torch.ones(8, device="cuda")

    def late() -> Tensor:
        time.sleep(0.005)
        return x + 1

    clock = make_clock("cuda")
    assert clock.block("device_cold", calls(*[late] * 5), 10e-6).void == 5
    in_time = clock.block("device_cold", calls(*[late] * 5), 20e-3)
    assert in_time.void == 0
    assert all(second < 1e-3 for second in in_time.seconds)


def test_an_output_that_is_never_written_shows_nan() -> None:
    x = torch.ones(1 << 20, device="cuda")
    runs = [lambda: x * 2, lambda: torch.empty_like(x)]
    assert make_clock("cuda").block("device_cold", calls(*runs), SPIN, keep=1).kept.isnan().all()


def test_a_cold_read_takes_longer_than_a_warm_one() -> None:
    x = torch.randn(4 << 20, device="cuda")
    sink = torch.empty((), device="cuda")
    runs = calls(*[lambda: torch.sum(x, dim=0, out=sink)] * 20)
    clock = make_clock("cuda")
    cold, warm = (median(clock.block(scope, runs, SPIN).seconds[5:]) for scope in ("device_cold", "device_warm"))
    assert cold > 1.3 * warm


def test_floors_are_in_their_order() -> None:
    work, empty = make_clock("cuda").floors()
    assert 1e-7 < empty < work < 2e-5


def test_the_spin_tells_the_clock() -> None:
    found = make_clock("cuda").block("device_cold", calls(nothing), SPIN).spin_hertz
    with visible_gpu("cuda") as gpu:
        assert gpu is not None
        assert found == pytest.approx(gpu.facts()["sm_clock_hertz"], rel=0.25)


def test_a_replay_writes_its_outputs_anew() -> None:
    x = torch.ones(8, device="cuda")
    clock = make_clock("cuda")
    replay = clock.capture([lambda: x + 1, lambda: x + 2])
    x.fill_(5)
    replay.replay()
    torch.cuda.synchronize()
    assert [float(output[0]) for output in replay.outputs] == [6, 7]


def side_stream(joined: bool) -> Callable[[], Tensor]:
    x = torch.ones(1 << 20, device="cuda")

    def call() -> Tensor:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        if joined:
            torch.cuda.current_stream().wait_stream(side)
        return y

    return call


def test_work_left_on_another_stream_is_refused_and_joined_work_is_not() -> None:
    clock = make_clock("cuda")
    with pytest.raises(RuntimeError, match="unjoined"):
        clock.capture([side_stream(joined=False)])
    clock.capture([side_stream(joined=True)]).replay()
    torch.cuda.synchronize()


def test_nothing_is_set_aside_at_first_and_canaries_sing() -> None:
    clock = make_clock("cuda")
    assert clock.tampering() == ""
    first, second = clock.canary(), clock.canary()
    assert first is not None
    assert second is not None
    assert first[0] == pytest.approx(second[0], rel=0.1)
