"""The store, opened: made or brought up to date first, and what fails in it told in words that say what to do."""

import contextlib
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from lab.errors import StoreError
from lab.tracking.quick_client import client_of
from lab.tracking.store import LATER, Store

DEFAULT_EXPERIMENT = "0"


@contextlib.contextmanager
def explained(store: Store, later: str = LATER) -> Iterator[None]:
    """Turn MLflow's and the database's errors into one that says what to do."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise StoreError(
            f"the tracking store {store.shown} needs the package {missing.name}, which is not installed here. {later}"
        ) from None
    except (MlflowException, SQLAlchemyError, subprocess.SubprocessError, OSError) as problem:
        damaged = f"If it is damaged, delete {store.database} and its mlartifacts. " if store.database else ""
        reason = next(iter(store.hides(str(problem)).strip().splitlines()), type(problem).__name__)[:300]
        raise StoreError(f"the tracking store {store.shown} failed: {reason}. {damaged}{later}") from None


def open_store(store: Store) -> MlflowClient:
    """A client; makes the lab's own database first, or brings an older one up to date. Call it locked."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if store.database is not None and not store.database.is_file():
        _make(store.database)
    try:
        return client_of(store.uri) if store.address else MlflowClient(tracking_uri=store.uri)
    except MlflowException as problem:
        if store.database is None or "out-of-date database schema" not in str(problem):
            raise
    subprocess.run([sys.executable, "-m", "mlflow", "db", "upgrade", store.uri], check=True, capture_output=True)
    return MlflowClient(tracking_uri=store.uri)


def _make(database: Path) -> None:
    """Make the database under another name, so that one that was left half made is never used."""
    unfinished = database.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    client = MlflowClient(tracking_uri=f"sqlite:///{unfinished}")
    client.delete_experiment(DEFAULT_EXPERIMENT)  # always empty, and the first thing that the UI would show
    unfinished.replace(database)


def analyze(store: Store) -> None:
    """Tell SQLite how large its tables have become: sorting by a metric is a hundred times as fast then."""
    if store.database is not None:
        with contextlib.closing(sqlite3.connect(store.database)) as connection:
            connection.execute("ANALYZE")
