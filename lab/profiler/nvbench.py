"""NVIDIA's nvbench through its Python package: isolated ("cold") GPU times, measured by an independent instrument.

It runs all its benchmarks in one go, once a process, and tells their times in a JSON file at the end.
"""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lab.worker.faults import fault

MEDIAN = "nv/cold/time/gpu/median"
FEWEST_SAMPLES = 100
LONGEST_SECONDS = 1.0  # of one benchmark; its own default is 15, which a kernel of 5 µs always takes
ABSENT = "nvbench's Python package does not load here (`pip install cuda-bench[cu13]` brings it)"

Answer = tuple[float | None, str]  # seconds, or why there are none
Prepare = Callable[[], Callable[[], Any]]
OnStream = Callable[[int], AbstractContextManager[Any]]


def cold_medians(benchmarks: Mapping[str, Prepare], on_stream: OnStream, report: Path) -> dict[str, Answer]:
    """By name, the median seconds of the call that each `prepare` returns; an exception in one costs that one.

    on_stream(address): launches inside go to nvbench's stream. report: where its JSON file is to lie.
    """
    try:
        from cuda import bench
    except ImportError as problem:
        return dict.fromkeys(benchmarks, (None, f"{ABSENT}: {fault(problem)}"))
    faults: dict[str, str] = {}
    for name, prepare in benchmarks.items():
        registered = bench.register(_benchmark(name, prepare, on_stream, faults))
        registered.set_name(name).set_min_samples(FEWEST_SAMPLES).set_timeout(LONGEST_SECONDS)
    report.unlink(missing_ok=True)
    try:
        bench.run_all_benchmarks(["nvbench", "--devices", "0", "--json", str(report)])
        answers = parse(report.read_text(encoding="utf-8"))
    except Exception as problem:  # it fails as a whole, whatever kind of exception its C++ makes of that
        return dict.fromkeys(benchmarks, (None, f"nvbench failed: {fault(problem)}"))
    return {
        name: (None, faults[name]) if name in faults else answers.get(name, (None, "nvbench has no result of it"))
        for name in benchmarks
    }


def _benchmark(name: str, prepare: Prepare, on_stream: OnStream, faults: dict[str, str]) -> Callable[[Any], None]:
    def run(state: Any) -> None:
        try:
            call = prepare()

            def launch(target: Any) -> None:
                with on_stream(target.get_stream().addressof()):
                    call()

            state.exec(launch, batched=False)
        except Exception as problem:  # one that left this function would end the other benchmarks too
            faults[name] = fault(problem)
            state.skip(faults[name])

    return run


def parse(text: str) -> dict[str, Answer]:
    """The answers in nvbench's JSON by benchmark name; ValueError where its form is another."""
    try:
        return {benchmark["name"]: _answer(benchmark["states"]) for benchmark in json.loads(text)["benchmarks"]}
    except (KeyError, TypeError, IndexError) as problem:
        raise ValueError(f"its JSON is not as expected ({fault(problem)})") from None


def _answer(states: list[dict[str, Any]]) -> Answer:
    (state, *others) = states
    if others:
        return None, f"nvbench has {len(states)} states of it, where one was asked for"
    if state.get("is_skipped"):
        return None, f"skipped: {state.get('skip_reason') or 'no reason given'}"
    for summary in state["summaries"] or ():
        if summary["tag"] == MEDIAN:
            (value,) = (float(item["value"]) for item in summary["data"] if item["name"] == "value")
            return (value, "") if math.isfinite(value) and value > 0 else (None, f"its median is {value}")
    return None, f"nvbench gave no {MEDIAN}"
