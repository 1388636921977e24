"""Tracking through a real MLflow store: what a person finds there, and that filling it again is harmless."""

import base64
import dataclasses
import hashlib
import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from factory import DOUBLING, FAST_BEATS_PLAIN, machine, plan_of, records_of, small_experiment, write_run
from factory import SMALL as SMALL_CASE
from forked_command import Command
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.validation import MAX_TAG_VAL_LENGTH
from sqlalchemy import Engine, event

from lab.cli import main
from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS, Case
from lab.definition.plan import Plan, PlannedCase
from lab.errors import LabError, StoreError
from lab.evidence import journal
from lab.evidence.record import Cell, Control, Counters, Kernel, Record, Sustained, Timing
from lab.tracking import tree
from lab.tracking.fill import track, unchanged, views
from lab.tracking.measures import milliseconds
from lab.tracking.tree import dataset_of
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.judge_run import load_run
from lab.verdict.statistics import geometric_mean

SMALL, LARGE = "doubling-64x128-float32", "doubling-4096x4096-float32"
SECONDS: dict[Any, float] = {"plain": 40e-6, "fast": 20e-6, (SMALL, "plain"): 5e-6, (SMALL, "fast"): 2.5e-6}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return tmp_path


def doubling_plan(**how: Any) -> Plan:
    return plan_of("night-3", experiments=[small_experiment()], include=["large-sweep"], **how)


def doubling_run(runs: Path, **how: Any) -> Path:
    """A run of both cases, both profiles; `how` goes to records_of."""
    plan = doubling_plan()
    return write_run(runs / "night-3", plan, records_of(plan, SECONDS, **how))


def replace_journal(directory: Path, records: Iterable[Record]) -> None:
    (directory / journal.NAME).unlink()
    for record in records:
        journal.append(directory / journal.NAME, record)


def fill(directory: Path, runs: Path) -> list[str]:
    return list(track(load_run(directory), directory, runs))


