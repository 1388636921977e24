"""NVIDIA's nvbench, played by a small module: whatever it does, every benchmark has a time or a reason."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.profiler.nvbench import cold_medians, parse

SAMPLE = (Path(__file__).parents[1] / "fixtures" / "nvbench.json").read_text()
RMSNORM, MATMUL = "rmsnorm-4096x4096-float16|plain", "matmul-2048x2048x2048-float16|plain"
STREAM = 4096


class FakeState:
    """Runs what it is given once, as nvbench does many times, on a stream of its own."""

    def __init__(self) -> None:
        self.reason = ""

    def exec(self, launcher: Callable[[Any], None], /, *, batched: bool) -> None:
        assert not batched, "a batched measurement is a warm one"
        launcher(SimpleNamespace(get_stream=lambda: SimpleNamespace(addressof=lambda: STREAM)))

    def skip(self, reason: str) -> None:
        self.reason = reason


class FakeBenchmark:
    def __init__(self, function: Callable[[Any], None]) -> None:
        self.function = function
        self.name = ""

    def set_name(self, name: str) -> "FakeBenchmark":
        self.name = name
        return self

    def set_min_samples(self, count: int) -> "FakeBenchmark":
        return self

    def set_timeout(self, seconds: float) -> "FakeBenchmark":
        return self


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A `cuda.bench` that gives every benchmark a median of its length in microseconds."""
    module, package = ModuleType("cuda.bench"), ModuleType("cuda")
    registered: list[FakeBenchmark] = []

    def register(function: Callable[[Any], None]) -> FakeBenchmark:
        registered.append(FakeBenchmark(function))
        return registered[-1]

    def run_all_benchmarks(arguments: list[str]) -> None:
        report = Path(arguments[arguments.index("--json") + 1])
        benchmarks = []
        for benchmark in registered:
            state = FakeState()
            benchmark.function(state)
            median = {"name": "value", "type": "float64", "value": f"{len(benchmark.name)}e-06"}
            summary = {"tag": "nv/cold/time/gpu/median", "data": [median]}
            answer = {"is_skipped": bool(state.reason), "skip_reason": state.reason, "summaries": [summary]}
            benchmarks.append({"name": benchmark.name, "states": [answer]})
        report.write_text(json.dumps({"benchmarks": benchmarks}))

    module.register, module.run_all_benchmarks = register, run_all_benchmarks  # type: ignore[attr-defined]
    package.bench = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.bench", module)
    return module


def read(names: dict[str, Callable[[], Callable[[], Any]]], tmp_path: Path) -> dict[str, Any]:
    return cold_medians(names, no_stream, tmp_path / "nvbench.json")


@contextmanager
def no_stream(address: int) -> Iterator[None]:
    yield


def test_the_median_is_read_in_seconds_and_a_skipped_benchmark_says_why() -> None:
    assert parse(SAMPLE) == {
        RMSNORM: (3.2224e-05, ""),
        MATMUL: (None, "skipped: RuntimeError: out of memory"),
    }


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1e-6"])
def test_a_median_that_is_no_time_is_refused(value: str) -> None:
    seconds, reason = parse(SAMPLE.replace("3.2224e-05", value))[RMSNORM]
    assert seconds is None
    assert reason.startswith("its median is ")


def test_a_result_without_a_median_is_no_time() -> None:
    results = parse(SAMPLE.replace("nv/cold/time/gpu/median", "nv/cold/time/gpu/middle"))
    assert results[RMSNORM] == (None, "nvbench gave no nv/cold/time/gpu/median")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param(SAMPLE.replace('"states"', '"results"'), id="no states"),
        pytest.param(SAMPLE.replace('{"name": "value", "type": "float64"', '{"type": "x"'), id="no name"),
        pytest.param(SAMPLE.replace("3.2224e-05", "fast"), id="no number"),
    ],
)  # fmt: skip
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own message for the first
        parse(text)


def test_each_benchmark_has_its_own_time(bench: ModuleType, tmp_path: Path) -> None:
    called = []
    names = {name: (lambda name=name: lambda: called.append(name)) for name in ("a|b", "long|name")}
    assert read(names, tmp_path) == {"a|b": (3e-6, ""), "long|name": (9e-6, "")}
    assert called == ["a|b", "long|name"]


def test_launches_go_to_the_stream_that_is_timed(bench: ModuleType, tmp_path: Path) -> None:
    seen: list[int] = []
    inside: list[bool] = []

    @contextmanager
    def on_stream(address: int) -> Iterator[None]:
        seen.append(address)
        inside.append(True)
        yield
        inside.clear()

    def call() -> None:
        assert inside, "launched outside of nvbench's stream"

    answers = cold_medians({"a|b": lambda: call}, on_stream, tmp_path / "nvbench.json")
    assert answers["a|b"] == (3e-6, "")
    assert seen == [STREAM]


def test_a_fault_in_one_benchmark_costs_that_one(bench: ModuleType, tmp_path: Path) -> None:
    def broken() -> Callable[[], Any]:
        raise RuntimeError("no such kernel in /root/x/y")

    results = read({"broken|cell": broken, "a|b": lambda: lambda: None}, tmp_path)
    assert results == {"broken|cell": (None, "RuntimeError: no such kernel in (path)"), "a|b": (3e-6, "")}


def test_nvbench_that_fails_as_a_whole_says_so_of_each(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: list[str]) -> None:
        raise RuntimeError("unrecognized option")

    (tmp_path / "nvbench.json").write_text(SAMPLE)
    monkeypatch.setattr(bench, "run_all_benchmarks", fail)
    reason = "nvbench failed: RuntimeError: unrecognized option"
    assert read({RMSNORM: lambda: lambda: None, "a|b": lambda: lambda: None}, tmp_path) == {
        RMSNORM: (None, reason), "a|b": (None, reason),
    }  # fmt: skip


def test_a_report_of_an_earlier_pass_does_not_pass_for_this_ones(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvbench.json").write_text(SAMPLE)
    monkeypatch.setattr(bench, "run_all_benchmarks", lambda arguments: None)
    seconds, reason = read({RMSNORM: lambda: lambda: None}, tmp_path)[RMSNORM]
    assert seconds is None
    assert reason.startswith("nvbench failed: FileNotFoundError")


def test_a_benchmark_that_the_report_does_not_name_has_a_reason(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "nvbench.json"
    monkeypatch.setattr(bench, "run_all_benchmarks", lambda arguments: report.write_text(SAMPLE))
    assert read({"a|b": lambda: lambda: None}, tmp_path) == {"a|b": (None, "nvbench has no result of it")}


def test_a_machine_without_the_package_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    seconds, reason = read({"a|b": lambda: lambda: None}, tmp_path)["a|b"]
    assert seconds is None
    assert "`pip install cuda-bench[cu13]` brings it" in reason
