"""The local MLflow server: it opens at the view of the results, prints its address, and leaves no process behind."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from factory import plan_of, records_of, small_experiment, write_run
from forked_command import Command
from mlflow import MlflowClient
from waiting import wait_until

from lab.errors import StoreError
from lab.tracking.fill import track
from lab.tracking.ui import serve
from lab.verdict.judge_run import load_run

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"doubling: (http://127\.0\.0\.1:\d+)(/#/experiments/(\d+)/runs\?\S*viewStateShareKey=lab-winners)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A UI that runs as a person would start it."""

    address: str
    experiment_id: str
    process: Command
    runs: Path


@pytest.fixture(autouse=True)
def _local_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Shown]:
    runs = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_store, runs / "mlflow.db")
    make_run(runs, "night-3")
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment |= {"LAB_RUNS": str(runs), "PYTHONPATH": str(ROOT)}
    environment |= {"MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "true", "MLFLOW_SERVER_ALLOWED_HOSTS": "*"}
    # Not by this process, whose open database a fork of it could not use.
    tracked = Command(["track", "night-3"], cwd=ROOT, env=environment).end()
    assert "tracked night-3 in doubling: 2 cells" in tracked.stdout + tracked.stderr
    process = Command(["ui", "--port", str(free_port()), "--no-browser"], cwd=ROOT, env=environment)
    line = process.stdout.readline()
    link = LINK.match(line)
    assert link, line
    yield Shown(address=link[1], experiment_id=link[3], process=process, runs=runs)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def make_run(runs: Path, run_id: str) -> Path:
    plan = plan_of(run_id, experiments=[small_experiment()], include=[])
    return write_run(runs / run_id, plan, records_of(plan, {"plain": 40e-6, "fast": 20e-6}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_link_that_is_printed_answers_with_the_tracked_runs(shown: Shown) -> None:
    with urllib.request.urlopen(shown.address) as page:
        assert b"MLflow" in page.read()
    runs = MlflowClient(tracking_uri=shown.address).search_runs([shown.experiment_id])
    assert {run.info.run_name for run in runs} >= {"night-3", "64x128 f32 doubling · fast"}


def test_artifacts_of_the_local_store_are_served(shown: Shown) -> None:
    (parent,) = MlflowClient(tracking_uri=shown.address).search_runs(
        [shown.experiment_id], "tags.`lab.role` = 'run' AND tags.`lab.run_id` = 'night-3'"
    )
    address = f"{shown.address}/get-artifact?run_uuid={parent.info.run_id}&path=summary.json"
    with urllib.request.urlopen(address) as answer:
        assert json.load(answer)["columns"][0] == "case"


def test_a_named_server_is_filled_and_linked_to_and_nothing_is_started(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", shown.address + "/")
    directory = make_run(tmp_path, "night-4")

    first, again = (list(track(load_run(directory), directory, tmp_path)) for _ in range(2))
    serve(tmp_path, 5000, False)

    assert first == ["tracked night-4 in doubling: 2 cells"]
    assert again == ["tracked night-4 in doubling: unchanged"]
    assert not (tmp_path / "mlflow.db").exists()
    link = LINK.match(capsys.readouterr().out)
    assert link
    assert link[1] == shown.address


def test_the_server_answers_this_machine_only_whatever_is_set(shown: Shown) -> None:
    """Else a web page could read the store through a browser here, by a name that leads to this machine."""
    port = int(shown.address.rsplit(":", 1)[1])
    stranger = urllib.request.Request(f"{shown.address}/api/2.0/mlflow/experiments/search?max_results=9")
    stranger.add_header("Host", "evil.example")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(stranger, timeout=10)
    assert refusal.value.code == 403
    with pytest.raises(OSError, match="refused"):  # another address of the loopback: only the one is listened on
        urllib.request.urlopen(f"http://127.0.0.2:{port}/health", timeout=10)


def test_a_taken_port_says_how_to_choose_another(shown: Shown) -> None:
    port = int(shown.address.rsplit(":", 1)[1])
    with pytest.raises(StoreError, match=f"--port {port + 1}"):
        serve(shown.runs, port, False)


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"\./scripts/benchmark --run-id X .*lab track X"):
        serve(tmp_path, free_port(), False)
    assert not (tmp_path / "mlflow.db").exists()


def test_ctrl_c_stops_the_server_and_all_that_it_started(shown: Shown) -> None:
    """Last in this file: it ends the server of the tests above."""
    os.kill(shown.process.pid, signal.SIGINT)

    assert shown.process.end().returncode == 0
    wait_until(lambda: is_refused(shown.address), "the server answers still")


def is_refused(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError as problem:
        return "refused" in str(problem)
    return False
