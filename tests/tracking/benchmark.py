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
ID = "md5({} || n)"  # of the copy of number n
RUN = f"{ID.format('run_uuid')}, "
COPIES = (
    f"""INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, source_version,
        lifecycle_stage, artifact_uri, experiment_id, start_time, end_time)
        SELECT {RUN} replace(name, 'night-1', 'night-' || n), source_type, source_name, entry_point_name, user_id,
        status, source_version, lifecycle_stage, artifact_uri, experiment_id, start_time + 1000 * n,
        end_time + 1000 * n FROM runs""",
    f"""INSERT INTO tags (run_uuid, key, value) SELECT {RUN} key, CASE key WHEN 'mlflow.parentRunId'
        THEN {ID.format("value")} ELSE replace(value, 'night-1', 'night-' || n) END FROM tags""",
    f"INSERT INTO params (run_uuid, key, value) SELECT {RUN} key, value FROM params",
    *(
        f"""INSERT INTO {table} (run_uuid, key, value, timestamp, step, is_nan)
        SELECT {RUN} key, value * (1 + n / 1000.0), timestamp, step, is_nan FROM {table}"""
        for table in ("metrics", "latest_metrics")
    ),
    f"""INSERT INTO inputs (input_uuid, source_type, source_id, destination_type, destination_id, step)
        SELECT {ID.format("input_uuid")}, source_type, source_id, destination_type, {ID.format("destination_id")}, step
        FROM inputs""",
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
    before, began, others = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), _cpu_seconds()
    subprocess.run([sys.executable, "-m", "lab.cli", "track", "night-1"], env=environment, check=True)
    wall_seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rest = ", ".join(f"{seconds - others[name]:.1f} of {name}" for name, seconds in _cpu_seconds().items())
    print(f"{what}: {wall_seconds:.1f} s; CPU seconds: {own:.1f} of `lab track`, {rest}", flush=True)


def _cpu_seconds() -> dict[str, float]:
    """What this process's servers have used so far, by program."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    rows = [(text.partition("(")[2].rpartition(")"), int(text.split()[0])) for text in stats]
    parents = {number: int(rest.split()[1]) for (_, _, rest), number in rows}
    sums: dict[str, float] = dict.fromkeys(("python", "postgres", "rclone"), 0.0)
    for (name, _, rest), number in rows:
        above = number
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above and number != above and name in sums:
            sums[name] += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return sums


def _copy(server: Server, last: int) -> None:
    """Add copies of the run, as runs of other names with other times, until there are so many."""
    began = time.monotonic()
    engine = create_engine(server.database)
    with engine.begin() as connection:
        for statement in COPIES:
            connection.execute(text(f"{statement} CROSS JOIN generate_series(2, {last}) AS n"))
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
