"""Where runs are tracked: a SQLite file beside them, or the server that MLFLOW_TRACKING_URI names.

The store can always be filled again from the journals, so nothing in it is precious.
"""

import contextlib
import fcntl
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import StoreError

VARIABLE = "MLFLOW_TRACKING_URI"
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """One place to track in. `database` is None unless it is the lab's own file; `artifacts` is empty
    where the server decides; `address` is that of a server which already runs, or empty."""

    uri: str
    database: Path | None
    artifacts: str
    address: str


def find_store(runs: Path) -> Store:
    """The store that this machine is set to use. Touches nothing."""
    artifacts = (runs / "mlartifacts").resolve().as_uri()
    uri = os.environ.get(VARIABLE, "").strip()
    if not uri:
        database = (runs / "mlflow.db").resolve()
        return Store(uri=f"sqlite:///{database}", database=database, artifacts=artifacts, address="")
    if "://" not in uri or uri.startswith("file:"):
        raise StoreError(
            f"{VARIABLE} is {uri!r}; MLflow no longer keeps runs in plain folders. Accepted are the address of "
            "a server (http://host:port) or a database (sqlite:///file, postgresql://...); unset it to use "
            f"{runs / 'mlflow.db'}"
        )
    if uri.startswith(("http://", "https://")):
        return Store(uri=uri.rstrip("/"), database=None, artifacts="", address=uri.rstrip("/"))
    return Store(uri=uri, database=None, artifacts=artifacts, address="")


@contextlib.contextmanager
def locked(runs: Path) -> Iterator[None]:
    """One process at a time makes, upgrades or fills the store; the others wait.

    MLflow breaks a new SQLite file that several processes open at once, and knows no unique tags.
    """
    try:
        try:
            runs.mkdir(parents=True, exist_ok=True)
        except OSError as refusal:
            raise StoreError(f"{runs}: no store can be made there ({refusal.strerror}); set LAB_RUNS") from None
        with (runs / ".mlflow.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except PermissionError as problem:
        raise StoreError(f"{runs}: {problem.strerror}; the run store must be writable to track or browse") from None


def check_answers(store: Store) -> None:
    """StoreError where a tracking server does not answer; any answer will do, a refusal too."""
    if not store.address:
        return
    try:
        with urllib.request.urlopen(f"{store.address}/health", timeout=ANSWER_SECONDS):
            return
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError) as problem:
        raise StoreError(
            f"{VARIABLE} names {store.address}, which does not answer ({problem}). Start that server, or unset "
            "the variable to track in a local file. The journals are complete: `lab track RUN` fills the store later"
        ) from None
