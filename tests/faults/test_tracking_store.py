"""A store that does not answer, dies, or is named with a password: a clear line, no secret, and `lab track` later."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import doubling
from forked_command import Command
from mlflow import MlflowClient
from waiting import wait_until

from lab.cli import main
from lab.errors import StoreError
from lab.evidence import journal
from lab.evidence.record import Canary
from lab.evidence.source import ROOT
from lab.tracking import database_writer, fill, rows, store, tree
from lab.tracking.fill import track
from lab.tracking.store import find_store, masked
from lab.verdict.judge_run import load_run

PASSWORD = "hunter2-very-secret"


@contextlib.contextmanager
def server(answers: int = 0) -> Iterator[str]:
    """A server that accepts connections, answers so many requests, and then nothing more."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        accepted: list[socket.socket] = []

        def serve() -> None:
            for number in range(1000):
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                accepted.append(connection)
                if number < answers:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()


def with_store(folder: Path, empty_store: Path) -> Path:
    """A run that is measured, in `folder`/runs, beside a store that holds nothing yet."""
    directory = doubling(folder)
    shutil.copy(empty_store, directory.parent / "mlflow.db")
    return directory


@pytest.mark.parametrize("answers", [0, 1], ids=["at once", "after its health"])
def test_a_server_that_falls_silent_is_given_up_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    directory = doubling(tmp_path)
    monkeypatch.setattr(store, "ANSWER_SECONDS", 0.5)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with server(answers) as place:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ada:{PASSWORD}@{place}")
        with pytest.raises(
            StoreError, match=r"(does not answer|failed).*night-3 is whole: `lab track night-3` fills"
        ) as refusal:
            list(track(load_run(directory), directory, tmp_path / "runs"))
    assert f"http://{place}" in str(refusal.value)
    assert PASSWORD not in str(refusal.value)


def test_the_lab_waits_no_minutes_for_a_server() -> None:
    """MLflow's own waits come to a quarter of an hour: 120 s, seven times."""
    assert fill.os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "20"
    assert fill.os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"


@pytest.mark.parametrize(
    "address",
    [
        f"http://ada:{PASSWORD}@nowhere.invalid:5000",
        f"http://{PASSWORD}@nowhere.invalid",
        f"postgresql://ada:{PASSWORD}@nowhere.invalid/lab",
        f"postgresql://nowhere.invalid/lab?user=ada&password={PASSWORD}",
        f"nothing://ada:{PASSWORD}@nowhere.invalid",
        f"ada:{PASSWORD}@nowhere.invalid/path",
        f"file://ada:{PASSWORD}@nowhere.invalid/path",
        f"http://ada:p%40{PASSWORD}@nowhere.invalid",
    ],
)
def test_a_password_in_the_stores_address_is_never_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], address: str
) -> None:
    directory = doubling(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert main(["track", str(directory)]) == 2
    printed = capfd.readouterr()
    assert "nowhere.invalid" in printed.err
    assert PASSWORD not in printed.out + printed.err


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://ada:pass@host:5000/path", "http://host:5000/path"),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("could not reach postgresql://u:p@db/lab?sslmode=on!", "could not reach postgresql://db/lab?sslmode=on!"),
        ("https://h/?token=abc&x=1", "https://h/?token=***&x=1"),
        ("mail me@example.org", "mail me@example.org"),
    ],
)
def test_only_what_is_secret_is_left_out(address: str, shown: str) -> None:
    assert masked(address) == shown


