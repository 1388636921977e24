"""`lab track` into a real MLflow server on PostgreSQL and S3: from several hosts, and while the server fails."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from factory import plan_of, records_of, small_experiment, write_run
from mlflow import MlflowClient
from mlflow.entities import Run
from servers import LACKING, Server, shared_server, start, stop
from waiting import LIMIT_SECONDS

import lab.tracking.client_writer
import lab.tracking.fill
from lab.errors import StoreError
from lab.evidence.source import ROOT
from lab.tracking.fill import track, views
from lab.tracking.quick_client import QuickClient
from lab.tracking.whole_run import MANY_RUNS
from lab.verdict.judge_run import load_run

pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"no tracking server: {' and '.join(LACKING)} is missing")
SECONDS = {"plain": 40e-6, "fast": 20e-6}
CELLS = 4  # of a run of these tests


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with shared_server(tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def name(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of an experiment that no other test tracks on this server."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name).strip("-")


def run_on(host: Path, experiment: str, run_id: str = "night-3", seed: int = 1) -> Path:
    """A run in a folder of runs of its own, as each host has one."""
    plan = plan_of(run_id, experiments=[small_experiment(name=experiment)], include=["large-sweep"])
    return write_run(host / run_id, plan, records_of(plan, SECONDS, seed=seed))


def fill(directory: Path) -> list[str]:
    return list(track(load_run(directory), directory, directory.parent))


def shown(server: Server, experiment: str) -> list[Run]:
    client = MlflowClient(tracking_uri=server.address)
    known = client.get_experiment_by_name(experiment)
    return list(client.search_runs([known.experiment_id])) if known else []


def assert_there_once(server: Server, experiment: str, *run_ids: str) -> None:
    """Every run as one finished tree, and nothing else."""
    runs = shown(server, experiment)
    counts = Counter((run.data.tags["lab.run_id"], run.data.tags["lab.key"]) for run in runs)
    assert {key: count for key, count in counts.items() if count > 1} == {}
    assert Counter(run_id for run_id, _ in counts) == dict.fromkeys(run_ids, CELLS + 1)
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [run for run in runs if not run.data.metrics] == []
    parents = {run.info.run_id for run in runs if "lab.digest" in run.data.tags}
    assert {run.data.tags.get("mlflow.parentRunId", run.info.run_id) for run in runs} == parents


@pytest.mark.parametrize("many", [True, False], ids=["many runs a request", "request by request"])
def test_a_server_is_filled_with_what_the_lab_s_own_file_holds(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if not many:
        request_by_request(monkeypatch)
    directory = run_on(tmp_path, name)
    assert fill(directory) == [f"tracked night-3 in {name}: 4 cells"]
    assert fill(directory) == [f"tracked night-3 in {name}: unchanged"]
    assert_there_once(server, name, "night-3")
    (path,) = (view.path for view in views(tmp_path) if view.experiment == name)
    assert path.endswith("=lab-winners")

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    fill(directory)
    own = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    theirs = own.search_runs([each.experiment_id for each in own.search_experiments()])
    assert held(shown(server, name)) == held(theirs)


def held(runs: list[Run]) -> dict[str, object]:
    """What is there of each run, but for ids and addresses that a store chose."""
    chosen = ("mlflow.parentRunId", "lab.filling")
    return {
        run.data.tags["lab.key"]: (
            run.data.params, run.data.metrics, run.info.status, run.info.start_time, run.info.end_time,
            {key: value for key, value in run.data.tags.items() if key not in chosen},
            [each.to_dictionary() for each in run.inputs.dataset_inputs],
        )
        for run in runs
    }  # fmt: skip


def test_artifacts_reach_the_object_store(server: Server, name: str, tmp_path: Path) -> None:
    directory = run_on(tmp_path, name)
    fill(directory)

    places = {run.data.tags["lab.key"]: run.info.artifact_uri for run in shown(server, name)}
    folders = {key: server.objects / uri.removeprefix("mlflow-artifacts:/") for key, uri in places.items()}
    assert (folders["run"] / "journal.jsonl").read_bytes() == (directory / "journal.jsonl").read_bytes()
    cell = json.loads((folders["doubling-64x128-float32|fast"] / "cell.json").read_text())
    assert [record["sweep"] for record in cell["samples"]] == [0, 1, 2, 3, 4]


def test_several_hosts_track_at_once(server: Server, name: str, tmp_path: Path) -> None:
    """One run of each, and one that both have."""
    commands = []
    for host, mine in (("one", "night-1"), ("two", "night-2")):
        for run_id in (mine, "night-3"):
            run_on(tmp_path / host, name, run_id)
        commands.append(
            subprocess.Popen(
                [sys.executable, "-m", "lab.cli", "track", "night-3", mine], cwd=ROOT, stderr=subprocess.PIPE,
                text=True, env=os.environ | {"LAB_RUNS": str(tmp_path / host)},
            )
        )  # fmt: skip
    said = [command.communicate(timeout=LIMIT_SECONDS)[1] for command in commands]
    refused = [text for command, text in zip(commands, said, strict=True) if command.returncode]
    assert all("another `lab track` fills night-3 on this server" in text for text in refused), said
    if refused:
        assert len(refused) == 1
        for host, mine in (("one", "night-1"), ("two", "night-2")):
            fill(tmp_path / host / mine)

    assert_there_once(server, name, "night-1", "night-2", "night-3")


@pytest.mark.parametrize(
    ("moment", "calls", "refused"),
    [
        pytest.param("create_experiment", 0, False, id="before its experiment is made"),
        pytest.param("search_runs", 1, False, id="between the search for what is whole and that for what was begun"),
        pytest.param("create_run", 0, False, id="before its parent is made"),
        pytest.param("log_batch", 0, True, id="before its parent is filled"),
        pytest.param("log_batch", 2, True, id="between its cells"),
        pytest.param("set_terminated", 4, True, id="before its last cell ends"),
        pytest.param("create_many", 0, True, id="before its cells are sent"),
    ],
)
def test_a_run_that_another_host_tracks_meanwhile_is_there_once(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, calls: int, refused: bool
) -> None:
    mine, theirs = (run_on(tmp_path / host, name) for host in ("one", "two"))
    at(monkeypatch, moment, calls, lambda: fill(theirs))
    refusal = pytest.raises(StoreError, match="another `lab track` fills night-3 on this server")
    with refusal if refused else contextlib.nullcontext():
        fill(mine)

    assert_there_once(server, name, "night-3")
    assert fill(mine) == fill(theirs) == [f"tracked night-3 in {name}: unchanged"]


def test_a_filling_that_another_host_is_at_is_left_alone_by_those_whose_own_is_whole(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both could go: the one because it is not whole yet, the other because, once it is, one of two must go."""
    mine, theirs = (run_on(tmp_path / host, name) for host in ("one", "two"))
    at(monkeypatch, "create_run", 0, lambda: fill(theirs))
    at(monkeypatch, "set_tag", 1, lambda: fill(theirs))  # theirs is whole, and mine is but for its digest
    fill(mine)

    assert_there_once(server, name, "night-3")


