"""The process of the other instruments, on the CPU: with a clock, a do_bench and an nvbench that are played."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import plan_of, profile, small_experiment

from lab.definition.experiment import Experiment
from lab.definition.plan_file import save_plan
from lab.evidence.source import OWN_MODULE, child_environment
from lab.process.channel import Reader
from lab.profiler import instruments
from lab.profiler.instruments import Pass
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, INSTRUMENTS, NVBENCH

SMALL = "doubling-64x128-float32"
Frame = dict[str, Any]
Answers = dict[tuple[str, str], tuple[float | None, str]]


class PlayedClock:
    """Calls what it is given, and says that the n-th call of a block took n microseconds."""

    device = "cpu"

    def __init__(self) -> None:
        self.flushes: list[tuple[bool, float]] = []

    def cold_seconds(self, runs: list[Callable[[], Any]], *, flush_reads: bool, spin_seconds: float) -> list[float]:
        for run in runs:
            run()
        self.flushes.append((flush_reads, spin_seconds))
        return [number * 1e-6 for number in range(1, len(runs) + 1)]

    def on_stream(self, address: int) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Triton's do_bench, which needs a GPU, and nvbench: one says 3 ms, the other 7 µs; how they were called."""
    called: list[dict[str, Any]] = []

    def do_bench(call: Callable[[], Any], **options: Any) -> float:
        call()
        called.append(options)
        return 3.0

    def cold_medians(benchmarks: Mapping[str, Callable[[], Any]], on_stream: Any, report: Path) -> dict[str, Any]:
        called.append({"report": report, "names": list(benchmarks)})
        return {name: (7e-6, "") for name, prepare in benchmarks.items() if prepare()}

    monkeypatch.setattr(instruments, "do_bench", do_bench)
    monkeypatch.setattr(instruments, "cold_medians", cold_medians)
    return called


def read(
    tmp_path: Path, experiment: Experiment, wanted: list[tuple[str, str, str]], clock: PlayedClock | None = None
) -> list[Frame]:
    frames: list[Frame] = []
    Pass(experiment, clock or PlayedClock(), tmp_path, frames.append).read(wanted)
    return frames


def answers(frames: list[Frame]) -> Answers:
    """(seconds, reason) by profile and instrument."""
    readings = [frame["content"] for frame in frames if frame["kind"] == "Reading"]
    return {(r["profile"], r["instrument"]): (r["seconds"], r["reason"]) for r in readings}


def everything(profiles: list[str]) -> list[tuple[str, str, str]]:
    return [(SMALL, name, instrument) for name in profiles for instrument in INSTRUMENTS]


def test_each_instrument_reads_each_cell_in_seconds(tmp_path: Path, played: list[dict[str, Any]]) -> None:
    readings = answers(read(tmp_path, small_experiment(), everything(["plain", "fast"])))
    assert readings == {
        (name, instrument): (seconds, "")
        for name in ("plain", "fast")
        for instrument, seconds in ((DO_BENCH, 3e-3), (DIRTY_FLUSH, 10.5e-6), (NVBENCH, 7e-6))
    }


def test_do_bench_gives_its_median_of_many(tmp_path: Path, played: list[dict[str, Any]]) -> None:
    read(tmp_path, small_experiment(), [(SMALL, "plain", DO_BENCH)])
    assert played == [{"rep": 200, "return_mode": "median"}]


def test_the_labs_clock_leaves_dirty_lines_and_spins_while_the_host_enqueues(tmp_path: Path) -> None:
    clock = PlayedClock()
    read(tmp_path, small_experiment(), [(SMALL, "plain", DIRTY_FLUSH)], clock)
    _warm_up, *timed = clock.flushes
    assert len(timed) == 10
    assert set(timed) == {(False, 500e-6)}