@pytest.mark.parametrize("odd", ["a?b=c", "p%41"])
def test_a_folder_under_which_mlflow_cannot_keep_a_database_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(StoreError, match=r"MLflow cannot keep its database under a path with .* LAB_RUNS"):
        find_store(tmp_path / odd)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("victim", "name"),
    [
        pytest.param(MlflowClient, "log_batch", id="through the client"),
        pytest.param(rows, "_latest", id="while the rows are made"),
        pytest.param(database_writer, "_retire", id="within the transaction"),
    ],
)
def test_a_kill_between_making_a_run_and_filling_it_leaves_nothing_that_is_not_found_again(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, victim: object, name: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    directory, runs = with_store(tmp_path, empty_store), tmp_path / "runs"
    uri = f"sqlite:///{runs / 'mlflow.db'}"
    if victim is MlflowClient:
        uri = f"sqlite:///{shutil.move(runs / 'mlflow.db', runs / 'named.db')}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)

    def killed(*_: object, **__: object) -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        patch.setattr(victim, name, killed)
        with pytest.raises(SystemExit):
            list(track(load_run(directory), directory, runs))
    list(track(load_run(directory), directory, runs))

    client = MlflowClient(tracking_uri=uri)
    shown = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert sorted(run.info.status for run in shown) == ["FINISHED"] * 3
    assert {run.data.tags["lab.run_id"] for run in shown} == {"night-3"}
    assert list(track(load_run(directory), directory, runs)) == ["tracked night-3 in doubling: unchanged"]


def test_a_filling_that_was_killed_leaves_the_lab_s_own_store_as_it_was(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was tracked before is not taken away until the next one stands."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    directory, runs = with_store(tmp_path, empty_store), tmp_path / "runs"
    list(track(load_run(directory), directory, runs))

    def all_rows() -> list[str]:
        with contextlib.closing(sqlite3.connect(runs / "mlflow.db")) as connection:
            return sorted(map(str, connection.execute("SELECT * FROM runs"))) + sorted(
                map(str, connection.execute("SELECT * FROM tags"))
            )

    before = all_rows()
    monkeypatch.setattr(tree, "LAYOUT", 0)  # all are to be filled again

    def killed(*_: object) -> None:
        raise SystemExit(137)

    retire = database_writer._retire
    monkeypatch.setattr(database_writer, "_retire", lambda *change: (retire(*change), killed()))
    with pytest.raises(SystemExit):
        list(track(load_run(directory), directory, runs))
    assert all_rows() == before


def test_the_digest_of_the_journal_is_tracked_and_contradicts_a_later_edit(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    directory, runs = with_store(tmp_path, empty_store), tmp_path / "runs"
    monkeypatch.setenv("LAB_RUNS", str(runs))
    assert main(["track", "night-3"]) == 0
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    (experiment,) = client.search_experiments()
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`lab.role` = 'run'")
    was = hashlib.sha256((directory / journal.NAME).read_bytes()).hexdigest()
    assert parent.data.tags["lab.journal_sha256"] == was
    assert parent.data.tags["lab.journal_chained"] == "true"

    # Edited with every link made right again: the directory alone cannot tell.
    records = [record for record in journal.read(directory / journal.NAME).records if not isinstance(record, Canary)]
    (directory / journal.NAME).unlink()
    journal.append(directory / journal.NAME, *records)
    assert load_run(directory).damages == ()

    assert main(["publish", "night-3"]) == 2
    assert f"is not the one that was tracked when it was finished (SHA-256 {was}" in capsys.readouterr().err
    assert main(["track", "night-3"]) == 0
    assert f"its journal was changed after it was finished: SHA-256 was {was[:12]}" in capsys.readouterr().err
    assert main(["publish", "night-3"]) == 2


def test_a_ui_that_is_killed_takes_its_server_along(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with_store(tmp_path, empty_store)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {**os.environ, "LAB_RUNS": str(tmp_path / "runs"), "PYTHONPATH": str(ROOT)}
    # Not by this process, whose open database a fork of it could not use.
    assert Command(["track", "night-3"], cwd=tmp_path, env=environment).end().returncode == 0
    ui = Command(["ui", "--port", str(port), "--no-browser"], cwd=tmp_path, env=environment)
    assert str(port) in ui.stdout.readline()
    os.kill(ui.pid, signal.SIGKILL)
    ui.end()
    wait_until(lambda: not answers(port), "the server still answers")


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
    except OSError:
        return False
    return True