def request_by_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a server without the lab's app."""
    monkeypatch.setattr(QuickClient, "takes_many_runs", lambda *_: False)


def at(monkeypatch: pytest.MonkeyPatch, moment: str, calls: int, do: "object") -> None:
    """Do something once, before a request of this kind that comes after so many others."""
    assert callable(do)
    if moment != "create_many":
        request_by_request(monkeypatch)
    sent = getattr(QuickClient, moment)
    waiting = [None] * calls + [do]

    def watched(*arguments: object, **named: object) -> object:
        now = waiting.pop(0) if waiting else None
        if now:
            now()
        return sent(*arguments, **named)

    monkeypatch.setattr(QuickClient, moment, watched)


def test_a_filling_that_was_killed_goes_on_with_the_cells_that_it_lacks(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_on(tmp_path, name)
    monkeypatch.setattr(lab.tracking.fill, "SIDE_BY_SIDE", 1)

    def killed() -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        at(patch, "set_terminated", 3, killed)  # the parent and two cells are whole, the third is not
        with pytest.raises(SystemExit):
            fill(directory)
    whole = {run.info.run_id for run in shown(server, name) if run.info.status == "FINISHED"}
    assert 3 <= len(whole) <= CELLS

    assert fill(directory) == [f"tracked night-3 in {name}: 4 cells"]
    assert whole < {run.info.run_id for run in shown(server, name)}
    assert_there_once(server, name, "night-3")


def test_of_many_runs_a_request_only_those_that_lack_are_sent_again(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_on(tmp_path, name)
    monkeypatch.setattr(lab.tracking.client_writer, "RUNS_AT_ONCE", 1)

    def killed() -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        at(patch, "create_many", 2, killed)
        with pytest.raises(SystemExit):
            fill(directory)
    whole = {run.info.run_id for run in shown(server, name)}
    assert 3 <= len(whole) <= CELLS  # the parent and two or three cells

    assert fill(directory) == [f"tracked night-3 in {name}: 4 cells"]
    assert whole < {run.info.run_id for run in shown(server, name)}
    assert_there_once(server, name, "night-3")


def test_many_runs_that_arrive_twice_are_there_once(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an answer that was lost on its way."""
    create_many = QuickClient.create_many

    def twice(*arguments: Any) -> None:
        create_many(*arguments)
        create_many(*arguments)

    monkeypatch.setattr(QuickClient, "create_many", twice)
    fill(run_on(tmp_path, name))
    assert_there_once(server, name, "night-3")


@pytest.mark.parametrize(
    ("experiment_id", "change", "reason"),
    [
        ("0", {"texts": {"../../cell.json": "x"}}, "'../../cell.json' is no plain name"),
        ("0", {"run_id": "../x"}, "'../x' is no plain name"),
        ("0", {"points": 3}, "the request cannot be read: TypeError"),
        ("123456", {}, "No Experiment with id=123456 exists"),
        ("0 OR 1", {}, "the request cannot be read: ValueError"),
    ],
)
def test_what_is_no_run_is_refused(server: Server, experiment_id: str, change: dict[str, Any], reason: str) -> None:
    run = {
        "run_id": "a" * 32, "name": "n", "status": "FINISHED", "started": 1, "ended": 2, "tags": {}, "params": {},
        "points": [], "dataset": None, "texts": {},
    }  # fmt: skip
    content = {"experiment_id": experiment_id, "runs": [run | change]}
    answer = requests.post(f"{server.address}{MANY_RUNS}", json=content, timeout=60)
    assert 400 <= answer.status_code < 500
    assert reason in answer.json()["message"]
    assert not MlflowClient(tracking_uri=server.address).search_runs(["0"])


def test_what_another_host_left_half_done_is_made_again(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        at(patch, "set_terminated", 3, killed)
        with pytest.raises(SystemExit):
            fill(run_on(tmp_path / "one", name))

    assert fill(run_on(tmp_path / "two", name)) == [f"tracked night-3 in {name}: 4 cells"]
    assert_there_once(server, name, "night-3")


def test_changed_evidence_is_a_new_attempt(server: Server, name: str, tmp_path: Path) -> None:
    fill(run_on(tmp_path / "one", name))
    (line,) = fill(run_on(tmp_path / "two", name, seed=2))

    assert "attempt 2: the evidence changed, the attempt before is tagged superseded" in line
    runs = shown(server, name)
    assert Counter(run.data.tags["lab.superseded"] for run in runs) == {"true": CELLS + 1, "false": CELLS + 1}


def test_a_server_that_hangs_is_given_up_and_filled_later(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_on(tmp_path, name)
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        at(patch, "log_inputs", 1, lambda: os.killpg(server.process.pid, signal.SIGSTOP))
        try:
            with pytest.raises(StoreError) as refusal:
                fill(directory)
        finally:
            os.killpg(server.process.pid, signal.SIGCONT)

    assert says_what_to_do(str(refusal.value), server)
    fill(directory)
    assert_there_once(server, name, "night-3")


def says_what_to_do(message: str, server: Server) -> bool:
    return (
        "\n" not in message
        and server.address in message
        and "night-3 is whole" in message
        and "`lab track night-3`" in message
    )


def test_a_server_that_dies_is_filled_when_it_is_back(
    server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last in this file: the server that comes back ends with the test."""
    directory = run_on(tmp_path, name)
    before = (directory / "journal.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        at(patch, "log_inputs", 1, lambda: stop(server.process))
        with pytest.raises(StoreError) as refusal:
            fill(directory)
    assert says_what_to_do(str(refusal.value), server)
    with pytest.raises(StoreError, match="does not answer") as refusal:
        fill(directory)
    assert says_what_to_do(str(refusal.value), server)
    assert (directory / "journal.jsonl").read_bytes() == before

    again = start(server.again, server.environment, server.log, int(server.address.rpartition(":")[2]))
    try:
        fill(directory)
        assert_there_once(server, name, "night-3")
    finally:
        stop(again)
