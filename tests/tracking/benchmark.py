"""What a shared server costs: `lab track` of a run of 1,000 cells, and opening a saved view among 50,000 runs.

PostgreSQL, an S3 server, MLflow's server and `lab track` share this machine, and PostgreSQL waits for the disk. The run
is made up; its cells have samples and counters as those of a real run. The other runs are copies of it, made in SQL.
"""

import argparse
import base64
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import requests
from factory import DOUBLING, FAST_BEATS_PLAIN, plan_of, profile, records_of, small_experiment, write_run
from mlflow import MlflowClient
from servers import Server, shared_server
from sqlalchemy import create_engine, text

from lab.definition.experiment import Case
from lab.tracking.saved_view import CURVES, TAG, WINNERS

PROFILES = 10
PAGE = 100  # runs that MLflow's page asks for at first
LOOKS = 11
OF_THE_FIRST = "run_uuid IN (SELECT run_uuid FROM tags WHERE key = 'lab.run_id' AND value = 'night-1')"
COPIES = (
    f"""INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, source_version,
        lifecycle_stage, artifact_uri, experiment_id, start_time, end_time)
        SELECT md5(run_uuid || :n), replace(name, 'night-1', 'night-' || :n), source_type, source_name,
        entry_point_name, user_id, status, source_version, lifecycle_stage, artifact_uri, experiment_id,
        start_time + 1000 * CAST(:n AS bigint), end_time + 1000 * CAST(:n AS bigint)
        FROM runs WHERE {OF_THE_FIRST}""",
    f"""INSERT INTO tags (key, value, run_uuid) SELECT key,
        CASE key WHEN 'mlflow.parentRunId' THEN md5(value || :n) ELSE replace(value, 'night-1', 'night-' || :n) END,
        md5(run_uuid || :n) FROM tags WHERE {OF_THE_FIRST}""",
    f"""INSERT INTO params (key, value, run_uuid)
        SELECT key, value, md5(run_uuid || :n) FROM params WHERE {OF_THE_FIRST}""",
    *(
        f"""INSERT INTO {table} (key, value, timestamp, step, is_nan, run_uuid)
        SELECT key, value * :slower, timestamp, step, is_nan, md5(run_uuid || :n) FROM {table} WHERE {OF_THE_FIRST}"""
        for table in ("metrics", "latest_metrics")
    ),
    f"""INSERT INTO inputs (input_uuid, source_type, source_id, destination_type, destination_id, step)
        SELECT md5(input_uuid || :n), source_type, source_id, destination_type, md5(destination_id || :n), step
        FROM inputs WHERE destination_id IN (SELECT run_uuid FROM tags WHERE {OF_THE_FIRST})""",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000, help="of the run that is tracked (default: 1000)")
    parser.add_argument("--runs", type=int, default=50_000, help="that a view is opened among (default: 50000)")
    parser.add_argument("--server", default="--workers 1", help="options of `mlflow server` (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        _make_run(runs, options.cells)
        with shared_server(Path(folder), *options.server.split(), durable=True) as server:
            _track(server, runs, f"track {options.cells} cells")
            _track(server, runs, "track them again")
            _copy(server, round(options.runs / (options.cells + 1)))
            _open_views(server, "before PostgreSQL has looked at its tables")
            _analyze(server)
            _open_views(server, "after ANALYZE")
            _track(server, runs, "track them again")


def _make_run(runs: Path, cells: int) -> None:
    profiles = tuple(profile(f"profile-{number}") for number in range(PROFILES))
    cases = tuple(
        Case(operator=DOUBLING, shape=(64, 128 * number), dtype="float32") for number in range(1, cells // PROFILES + 1)
    )
    claim = dataclasses.replace(FAST_BEATS_PLAIN, baseline=profiles[0], subject=profiles[1], cases=cases)
    experiment = small_experiment(cases=cases, profiles=profiles, claims=(claim,), headlines=(claim,))
    plan = plan_of("night-1", experiments=[experiment], include=[], profiling=True)
    seconds = {each.name: (20 + number) * 1e-6 for number, each in enumerate(profiles)}
    write_run(runs / "night-1", plan, records_of(plan, seconds))


def _track(server: Server, runs: Path, what: str) -> None:
    environment = os.environ | {"MLFLOW_TRACKING_URI": server.address, "LAB_RUNS": str(runs)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-m", "lab.cli", "track", "night-1"], env=environment, check=True)
    wall_seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what}: {wall_seconds:.1f} s, {cpu_seconds:.1f} CPU s of `lab track`", flush=True)


def _copy(server: Server, last: int) -> None:
    """Add copies of the run, as runs of other names with other times, until there are so many."""
    began = time.monotonic()
    engine = create_engine(server.database)
    with engine.begin() as connection:
        for number in range(2, last + 1):
            for statement in COPIES:
                connection.execute(text(statement), {"n": str(number), "slower": 1 + number / 1000})
    with engine.connect() as connection:
        runs = connection.execute(text("SELECT count(*) FROM runs")).scalar_one()
    engine.dispose()
    print(f"{runs} runs are there, made in {time.monotonic() - began:.0f} s", flush=True)


def _analyze(server: Server) -> None:
    engine = create_engine(server.database)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


def _open_views(server: Server, label: str) -> None:
    """Send what MLflow's page sends when a view is opened, as often as tells how long it takes."""
    client = MlflowClient(tracking_uri=server.address)
    (experiment,) = (each for each in client.search_experiments() if "lab.experiment" in each.tags)
    for view in (WINNERS, CURVES):
        packed = json.loads(experiment.tags[TAG + view])["state"].removeprefix("deflate;")
        state = json.loads(zlib.decompress(base64.b64decode(packed)))
        order = f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}"
        request = {
            "experiment_ids": [experiment.experiment_id], "filter": state["searchFilter"], "max_results": PAGE,
            "run_view_type": "ACTIVE_ONLY", "order_by": [order],
        }  # fmt: skip
        seconds = []
        for _ in range(LOOKS):
            began = time.monotonic()
            answer = requests.post(f"{server.address}/ajax-api/2.0/mlflow/runs/search", json=request, timeout=600)
            answer.raise_for_status()
            seconds.append(time.monotonic() - began)
            assert len(answer.json()["runs"]) == PAGE
        print(
            f"the view {view}, {label}: p50 {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {LOOKS}",
            flush=True,
        )


if __name__ == "__main__":
    main()
