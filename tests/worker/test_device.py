"""The GPU's clock, on a GPU; and which device is chosen, anywhere."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.errors import PlanError
from lab.evidence.nvml import visible_gpu
from lab.worker import device
from lab.worker.clock import Call, nothing
from lab.worker.device import LONGEST_REST_SECONDS, CudaClock, bytes_by_pool, choose_device, make_clock
from lab.worker.hook_check import HookCheck

SPIN_SECONDS = 500e-6
gpu = pytest.mark.gpu


def calls(*runs: Callable[[], Any]) -> list[Call]:
    return [Call(nothing, nothing, run) for run in runs]


def test_cuda_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == "cpu"
    assert choose_device("cpu") == "cpu"
    with pytest.raises(PlanError, match="torch sees no CUDA GPU here"):
        choose_device("cuda")


def test_a_gpu_is_chosen_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(wanted) for wanted in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]


# Blocks


@gpu
@pytest.mark.parametrize("scope", ["device_cold", "device_warm", "graph"])
def test_a_call_has_ended_before_the_host_goes_on(scope: str) -> None:
    """Or the host enqueues more work while it runs, and it seems to take longer."""
    ended = torch.cuda.Event()
    seen: list[bool] = []

    def run() -> None:
        torch.cuda._sleep(2_000_000)  # about a millisecond
        ended.record()

    call = Call(nothing, nothing, run, ended=lambda: seen.append(ended.query()))
    make_clock("cuda").block(scope, [call] * 3, SPIN_SECONDS)
    assert seen == [True] * 3


@gpu
@pytest.mark.parametrize("scope", ["device_cold", "device_warm"])
def test_a_copy_of_the_result_is_taken_before_work_on_another_stream_has_ended(scope: str) -> None:
    side, x = torch.cuda.Stream(), torch.ones(1 << 20, device="cuda")
    copies: list[Tensor] = []

    def run() -> Tensor:
        y = torch.empty_like(x)
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            y.copy_(x)
        return y

    calls_left_unjoined = [Call(nothing, nothing, run, lambda y: copies.append(y.clone()))] * 3
    make_clock("cuda").block(scope, calls_left_unjoined, SPIN_SECONDS)
    assert not any(torch.equal(copy, x) for copy in copies[1:])


@gpu
def test_a_large_copy_takes_about_its_bytes_over_the_bandwidth() -> None:
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)  # loads its kernel, for which the host would be late
    block = make_clock("cuda").block("device_cold", calls(*[lambda: target.copy_(source)] * 10), SPIN_SECONDS)
    with visible_gpu("cuda") as seen:
        assert seen is not None
        shortest = 2 * source.nbytes / seen.facts()["peak_bytes_per_second"]
    assert block.void == 0
    assert all(shortest < second < 2 * shortest for second in block.seconds)


@gpu
def test_a_cold_read_takes_longer_than_a_warm_one() -> None:
    """By how much is told beyond what any kernel takes, which hides the difference in a small one."""
    clock = make_clock("cuda")
    x = torch.randn(clock.cache_bytes // 2 // 4, device="cuda")
    sink = torch.empty((), device="cuda")
    runs = calls(*[lambda: torch.sum(x, dim=0, out=sink)] * 20)
    floor, _ = clock.floors()
    # The first calls of a warm block find the cache cold.
    cold, warm = (
        statistics.median(clock.block(scope, runs, SPIN_SECONDS).seconds[5:]) - floor
        for scope in ("device_cold", "device_warm")
    )
    assert cold >= 1.5 * warm


@gpu
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


@gpu
@pytest.mark.parametrize("scope", ["device_cold", "device_warm", "eager"])
def test_each_result_is_poisoned_before_the_next_call(scope: str) -> None:
    outputs: list[Tensor] = []

    def call() -> Tensor:
        outputs.append(torch.ones(5, device="cuda"))
        return outputs[-1]

    make_clock("cuda").block(scope, calls(*[call] * 3), SPIN_SECONDS)
    assert [bool(output.isnan().all()) for output in outputs] == [True, True, False]


@gpu
@pytest.mark.parametrize("scope", ["device_cold", "device_warm", "eager"])
def test_a_copy_of_a_result_shows_it_as_the_call_left_it(scope: str) -> None:
    outputs = [torch.full((3,), float(number), device="cuda") for number in range(4)]
    copies: list[Tensor] = []
    runs = [Call(nothing, nothing, lambda y=y: y, lambda y: copies.append(y.clone())) for y in outputs]
    make_clock("cuda").block(scope, runs, SPIN_SECONDS)
    assert [copy.tolist() for copy in copies] == [[number] * 3 for number in range(4)]
    assert outputs[2].isnan().all()


@gpu
def test_an_output_that_is_never_written_shows_nan() -> None:
    x = torch.ones(1 << 20, device="cuda")
    copies: list[Tensor] = []
    runs = [
        Call(nothing, nothing, run, lambda y: copies.append(y.clone()))
        for run in (lambda: x * 2, lambda: torch.empty_like(x))
    ]
    make_clock("cuda").block("device_cold", runs, SPIN_SECONDS)
    assert copies[1].isnan().all()


@gpu
def test_a_warm_block_finds_the_cache_as_the_block_before_left_it() -> None:
    clock = make_clock("cuda")
    x = torch.randn(clock.cache_bytes // 4 // 4, device="cuda")
    sink = torch.empty((), device="cuda")
    runs = calls(*[lambda: torch.sum(x, dim=0, out=sink)] * 20)
    clock.block("device_warm", runs[:1], SPIN_SECONDS)
    seconds = clock.block("device_warm", runs, SPIN_SECONDS).seconds
    assert seconds[0] < 1.2 * statistics.median(seconds[1:])


@gpu
@pytest.mark.parametrize("scope", ["device_cold", "eager"])
def test_a_call_that_leaves_another_stream_current_is_reported_and_undone(scope: str) -> None:
    clock = make_clock("cuda")
    home, side = torch.cuda.current_stream(), torch.cuda.Stream()
    clock.block(scope, calls(lambda: torch.cuda.set_stream(side)), SPIN_SECONDS)
    assert torch.cuda.current_stream() == home
    assert clock.tampering() == "left another stream current"
    assert clock.tampering() == ""


# What a block asks of the GPU, told without one


class Script:
    """Notes what a clock does; stands for the events, the spin and the stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.streams = iter(lambda: (0, 0, 1), None)  # the same for ever
        for owner, name in ((torch.cuda, "_sleep"), (torch._C, "_cuda_synchronize"), (torch.cuda, "set_stream")):
            monkeypatch.setattr(owner, name, self.noting(name.removeprefix("_cuda")), raising=False)
        monkeypatch.setattr(device._Timer, "of", lambda start, stop: self.timer())
        monkeypatch.setattr(CudaClock, "_enqueue_clock_spin", lambda clock: False)
        monkeypatch.setattr(device, "_persisting_bytes", lambda: 0)
        self.clock = clock = CudaClock.__new__(CudaClock)
        clock._write, clock._read = self.noting("write"), self.noting("read")
        clock._stream, clock._home, clock._strayed = "home", (0, 0, 1), False
        clock._hooks = HookCheck()
        clock._current_stream = lambda: next(self.streams)
        clock._cycles_per_second, clock._persisting_bytes = 1e9, 0
        clock._events = [(None, None)] * device.LARGEST_BLOCK

    def noting(self, line: str, answer: Any = None) -> Callable[..., Any]:
        return lambda *asked: self.lines.append(line) or answer

    def timer(self) -> device._Timer:
        return device._Timer(self.noting("start"), self.noting("stop"), self.noting("query", False), lambda: 0.25)

    def calls(self, count: int) -> list[Call]:
        parts = ("prepare", "touch", "run", "done", "ended")
        return [Call(*(self.noting(part) for part in parts)) for _ in range(count)]