def client(runs: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")


def tracked(runs: Path, *conditions: str) -> list[Run]:
    here = client(runs)
    experiments = [item.experiment_id for item in here.search_experiments()]
    return list(here.search_runs(experiments, " AND ".join(conditions), max_results=1000))


def parents(runs: Path) -> list[Run]:
    return sorted(tracked(runs, "tags.`lab.role` = 'run'"), key=lambda run: run.data.tags["lab.attempt"])


def child(runs: Path, case: str, profile: str) -> Run:
    (cell,) = tracked(runs, f"tags.`lab.key` = '{case}|{profile}'", "tags.`lab.superseded` = 'false'")
    return cell


def artifact(runs: Path, run: Run, name: str) -> str:
    return (runs / "mlartifacts" / "doubling" / run.info.run_id / "artifacts" / name).read_text(encoding="utf-8")


def snapshot(runs: Path) -> dict[str, Any]:
    """Every row of the store and every artifact."""
    with sqlite3.connect(runs / "mlflow.db") as connection:
        tables = ("experiments", "experiment_tags", "runs", "metrics", "latest_metrics", "params", "tags")
        rows: dict[str, Any] = {name: sorted(map(str, connection.execute(f"SELECT * FROM {name}"))) for name in tables}
    files = (path for path in (runs / "mlartifacts").rglob("*") if path.is_file())
    return rows | {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_is_a_parent_with_a_child_for_each_cell(runs: Path) -> None:
    lines = fill(doubling_run(runs), runs)

    assert lines == ["tracked night-3 in doubling: 4 cells"]
    (parent,) = parents(runs)
    assert (parent.info.run_name, parent.info.status) == ("night-3", "FINISHED")
    assert parent.data.tags["lab.gpu"] == "NVIDIA H100 80GB HBM3"
    children = tracked(runs, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert {run.info.run_name for run in children} == {
        "64x128 f32 doubling · plain", "64x128 f32 doubling · fast",
        "4096x4096 f32 doubling · plain", "4096x4096 f32 doubling · fast",
    }  # fmt: skip


def test_a_cell_shows_what_was_measured_in_microseconds_at_the_time_it_was_measured(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    (experiment,) = load_run(directory).experiments
    cell = experiment.cells[LARGE, "fast"]
    speedup = experiment.compare(LARGE, "fast", "plain")
    assert cell.latency
    assert cell.latency.p95_seconds
    assert cell.latency.noise_ratio
    assert speedup

    run = child(runs, LARGE, "fast")
    shown = run.data.metrics
    assert shown["latency/p50_us"] == float(f"{cell.latency.p50_seconds * 1e6:.5g}")
    assert shown["latency/p95_us"] == float(f"{cell.latency.p95_seconds * 1e6:.5g}")
    assert shown["noise/ratio"] == float(f"{cell.latency.noise_ratio:.5g}")
    assert shown["speedup/vs_plain"] == float(f"{speedup.ratio:.5g}")
    assert shown["throughput/gbps"] == pytest.approx(2 * 4096 * 4096 * 4 / cell.latency.p50_seconds / 1e9, rel=1e-4)
    (point,) = client(runs).get_metric_history(run.info.run_id, "latency/p50_us")
    assert point.timestamp == run.info.end_time == 1767323670000  # 2026-01-02T03:14:30Z, the last sweep's
    samples = json.loads(artifact(runs, run, "cell.json"))["samples"]
    assert [record["sweep"] for record in samples] == [0, 1, 2, 3, 4]


def test_a_cell_shows_its_rate_back_to_back_where_it_was_measured(runs: Path) -> None:
    plan = doubling_plan()
    lasting = Sustained(batch_seconds=(20e-6, 24e-6), calls_per_batch=9, spin_hertz=(1.9e9, 1.4e9), power_watts=696.0)
    records = [
        dataclasses.replace(record, sustained=lasting)
        if isinstance(record, Cell) and (record.case, record.profile, record.sweep) == (LARGE, "fast", 0)
        else record
        for record in records_of(plan, SECONDS)
    ]
    fill(write_run(runs / "night-3", plan, records), runs)
    shown = child(runs, LARGE, "fast").data.metrics
    assert shown["sustained/us"] == 24
    assert shown["sustained/tflops"] == float(f"{4096 * 4096 / 24e-6 * 1e-12:.5g}")
    assert not {key for key in child(runs, LARGE, "plain").data.metrics if key.startswith("sustained")}


def test_no_bandwidth_is_shown_near_the_launch_floor(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    assert "throughput/gbps" not in child(runs, SMALL, "fast").data.metrics


def test_a_cell_shows_how_near_it_comes_to_what_the_run_measured_of_its_gpu(runs: Path) -> None:
    """LARGE reads and writes 128 MiB, as this rung of the ladder does."""
    copy = "copy-64x262144-float32"
    plan = plan_of(
        "night-3", experiments=[small_experiment(), *choose_experiments([CEILINGS])], include=["large-sweep"], sweeps=3
    )
    seconds = {**SECONDS, (copy, "torch-copy"): 42e-6, (LARGE, "fast"): 50e-6}
    fill(write_run(runs / "night-3", plan, records_of(plan, seconds, noise=0.0005)), runs)

    shown = child(runs, LARGE, "fast").data.metrics
    assert shown["limits/attained_fraction"] == pytest.approx(0.84, rel=0.01)
    assert shown["limits/distance_us"] == pytest.approx(8, rel=0.05)
    assert child(runs, copy, "torch-copy").data.metrics["limits/attained_fraction"] == 1.0
    assert "limits/attained_fraction" not in child(runs, SMALL, "fast").data.metrics


def test_a_run_without_ceilings_tells_nothing_of_limits(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    assert not any(key.startswith("limits/") for key in child(runs, LARGE, "fast").data.metrics)


def test_the_fastest_of_a_case_is_named(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    assert child(runs, LARGE, "fast").data.tags["lab.place"] == "1 FASTEST"
    assert child(runs, LARGE, "plain").data.tags["lab.place"].startswith("2: ")
    report = artifact(runs, parents(runs)[0], "report.md")
    assert "| 4096x4096 f32 doubling | **fast** |" in report
    assert "**supported** – Fast is faster than plain, by 2 % or more." in report


def test_profiles_that_cannot_be_told_apart_share_the_first_place(runs: Path) -> None:
    plan = doubling_plan()
    seconds = {"plain": 20.1e-6, "fast": 20e-6}
    fill(write_run(runs / "night-3", plan, records_of(plan, seconds)), runs)

    assert {child(runs, LARGE, name).data.tags["lab.place"] for name in seconds} == {"1 tie", "2 tie"}


def test_one_sweep_proves_no_winner(runs: Path) -> None:
    plan = doubling_plan(sweeps=1)
    fill(write_run(runs / "night-3", plan, records_of(plan, SECONDS)), runs)

    assert child(runs, LARGE, "fast").data.tags["lab.place"] == "1 unproven"
    assert child(runs, LARGE, "plain").data.tags["lab.place"].endswith("× the time (unproven)")
    assert "| **fast** (unproven) |" in artifact(runs, parents(runs)[0], "report.md")


def test_the_parent_has_headlines(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    (claim,) = load_run(directory).experiments[0].claims
    ratios = [verdict.speedup.ratio for verdict in claim.verdicts.values() if verdict.speedup]

    (parent,) = parents(runs)
    assert parent.data.metrics["speedup_geomean/fast-beats-plain"] == float(f"{geometric_mean(ratios):.5g}")
    assert parent.data.metrics["cells/measured"] == 4
    assert parent.data.metrics["claims/supported"] == 1


def test_the_parent_carries_report_table_figure_plan_and_journal(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)

    (parent,) = parents(runs)
    assert artifact(runs, parent, "journal.jsonl") == (directory / "journal.jsonl").read_text()
    assert artifact(runs, parent, "plan.json") == (directory / "plan.json").read_text()
    table = json.loads(artifact(runs, parent, "summary.json"))
    assert table["columns"][:3] == ["case", "place", "profile"]
    assert table["data"][0][:3] == ["64x128 f32 doubling", "1 FASTEST", "fast"]
    assert all(len(row) == len(table["columns"]) for row in table["data"])
    figure = artifact(runs, parent, "figure.html")
    assert figure.count("<figure>") == 4  # of each case the times, and the speed-ups over `plain`
    assert f"fast is fastest: {table['data'][0][4]} µs" in figure
    assert "<script" not in figure
    assert "http" not in figure.replace("http://www.w3.org", "")
    assert len(figure.encode()) < 20_000


def test_a_description_is_no_longer_than_a_database_takes(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL refuses a run whose tag is longer; SQLite does not count."""
    assert tree.LONGEST_NOTE == MAX_TAG_VAL_LENGTH
    monkeypatch.setattr(tree, "LONGEST_NOTE", 200)
    fill(doubling_run(runs), runs)

    note = parents(runs)[0].data.tags["mlflow.note.content"]
    assert 100 < len(note) <= 200
    assert note.endswith("\n\nThe rest is in report.md.")


def test_counters_are_summed_and_weighted_by_duration_over_the_kernels_of_a_call(runs: Path) -> None:
    plan = dataclasses.replace(doubling_plan(), profiling=True)
    fill(write_run(runs / "night-3", plan, with_two_kernels(records_of(plan, SECONDS))), runs)

    run = child(runs, LARGE, "plain")
    shown = run.data.metrics
    assert shown["ncu/dram_pct"] == 50.0  # (3 × 60 + 1 × 20) / 4
    assert shown["ncu/occupancy_pct"] == 80.0
    assert shown["ncu/dram_read_mb"] == 3.0
    assert shown["ncu/l2_hit_pct"] == 30.0  # (3 × 20 + 1 × 60) / 4
    assert shown["ncu/sm_pct"] == 10.0
    assert shown["ncu/theoretical_occupancy_pct"] == 100.0
    # One of the kernels lacks what it wrote.
    assert "ncu/dram_written_mb" not in shown
    assert "ncu/traffic_ratio" not in shown
    (counters,) = json.loads(artifact(runs, run, "cell.json"))["counters"]
    assert [kernel["name"] for kernel in counters["kernels"]] == ["a", "b"]


def test_the_traffic_of_a_call_is_reported_as_a_multiple_of_the_least(runs: Path) -> None:
    plan = dataclasses.replace(doubling_plan(), profiling=True)
    least_bytes = 2 * 4096 * 4096 * 4
    pair = with_two_kernels(records_of(plan, SECONDS), written=2 * least_bytes - 4e6)  # with 4 MB: twice the least
    fill(write_run(runs / "night-3", plan, pair), runs)
    assert child(runs, LARGE, "plain").data.metrics["ncu/traffic_ratio"] == 2.0


def with_two_kernels(records: Iterable[Record], written: float | None = None) -> list[Record]:
    """Two kernels in every call; `written` is what the second one writes."""

    def kernel(name: str, seconds: float, percent: float, megabytes: float, written: float | None) -> Kernel:
        return Kernel(
            name=name, grid="", block="", duration_seconds=seconds, dram_read_bytes=megabytes * 1e6,
            dram_written_bytes=written, dram_percent=percent, occupancy_percent=80.0,
            registers_per_thread=None, shared_bytes_per_block=None, theoretical_occupancy_percent=100.0,
            l2_hit_percent=80.0 - percent, sm_percent=10.0,
        )  # fmt: skip

    pair = (kernel("a", 3e-6, 60.0, 2.0, 1e6), kernel("b", 1e-6, 20.0, 1.0, written))
    return [dataclasses.replace(r, kernels=pair) if isinstance(r, Counters) else r for r in records]


def test_tracking_twice_changes_nothing(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    before = snapshot(runs)

    assert fill(directory, runs) == ["tracked night-3 in doubling: unchanged"]
    assert snapshot(runs) == before


def test_a_run_that_is_tracked_already_is_not_judged_again(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = doubling_run(runs)
    assert unchanged(directory, runs) == [], "not tracked yet"
    fill(directory, runs)
    before = snapshot(runs)
    monkeypatch.setenv("LAB_RUNS", str(runs))
    monkeypatch.setattr("lab.verdict.judge_run.load_run", lambda directory: pytest.fail("it was judged again"))
    assert main(["track", str(directory)]) == 0
    assert unchanged(directory, runs) == ["tracked night-3 in doubling: unchanged"]
    assert snapshot(runs) == before


def test_a_run_that_changed_since_it_was_tracked_is_judged(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    path = directory / journal.NAME
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")
    assert unchanged(directory, runs) == [], "a torn end is looked at"
    path.write_bytes(whole.replace(b'"fast"', b'"slow"', 1))
    assert unchanged(directory, runs) == []
    path.write_bytes(whole)
    assert unchanged(directory, runs)
    (directory / "plan.json").write_text((directory / "plan.json").read_text().replace("Is it fast?", "Is it slow?"))
    assert unchanged(directory, runs) == [], "the plan is not the one that the journal names"


def test_a_store_filled_again_from_nothing_is_the_same(runs: Path, empty_store: Path) -> None:
    """But for MLflow's own ids and the time of the filling itself."""

    def shown() -> list[Any]:
        return sorted((r.info.run_name, r.info.start_time, r.info.end_time, r.data.metrics) for r in tracked(runs))

    directory = doubling_run(runs)
    fill(directory, runs)
    before = shown()
    shutil.rmtree(runs / "mlartifacts")
    (runs / "mlflow.db").unlink()
    fill(directory, runs)

    assert shown() == before


def test_a_changed_record_supersedes_visibly(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    replace_journal(directory, records_of(doubling_plan(), SECONDS, seed=2))

    lines = fill(directory, runs)

    (line,) = lines
    assert line.startswith(
        "tracked night-3 in doubling: 4 cells, attempt 2: the evidence changed, the attempt before is tagged superseded"
        "; its journal was changed after it was finished: SHA-256 was "
    )
    old, new = parents(runs)
    assert (old.info.run_name, old.data.tags["lab.superseded"]) == ("night-3 (superseded 1)", "true")
    assert (new.info.run_name, new.data.tags["lab.superseded"]) == ("night-3", "false")
    assert len(tracked(runs, "tags.`lab.role` = 'cell'", "tags.`lab.superseded` = 'true'")) == 4
    assert len(tracked(runs, "tags.`lab.role` = 'cell'", "tags.`lab.superseded` = 'false'")) == 4
    assert child(runs, LARGE, "fast").data.tags["mlflow.parentRunId"] == new.info.run_id


def test_an_unfinished_run_is_completed_later_without_duplicates(runs: Path) -> None:
    records = records_of(doubling_plan(), SECONDS)
    directory = write_run(runs / "night-3", doubling_plan(), records[:9])  # one sweep, and two cells of the next
    assert fill(directory, runs) == ["tracked night-3 in doubling: 2 cells, unfinished"]
    (unfinished,) = parents(runs)
    assert (unfinished.info.status, unfinished.info.end_time) == ("RUNNING", None)
    assert "unfinished" in unfinished.data.tags["mlflow.note.content"]

    replace_journal(directory, records)
    assert fill(directory, runs) == ["tracked night-3 in doubling: 4 cells"]

    (finished,) = parents(runs)
    assert (finished.info.status, finished.data.tags["lab.attempt"]) == ("FINISHED", "1")
    assert len(tracked(runs)) == 5
    assert fill(directory, runs) == ["tracked night-3 in doubling: unchanged"]


def test_a_filling_that_was_interrupted_is_made_again(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    here = client(runs)
    (parent,) = parents(runs)
    here.delete_tag(parent.info.run_id, "lab.digest")  # what is written last
    here.delete_run(child(runs, LARGE, "fast").info.run_id)

    assert fill(directory, runs) == ["tracked night-3 in doubling: 4 cells"]
    assert len(tracked(runs)) == 5


def test_a_run_on_the_cpu_is_plainly_labelled(runs: Path) -> None:
    plan = doubling_plan(device="cpu")
    fill(write_run(runs / "night-3", plan, records_of(plan, SECONDS, on=machine("cpu"))), runs)

    assert all(run.info.run_name.endswith("(CPU)") for run in tracked(runs))
    assert all(run.data.tags["lab.device"] == "cpu" for run in tracked(runs))
    assert "says nothing of any GPU" in parents(runs)[0].data.tags["mlflow.note.content"]
    assert "· CPU" in child(runs, LARGE, "fast").data.tags["lab.case_in_run"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        pytest.param("skipped", "FINISHED", id="skipped"),
        pytest.param("failed", "FAILED", id="failed"),
        pytest.param("wrong", "FAILED", id="wrong"),
        pytest.param("crashed", "FAILED", id="crashed"),
    ],
)
def test_a_cell_without_a_time_says_why(runs: Path, outcome: str, status: str) -> None:
    fill(doubling_run(runs, outcomes={(LARGE, "fast"): (outcome, "no memory left")}), runs)

    run = child(runs, LARGE, "fast")
    assert run.info.status == status
    assert (run.data.tags["lab.status"], run.data.tags["lab.reason"]) == (outcome, "no memory left")
    assert run.data.tags["lab.place"] == outcome
    assert not [key for key in run.data.metrics if not key.startswith(("ncu/", "size/"))]
    assert parents(runs)[0].data.metrics[f"cells/{outcome}"] == 1


def test_a_cell_that_crashed_while_it_was_loaded_is_tracked_from_the_start_of_the_run(runs: Path) -> None:
    """No sweep had begun: its records name no process."""
    plan = doubling_plan()
    outcomes = {(case, "fast"): ("crashed", "the worker was killed by SIGSEGV (load)") for case in (SMALL, LARGE)}
    records = records_of(plan, SECONDS, outcomes=outcomes)
    lost = [
        dataclasses.replace(record, process="") if isinstance(record, Cell) and record.profile == "fast" else record
        for record in records
    ]
    fill(write_run(runs / "night-3", plan, lost), runs)

    run = child(runs, LARGE, "fast")
    assert (run.info.status, run.data.tags["lab.place"]) == ("FAILED", "crashed")
    assert run.info.start_time == parents(runs)[0].info.start_time


def test_a_lead_that_the_same_code_shows_over_itself_is_a_tie(runs: Path) -> None:
    plan = doubling_plan()
    records = records_of(plan, {"plain": 40e-6, "fast": 36e-6})
    apart = [
        dataclasses.replace(record, timings=tuple(_longer(timing, 1.2) for timing in record.timings))
        if isinstance(record, Control)
        else record
        for record in records
    ]
    fill(write_run(runs / "night-3", plan, apart), runs)

    assert child(runs, LARGE, "fast").data.tags["lab.place"] == "1 tie"


def _longer(timing: Timing, factor: float) -> Timing:
    return dataclasses.replace(timing, rounds=tuple(tuple(s * factor for s in block) for block in timing.rounds))


def test_a_cell_that_was_not_planned_has_no_run(runs: Path) -> None:
    plan = plan_of("night-3", experiments=[small_experiment()], include=[])
    fill(write_run(runs / "night-3", plan, records_of(plan, SECONDS)), runs)

    assert {run.data.tags["lab.case"] for run in tracked(runs, "tags.`lab.role` = 'cell'")} == {SMALL}


def test_a_cell_says_its_size_in_params_and_in_metrics_by_which_lists_are_cut(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    sizes = {"rows": "4096", "columns": "4096", "bytes": "134217728", "flops": "16777216"}
    run = child(runs, LARGE, "fast")
    assert run.data.params == sizes | {"case": LARGE, "profile": "fast", "op": "doubling", "dtype": "float32"}
    assert {name: run.data.metrics[f"size/{name}"] for name in sizes} == {n: float(size) for n, size in sizes.items()}
    assert {cell.data.tags["lab.case"] for cell in tracked(runs, "metrics.`size/bytes` > 1000000")} == {LARGE}


def test_a_case_is_a_dataset_that_runs_share(runs: Path) -> None:
    small = plan_of("night-4", experiments=[small_experiment()], include=[])
    fill(doubling_run(runs), runs)
    fill(write_run(runs / "night-4", small, records_of(small, SECONDS)), runs)

    cells = tracked(runs, f"dataset.name = '{SMALL}'")
    assert {cell.data.tags["lab.run_id"] for cell in cells} == {"night-3", "night-4"}
    assert len(cells) == 4
    assert not tracked(runs, f"dataset.name = '{LARGE}'", "tags.`lab.run_id` = 'night-4'")
    inputs = [each for cell in cells for each in cell.inputs.dataset_inputs]
    assert {each.dataset.digest for each in inputs} == {inputs[0].dataset.digest}
    assert {(tag.key, tag.value) for each in inputs for tag in each.tags} == {("mlflow.data.context", "benchmark")}
    assert json.loads(inputs[0].dataset.profile)["rows"] == 64


def test_a_case_that_is_defined_otherwise_is_another_dataset(runs: Path) -> None:
    def digests(*cases: PlannedCase) -> set[str]:
        return {dataset_of(case).digest for case in cases}

    case = doubling_plan().experiments[0].cases[0]
    changed = dataclasses.replace(case, written_bytes=2 * case.written_bytes)
    assert len(digests(case, changed)) == 2
    assert len(digests(case, dataclasses.replace(case, description="in other words", included=False))) == 1


def test_the_gpus_state_is_reported_at_the_moments_of_the_record(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)

    def history(run: Run, name: str) -> list[tuple[int, float]]:
        points = client(runs).get_metric_history(run.info.run_id, f"system/gpu_0_{name}")
        return sorted((point.timestamp, point.value) for point in points)

    (experiment,) = load_run(directory).experiments
    moments = [milliseconds(record.finished_utc) for record in experiment.cells[LARGE, "fast"].cells]
    cell = child(runs, LARGE, "fast")
    assert history(cell, "power_usage_watts") == [(moment, 300.0) for moment in moments]
    assert history(cell, "power_usage_percentage")[0][1] == 42.857  # of 700 W
    assert history(cell, "temperature_celsius")[0][1] == 38.0
    assert history(cell, "sm_clock_by_spins_megahertz")[0][1] == 1930.0
    assert not history(cell, "sm_clock_megahertz")  # NVML told no clock of these rounds
    assert len(history(parents(runs)[0], "power_usage_watts")) == 2 * len(moments)  # both cases


def test_a_run_on_the_cpu_has_no_state_of_a_gpu(runs: Path) -> None:
    plan = doubling_plan(device="cpu")
    fill(write_run(runs / "night-3", plan, records_of(plan, SECONDS, on=machine("cpu"))), runs)

    assert not [key for run in tracked(runs) for key in run.data.metrics if key.startswith("system/")]


def test_the_first_charts_are_p50_and_speed_up_by_case_with_a_colour_for_each_profile(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    (experiment,) = client(runs).search_experiments()
    state = saved_view(experiment.tags["mlflow.sharedViewState.lab-winners"])
    times, gains = state["compareRunCharts"]
    titles = {section["uuid"]: section["name"] for section in state["compareRunSections"]}
    assert [titles[chart["metricSectionId"]] for chart in (times, gains)] == [
        "p50 by case, µs",
        "Speed-up over plain, ×",
    ]
    assert times["selectedMetricKeys"] == ["p50_us/plain", "p50_us/fast"]
    assert gains["selectedMetricKeys"] == ["speedup_vs_plain/plain", "speedup_vs_plain/fast"]
    assert state["useGroupedValuesInCharts"]
    fast = child(runs, LARGE, "fast").data.metrics
    assert fast["p50_us/fast"] == fast["latency/p50_us"]
    assert fast["speedup_vs_plain/fast"] == fast["speedup/vs_plain"]
    assert "p50_us/plain" not in fast


def test_p50_over_problem_size_is_a_line_for_each_profile(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    (experiment,) = client(runs).search_experiments()
    state = saved_view(experiment.tags["mlflow.sharedViewState.lab-curves"])
    assert state["groupBy"]["groupByKeys"][0] == {"mode": "param", "groupByData": "profile"}
    (chart,) = state["compareRunCharts"]
    (key,) = chart["selectedMetricKeys"]
    points = [client(runs).get_metric_history(run.info.run_id, key) for run in tracked(runs, state["searchFilter"])]
    assert sorted(point.step for line in points for point in line) == [64, 64, 131072, 131072]


def test_through_mlflows_client_a_store_is_filled_with_the_same(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab writes rows into its own file; another store, even a file that somebody named, gets requests."""
    plan = dataclasses.replace(doubling_plan(), profiling=True)
    directory = write_run(runs / "night-3", plan, records_of(plan, SECONDS))
    fill(directory, runs)
    mine = everything(client(runs))
    shutil.rmtree(runs / "mlartifacts")
    (runs / "mlflow.db").rename(runs / "first.db")
    named = f"sqlite:///{runs / 'named.db'}"
    MlflowClient(tracking_uri=named).delete_experiment("0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
    fill(directory, runs)

    assert everything(MlflowClient(tracking_uri=named)) == mine
    assert len(mine) == 5


def everything(here: MlflowClient) -> dict[str, Any]:
    """What a store holds of each run, but for ids that it chose."""
    shown = {}
    for run in here.search_runs([item.experiment_id for item in here.search_experiments()]):
        run_id = run.info.run_id
        folder = Path(run.info.artifact_uri.removeprefix("file://"))
        tags = {key: value for key, value in run.data.tags.items() if key not in ("mlflow.parentRunId", "lab.filling")}
        shown[run.data.tags["lab.key"]] = {
            "info": {**dict(run.info), "run_id": "", "run_uuid": "", "artifact_uri": "", "experiment_id": ""},
            "tags": tags | {"is a child": str("mlflow.parentRunId" in run.data.tags)},
            "params": run.data.params,
            "metrics": run.data.metrics,
            "points": {
                key: sorted((p.timestamp, p.step, p.value) for p in here.get_metric_history(run_id, key))
                for key in run.data.metrics
            },
            "inputs": [each.to_dictionary() for each in run.inputs.dataset_inputs],
            "artifacts": {path.name: path.read_bytes() for path in folder.iterdir()},
        }
    return shown


def test_more_cells_cost_the_store_no_more_statements(runs: Path) -> None:
    """Else a thousand cells take minutes."""

    def statements(run_id: str, cases: tuple[Case, ...]) -> int:
        experiment = small_experiment(name=run_id, cases=cases, claims=(FAST_BEATS_PLAIN_AT_SMALL,), headlines=())
        plan = plan_of(run_id, experiments=[experiment], include=[], sweeps=1)
        directory = write_run(runs / run_id, plan, records_of(plan, SECONDS))
        count = 0

        def heard(*_: object) -> None:
            nonlocal count
            count += 1

        event.listen(Engine, "before_cursor_execute", heard)
        try:
            assert fill(directory, runs) == [f"tracked {run_id} in {run_id}: {2 * len(cases)} cells"]
        finally:
            event.remove(Engine, "before_cursor_execute", heard)
        return count

    many = tuple(Case(operator=DOUBLING, shape=(64, 128 * number), dtype="float32") for number in range(1, 20))
    statements("first", many[:1])  # with what opening a store costs once
    assert statements("many", many) == statements("few", many[:1])


FAST_BEATS_PLAIN_AT_SMALL = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL_CASE,))


def test_the_saved_view_groups_the_cells_of_a_case_fastest_first(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    (experiment,) = client(runs).search_experiments()
    assert experiment.tags["mlflow.note.content"].startswith("**Doubling** – Is it fast?")
    state = saved_view(experiment.tags["mlflow.sharedViewState.lab-winners"])
    cells = tracked(runs, state["searchFilter"])
    assert len(cells) == 4
    (group,) = state["groupBy"]["groupByKeys"]
    assert len({run.data.tags[group["groupByData"]] for run in cells}) == 2
    assert (state["orderByKey"], state["orderByAsc"]) == ("metrics.`latency/p50_us`", True)
    keys = {f"metrics.`{key}`" for run in cells for key in run.data.metrics}
    assert {"metrics.`latency/p50_us`", "metrics.`speedup/vs_plain`"} <= keys & set(state["selectedColumns"])
    (view,) = views(runs)
    assert f"/experiments/{experiment.experiment_id}/runs?" in view.path
    assert view.path.endswith("viewStateShareKey=lab-winners")


def saved_view(tag: str) -> dict[str, Any]:
    packed = json.loads(tag)["state"].removeprefix("deflate;")
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return state


def test_the_policy_of_the_verdicts_is_recorded(runs: Path) -> None:
    fill(doubling_run(runs), runs)

    assert parents(runs)[0].data.tags["lab.policy_version"] == str(POLICY_VERSION)


def test_the_run_directory_is_never_touched(runs: Path) -> None:
    directory = doubling_run(runs)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*")}
    fill(directory, runs)

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*")} == before


def test_two_processes_may_make_the_store_at_once(tmp_path: Path) -> None:
    plan = doubling_plan()
    for name in ("night-3", "night-4"):
        other = dataclasses.replace(plan, run_id=name)
        write_run(tmp_path / name, other, records_of(other, SECONDS))
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment |= {"LAB_RUNS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    commands = [Command(["track", name], cwd=ROOT, env=environment) for name in ("night-3", "night-4")]
    ended = [command.end() for command in commands]

    assert [command.returncode for command in ended] == [0, 0], ended
    assert {run.info.run_name for run in parents(tmp_path)} == {"night-3", "night-4"}
    assert [item.name for item in client(tmp_path).search_experiments()] == ["doubling"]


def test_a_half_made_database_is_not_taken_for_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.unfinished").write_bytes(b"SQLite format 3, cut off")

    assert fill(doubling_run(tmp_path), tmp_path) == ["tracked night-3 in doubling: 4 cells"]
    assert not (tmp_path / "mlflow.unfinished").exists()


def damage(runs: Path) -> None:
    (runs / "mlflow.db").write_bytes(b"not a database" * 100)


def name_a_dead_server(_: Path) -> None:
    os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"


def name_a_folder(runs: Path) -> None:
    os.environ["MLFLOW_TRACKING_URI"] = str(runs / "mlruns")


@pytest.mark.parametrize(
    ("break_it", "advice"),
    [
        pytest.param(damage, "If it is damaged, delete .*mlflow.db", id="damaged-database"),
        pytest.param(name_a_dead_server, "does not answer.*Start that server, or unset", id="dead-server"),
        pytest.param(name_a_folder, "no longer keeps runs in plain folders", id="folder"),
    ],
)
def test_a_store_that_cannot_be_used_says_what_to_do(
    runs: Path, monkeypatch: pytest.MonkeyPatch, break_it: Callable[[Path], None], advice: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    directory = doubling_run(runs)
    break_it(runs)

    with pytest.raises(StoreError, match=advice) as caught:
        fill(directory, runs)
    assert isinstance(caught.value, LabError)


def test_a_store_that_was_moved_is_refused(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(runs, elsewhere, dirs_exist_ok=True)

    with pytest.raises(StoreError, match="filled at another place"):
        fill(elsewhere / "night-3", elsewhere)


def test_an_experiment_in_the_trash_comes_back(runs: Path) -> None:
    directory = doubling_run(runs)
    fill(directory, runs)
    here = client(runs)
    (experiment,) = here.search_experiments()
    here.delete_experiment(experiment.experiment_id)

    fill(directory, runs)

    assert [item.name for item in here.search_experiments()] == ["doubling"]
    assert len(tracked(runs)) == 5
