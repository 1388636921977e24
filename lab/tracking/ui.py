"""A light MLflow server on the run store, for one person at this machine, opened at the view of the results."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lab.errors import StoreError
from lab.evidence.source import OWN_MODULE, child_environment
from lab.process.parent_death import mark_parent
from lab.project import project
from lab.tracking.fill import View, views
from lab.tracking.store import Store, find_store

HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 10.0
LOG_LINES = 15


def serve(runs: Path, port: int, browser: bool) -> None:
    """Show the tracked runs until Ctrl-C; where a tracking server is named, only say where to look.

    StoreError where nothing is tracked yet, the port is taken, or the server does not start.
    """
    store = find_store(runs)
    shown = views(runs)
    if store.address:
        _announce(store.shown, shown, browser)
        return
    _check_port(port)
    with contextlib.suppress(KeyboardInterrupt), _server(store, port) as server:
        _announce(f"http://{HOST}:{port}", shown, browser)
        print("Ctrl-C stops the server", flush=True)
        server.wait()
        raise StoreError(f"the MLflow server stopped by itself; start it again with {project().script('ui')}")


def _announce(address: str, shown: list[View], browser: bool) -> None:
    for view in shown:
        print(f"{view.experiment}: {address}{view.path}", flush=True)
    if browser:
        webbrowser.open(f"{address}{shown[0].path}")


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as problem:
            raise StoreError(
                f"port {port} of {HOST} cannot be used ({problem}); a UI may already run there. "
                f"Another one: {project().script('ui')} --port {port + 1}"
            ) from None


@contextlib.contextmanager
def _server(store: Store, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers; it is stopped with everything that it started, whatever ends the block."""
    with tempfile.TemporaryFile() as log:
        # A session of its own: Ctrl-C reaches this process only, which then stops the server in order. Where this
        # process is killed, the server is ended by the one that started it for us.
        server = subprocess.Popen(
            [sys.executable, *OWN_MODULE, "lab.process.parent_death", *_command(store, port)],
            env=_environment(store),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            _wait_until_it_answers(server, port, log)
            yield server
        finally:
            signal.signal(signal.SIGTERM, previous)
            _stop(server)


def _command(store: Store, port: int) -> list[str]:
    return [
        sys.executable, "-m", "mlflow", "server", "--artifacts-destination", store.artifacts,
        "--host", HOST, "--port", str(port), "--workers", "1",
        # Against DNS rebinding: a request under another host name is refused.
        "--allowed-hosts", f"{HOST}:{port},localhost:{port}",
    ]  # fmt: skip


def _environment(store: Store) -> dict[str, str]:
    """Without the job runner and its queues: 2 processes and 0.4 GB, not 15 and 2 GB.

    Nor with settings of a server that this user may run for others, such as one whose checks are off. The address of
    the store may hold a password, and everybody can read the command lines of a machine.
    """
    known = {name: value for name, value in child_environment().items() if not name.startswith("MLFLOW_SERVER_")}
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**known, **mark_parent(), **quiet, "MLFLOW_BACKEND_STORE_URI": store.uri}


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
            return
        time.sleep(0.2)
    log.seek(0)
    tail = "\n".join(log.read().decode(errors="replace").splitlines()[-LOG_LINES:])
    raise StoreError(f"the MLflow server did not start on port {port}; it said:\n{tail}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    for deadly in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, deadly)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(STOP_SECONDS)
            return


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
