"""What a shared server costs: `lab track` of a run of 1,000 cells, and opening a saved view among 50,000 runs.

PostgreSQL, an S3 server, MLflow's server and `lab track` share this machine, and PostgreSQL waits for the disk. The run
is made up; its cells have samples and counters as those of a real run. The other runs are copies of it, made in SQL.
"""

import argparse
import dataclasses
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from factory import DOUBLING, FAST_BEATS_PLAIN, plan_of, profile, records_of, small_experiment, write_run
from servers import Server, shared_server

from lab.definition.experiment import Case

PROFILES = 10


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


if __name__ == "__main__":
    main()