def test_nvbench_is_asked_once_for_all_after_the_others(tmp_path: Path, played: list[dict[str, Any]]) -> None:
    frames = read(tmp_path, small_experiment(), everything(["plain", "fast"]))
    assert played[-1] == {
        "report": tmp_path / "nvbench" / "doubling.json",
        "names": [f"{SMALL}|plain", f"{SMALL}|fast"],
    }
    kinds = [(frame["kind"], frame["content"]["instrument"]) for frame in frames if frame["kind"] == "Reading"]
    assert [instrument for _, instrument in kinds[-2:]] == [NVBENCH, NVBENCH]
    assert NVBENCH not in [instrument for _, instrument in kinds[:-2]]


def test_each_reading_is_announced_before_the_profiles_code_runs(tmp_path: Path, played: list[dict[str, Any]]) -> None:
    frames = read(tmp_path, small_experiment(), everything(["plain"]))
    announced = [frame["content"] for frame in frames if frame["kind"] == "stage"]
    assert announced == [["doubling", SMALL, "plain", instrument] for instrument in INSTRUMENTS]
    assert frames[0]["kind"] == "stage"


def test_a_fault_of_one_profile_costs_its_own_readings(tmp_path: Path, played: list[dict[str, Any]]) -> None:
    def refuse(x: torch.Tensor) -> None:
        raise ValueError("not today")

    experiment = small_experiment(
        profiles=(*small_experiment().profiles, profile("broken", implementations={"doubling": lambda: refuse}))
    )
    wanted = [(SMALL, name, each) for name in ("broken", "plain") for each in (DO_BENCH, DIRTY_FLUSH)]
    readings = answers(read(tmp_path, experiment, wanted))
    assert readings["broken", DO_BENCH] == readings["broken", DIRTY_FLUSH] == (None, "ValueError: not today")
    assert readings["plain", DO_BENCH] == (3e-3, "")


def test_a_process_that_a_profile_left_unusable_ends_before_it_blames_another(
    tmp_path: Path, played: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(x: torch.Tensor) -> None:
        monkeypatch.setattr(torch, "zeros", fail)
        fail()

    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(os, "_exit", sys.exit)
    experiment = small_experiment(
        profiles=(*small_experiment().profiles, profile("poison", implementations={"doubling": lambda: poison}))
    )
    frames: list[Frame] = []
    with pytest.raises(SystemExit):
        Pass(experiment, PlayedClock(), tmp_path, frames.append).read(
            [(SMALL, name, DIRTY_FLUSH) for name in ("poison", "plain")]
        )
    assert answers(frames) == {
        ("poison", DIRTY_FLUSH): (None, "RuntimeError: CUDA error: an illegal memory access was encountered")
    }
    assert [frame["content"][2] for frame in frames if frame["kind"] == "stage"] == ["poison"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"devices": ("cuda",)}, "needs a CUDA GPU"),
        ({"package": "no_such_package"}, "no_such_package is not installed"),
    ],
)
def test_a_profile_that_cannot_run_here_is_not_run(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    experiment = small_experiment(profiles=(*small_experiment().profiles, profile("absent", **changes)))
    frames = read(tmp_path, experiment, everything(["absent"]))
    readings = answers(frames)
    assert len(readings) == len(INSTRUMENTS)
    assert all(seconds is None and why.startswith(reason) for seconds, why in readings.values())
    assert not [frame for frame in frames if frame["kind"] == "stage"]


def test_on_a_machine_without_a_gpu_the_process_ends_and_says_so_in_its_log(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    plan = plan_of(experiments=None, include=())
    save_plan(plan, tmp_path)
    reader, writer = os.pipe()
    done = subprocess.run(
        [sys.executable, *OWN_MODULE, "lab.profiler.instruments", str(tmp_path), "normalization-fusion", str(writer)],
        input=json.dumps([]), pass_fds=[writer], env=child_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 1
    assert "CUDA" in done.stderr
    assert list(Reader(reader).frames(5.0)) == []
    os.close(reader)