SAMPLE = ["_sleep", "touch", "start", "run", "stop", "query", "done", "_synchronize", "ended"]


@pytest.mark.parametrize(("scope", "flush"), [("device_cold", ["write", "read"]), ("device_warm", []), ("graph", [])])
def test_only_a_cold_call_comes_after_a_flush_and_each_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, scope: str, flush: list[str]
) -> None:
    script = Script(monkeypatch)
    block = script.clock.block(scope, script.calls(3), 1e-4)
    assert script.lines == ["prepare", *flush, *SAMPLE] * 3
    assert (block.seconds, block.void) == ((0.25e-3,) * 3, 0)


def test_an_eager_call_is_waited_for_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    assert len(script.clock.block("eager", script.calls(2), 0.0).seconds) == 2
    assert script.lines == ["prepare", "touch", "_synchronize", "run", "_synchronize", "done", "ended"] * 2


@pytest.mark.parametrize("scope", ["device_cold", "eager"])
def test_another_stream_is_left_before_anybody_looks_at_the_result(monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    script = Script(monkeypatch)
    script.streams = iter([(7, 0, 1), (0, 0, 1), (0, 0, 1)])
    script.clock.block(scope, script.calls(1), 0.0)
    assert script.lines.index("run") < script.lines.index("set_stream") < script.lines.index("done")
    assert [script.clock.tampering() for _ in range(2)] == ["left another stream current", ""]


class StreamTime:
    """A stream on which a replay takes 2 ms, and a spin a quarter; its events, and what was asked of it in turn.

    The host needs some time for a launch, at whose end the GPU learns of it, and some after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch: float = 0.0, after_launch: float = 0.0) -> None:
        self.host_milliseconds = self.milliseconds = 0.0
        self.launch, self.after_launch = launch, after_launch
        self.lines = list[str]()
        stream = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                self.line = "event" if enable_timing else "untimed event"

            def record(self) -> None:
                self.at = max(stream.milliseconds, stream.host_milliseconds)
                stream.lines.append(self.line)

            def query(self) -> bool:
                return self.at <= stream.host_milliseconds

            def synchronize(self) -> None:
                stream.lines.append(f"waited until {self.at}")

            def elapsed_time(self, other: "Event") -> float:
                return other.at - self.at

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: self.go_on("spin", 0.25), raising=False)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: self.lines.append("ended"))
        monkeypatch.setattr(CudaClock, "_rest", lambda clock: self.lines.append("rested"))

    def go_on(self, line: str, milliseconds: float) -> None:
        self.milliseconds = max(self.milliseconds, self.host_milliseconds) + milliseconds
        self.lines.append(line)

    def replay(self) -> None:
        self.host_milliseconds += self.launch
        self.go_on("replay", 2.0)
        self.host_milliseconds += self.after_launch

    def query(self) -> bool:
        return self.milliseconds <= self.host_milliseconds

    def ask(self) -> None:
        self.lines.append("asked")


def test_replays_back_to_back_are_enqueued_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stream: Any = StreamTime(monkeypatch)
    took = CudaClock.__new__(CudaClock).back_to_back(stream, 2, 3, stream.ask)
    batch = ["replay", "untimed event", "replay", "event", "spin", "event"]
    assert stream.lines == ["event", *batch * 3, "waited until 8.5", "asked", "ended", "rested"]
    assert took.seconds == pytest.approx([4e-3] * 3)
    assert took.spin_hertz == pytest.approx([CudaClock.CLOCK_CYCLES / 0.25e-3] * 3)
    assert (took.told, took.late) == (None, False)


@pytest.mark.parametrize(
    ("launch", "after_launch", "late"),
    [
        pytest.param(0.1, 0.1, False, id="faster than the GPU"),
        pytest.param(2.5, 0.0, True, id="the GPU is dry until a launch has ended"),
        pytest.param(0.0, 2.5, True, id="the GPU is dry before a launch begins"),
    ],
)
@pytest.mark.parametrize("replays", [1, 4])
def test_a_host_that_is_slower_than_the_gpu_is_late(
    monkeypatch: pytest.MonkeyPatch, launch: float, after_launch: float, late: bool, replays: int
) -> None:
    stream: Any = StreamTime(monkeypatch, launch, after_launch)
    assert CudaClock.__new__(CudaClock).back_to_back(stream, replays, 3, stream.ask).late is late


def test_a_pause_in_the_middle_of_a_batch_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has caught up with the GPU by the end of the batch."""
    stream: Any = StreamTime(monkeypatch)
    replay = stream.replay

    def once_slow() -> None:
        replay()
        if stream.lines.count("replay") == 2:
            stream.host_milliseconds += 5.0

    stream.replay = once_slow
    assert CudaClock.__new__(CudaClock).back_to_back(stream, 5, 3, stream.ask).late


# Graphs


def large_product() -> Callable[[], torch.Tensor]:
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    a @ b  # sets cuBLAS up, which a capture may not
    return lambda: a @ b


@gpu
def test_a_product_back_to_back_holds_the_board_at_its_power_limit_and_its_clock_recovers() -> None:
    clock = make_clock("cuda")
    replay = clock.capture([large_product()])
    before = clock.canary()
    with visible_gpu("cuda") as seen:
        assert seen is not None
        took = clock.back_to_back(replay, 30, 24, seen.state)
        limit_watts = seen.facts()["power_limit_watts"]
    after = clock.canary()
    assert not took.late
    assert took.told is not None
    assert took.told.power_watts is not None
    assert 0.9 * limit_watts < took.told.power_watts < 1.05 * limit_watts
    assert before is not None
    assert after is not None
    assert statistics.median(took.spin_hertz[12:]) < 0.95 * before[1]
    assert after[1] == pytest.approx(before[1], rel=0.02)


@gpu
@pytest.mark.parametrize("waits_first", [False, True])
def test_a_host_that_is_late_is_noted(waits_first: bool) -> None:
    """Where it waits first, the last product of a batch still runs when the spin is enqueued."""
    clock = make_clock("cuda")
    graph = clock.capture([large_product()])

    def wait() -> None:
        torch.cuda.synchronize()
        time.sleep(0.001)

    class Slow:
        outputs = graph.outputs

        def replay(self) -> None:
            for step in (wait, graph.replay) if waits_first else (graph.replay, wait):
                step()

    assert clock.back_to_back(Slow(), 3, 3, lambda: None).late
    assert not clock.back_to_back(graph, 2, 3, lambda: None).late


@gpu
def test_a_replay_writes_its_outputs_anew() -> None:
    x = torch.ones(8, device="cuda")
    clock = make_clock("cuda")
    replay = clock.capture([lambda: x + 1, lambda: x + 2])
    for value in (5, 9):
        x.fill_(value)
        replay.replay()
        torch.cuda.synchronize()
        assert [output.tolist() for output in replay.outputs] == [[value + 1] * 8, [value + 2] * 8]


@gpu
def test_a_tiny_kernel_takes_longer_in_python_than_in_a_graph() -> None:
    x = torch.ones(8, device="cuda")
    clock = make_clock("cuda")
    replay = clock.capture([lambda: x + 1] * 20)
    graph = clock.block("graph", calls(*[replay.replay] * 10), SPIN_SECONDS)
    eager = clock.block("eager", calls(*[lambda: x + 1] * 10), 0.0)
    assert statistics.median(eager.seconds) > statistics.median(graph.seconds) / len(replay.outputs)


def on_a_side_stream(joined: bool) -> Callable[[], Tensor]:
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


@gpu
def test_work_left_on_another_stream_is_refused_and_joined_work_is_not() -> None:
    clock = make_clock("cuda")
    with pytest.raises(RuntimeError, match="unjoined"):
        clock.capture([on_a_side_stream(joined=False)])
    replay = clock.capture([on_a_side_stream(joined=True)])
    replay.replay()
    torch.cuda.synchronize()
    assert (replay.outputs[0] == 2).all()


# What the clock says of the GPU


@gpu
def test_floors_are_a_few_microseconds_and_in_their_order() -> None:
    work, empty = make_clock("cuda").floors()
    assert 1e-7 < empty < work < 2e-5


@gpu
def test_the_spin_tells_the_gpus_clock() -> None:
    hertz = make_clock("cuda").block("device_cold", calls(nothing), SPIN_SECONDS).spin_hertz
    with visible_gpu("cuda") as seen:
        assert seen is not None
        assert hertz == pytest.approx(seen.facts()["sm_clock_hertz"], rel=0.25)


@gpu
def test_canaries_agree_on_a_gpu_at_rest() -> None:
    clock = make_clock("cuda")
    first = clock.canary()
    began = time.monotonic()
    second = clock.canary()
    assert time.monotonic() - began < LONGEST_REST_SECONDS  # a GPU at rest is not waited for
    assert first is not None
    assert second is not None
    assert first == pytest.approx(second, rel=0.1)


@gpu
def test_a_canary_after_a_load_at_the_power_limit_sings_as_one_at_rest() -> None:
    clock = make_clock("cuda")
    at_rest = clock.canary()
    x = torch.randn(8192, 8192, dtype=torch.float16, device="cuda")
    for _ in range(300):
        x @ x
    torch.cuda.synchronize()
    assert clock.canary() == pytest.approx(at_rest, rel=0.02)


def test_segments_of_graphs_are_added_up_by_their_pool() -> None:
    sizes = [((0, 0), 1 << 30), ((0, 1), 2 << 20), ((0, 2), 20 << 20), ((0, 1), 4 << 20)]
    segments = [{"segment_pool_id": pool, "total_size": size} for pool, size in sizes]
    assert bytes_by_pool(segments) == {(0, 1): 6 << 20, (0, 2): 20 << 20}


@gpu
def test_a_graph_holds_its_intermediate_results_as_long_as_it_lives() -> None:
    clock = make_clock("cuda")
    before = clock.graph_pools()
    x = torch.randn(32 << 20, dtype=torch.float32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x + 1).exp_().sum()  # one intermediate result of 128 MiB
    held = sum(clock.graph_pools().values()) - sum(before.values())
    assert 128 << 20 <= held < 192 << 20
    del graph, y
    assert clock.graph_pools() == before


@gpu
def test_nothing_of_the_cache_is_set_aside_at_first() -> None:
    assert make_clock("cuda").tampering() == ""
