"""Judged runs → MLflow, any number of times with the same result. The only room that knows MLflow.

Runs are found again by their tags, never by MLflow's ids. One filling of one run is an attempt; its parent
gets the digest of the evidence last, so an attempt without one was interrupted and is made again. Changed
evidence of a finished run is a new attempt beside the old one, which is then tagged superseded; an attempt
of an unfinished run gives way to the next.
"""

import contextlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# MLflow reads these when it is imported: no telemetry, no chatter, no minutes of retries.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")

from mlflow import MlflowClient
from mlflow.entities import Experiment, Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from lab.definition import plan
from lab.definition.plan import PlannedExperiment
from lab.errors import StoreError
from lab.evidence import journal
from lab.tracking.measures import curve_keys, milliseconds
from lab.tracking.saved_view import CURVES, TAG, WINNERS, curves_view, view_path, winners_view
from lab.tracking.store import Store, check_answers, find_store, locked
from lab.tracking.tree import Entry, Tree, trees
from lab.verdict.results import RunResult

OURS = "lab.experiment"  # tags the MLflow experiments that this room made
DEFAULT_EXPERIMENT = "0"
PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A tracked experiment and the path, under the server's address, that opens it ready to read."""

    experiment: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """The MLflow runs of one filling, as they are now."""

    number: int
    digest: str  # empty where the filling was interrupted
    provisional: bool
    superseded: bool
    runs: tuple[Run, ...]


def track(run: RunResult, directory: Path, runs: Path) -> Iterator[str]:
    """Fill the store from a judged run; yields a line for each of its experiments.

    StoreError where the store cannot be used. Never touches the run's directory.
    """
    store = find_store(runs)
    check_answers(store)
    with locked(runs), _explained(store):
        client = _open(store)
        found = trees(run)
        if not found:
            yield f"tracked nothing of {run.plan.run_id}: none of its cells is measured yet"
        for tree in found:
            experiment_id = _experiment(client, store, run.plan.experiment(tree.experiment))
            yield _fill(client, experiment_id, tree, directory)
        _analyze(store)


def views(runs: Path) -> list[View]:
    """The tracked experiments, latest filled first; StoreError where there are none."""
    store = find_store(runs)
    nothing = StoreError(
        f"nothing is tracked yet in {store.address or store.uri}. Measure first: ./scripts/benchmark --run-id X "
        "(or, for a run that was measured elsewhere: lab track X)"
    )
    if store.database is not None and not store.database.is_file():
        raise nothing
    check_answers(store)
    with locked(runs), _explained(store):
        client = _open(store)
        found = [item for item in client.search_experiments() if OURS in item.tags]
    if not found:
        raise nothing
    found.sort(key=lambda item: item.last_update_time or 0, reverse=True)
    return [View(experiment=item.name, path=view_path(item.experiment_id, WINNERS)) for item in found]


@contextlib.contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Turn MLflow's and the database's errors into one that says what to do."""
    try:
        yield
    except (MlflowException, SQLAlchemyError, subprocess.SubprocessError, OSError) as problem:
        advice = "The journals are untouched: `lab track RUN` fills it again"
        if store.database is not None:
            advice = f"If it is damaged, delete {store.database} and its mlartifacts. {advice}"
        reason = str(problem).strip().splitlines()[0][:300]
        raise StoreError(f"the tracking store {store.address or store.uri} failed: {reason}. {advice}") from problem


def _open(store: Store) -> MlflowClient:
    """A client; makes the lab's own database first, or brings an older one up to date. Call it locked."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if store.database is not None and not store.database.is_file():
        _make(store.database)
    try:
        return MlflowClient(tracking_uri=store.uri)
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


def _experiment(client: MlflowClient, store: Store, planned: PlannedExperiment) -> str:
    """The id of the MLflow experiment of that name, with its description and views as they should be."""
    home = f"{store.artifacts}/{planned.name}" if store.artifacts else None
    found = client.get_experiment_by_name(planned.name)
    if found is None:
        found = client.get_experiment(client.create_experiment(planned.name, artifact_location=home))
    elif store.database is not None and found.artifact_location != home:
        raise StoreError(
            f"{store.database} was filled at another place and cannot be moved: its artifacts are under "
            f"{found.artifact_location}. Delete the file and `lab track` your runs again"
        )
    elif found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    _describe(client, found, planned)
    return str(found.experiment_id)


def _describe(client: MlflowClient, found: Experiment, planned: PlannedExperiment) -> None:
    named = {claim.baseline for claim in planned.claims}
    wanted = {
        OURS: planned.name,
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": (
            f"**{planned.title}** – {planned.question}\n\n"
            "Each run id is a parent run; each case × profile that it tried is a child run. Open the saved view "
            "*Which profile wins at which shape*: cells are grouped by case, fastest first, `1 FASTEST` on top, or "
            "`1 tie` where the ranking cannot tell. "
            "`speedup/vs_X` is how many times as fast as X; `noise/ratio` is p95 / p50, noisy from 1.20. "
            "A parent's report.md has the verdicts, its figure.html the intervals."
        ),
        TAG + WINNERS: winners_view([p.name for p in planned.profiles if p.name in named]),
        TAG + CURVES: curves_view(list(curve_keys(planned).items())),
    }
    for key, value in wanted.items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(found.experiment_id, key, value)


def _fill(client: MlflowClient, experiment_id: str, tree: Tree, directory: Path) -> str:
    """Make the store show this tree, and say what was done."""
    attempts = _attempts(client, experiment_id, tree.run_id)
    subject = f"tracked {tree.run_id} in {tree.experiment}"
    if any(a.digest == tree.evidence_digest and not a.superseded for a in attempts):
        return f"{subject}: unchanged"
    kept = [attempt for attempt in attempts if attempt.digest and not attempt.provisional]
    for attempt in attempts:
        if attempt not in kept:
            for run in attempt.runs:
                client.delete_run(run.info.run_id)
    number = 1 + max((attempt.number for attempt in kept), default=0)
    parent_id = _log(client, experiment_id, tree.parent, number)
    for path in (directory / plan.NAME, journal.find(directory)):
        client.log_artifact(parent_id, str(path))
    for child in tree.children:
        _log(client, experiment_id, child, number, parent_id)
    for attempt in kept:
        if not attempt.superseded:
            _supersede(client, attempt)
    client.set_tag(parent_id, "lab.digest", tree.evidence_digest)
    again = f", attempt {number}: the evidence changed, the attempt before is tagged superseded" if kept else ""
    unfinished = "" if tree.finished else ", unfinished"
    return f"{subject}: {len(tree.children)} cells{unfinished}{again}"


def _attempts(client: MlflowClient, experiment_id: str, run_id: str) -> list[_Attempt]:
    found: dict[int, list[Run]] = {}
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], f"tags.`lab.run_id` = '{run_id}'", ViewType.ACTIVE_ONLY, PAGE, page_token=token
        )
        for run in page:
            found.setdefault(int(run.data.tags.get("lab.attempt", 0)), []).append(run)
        token = page.token
        if not token:
            return [_attempt(number, runs) for number, runs in found.items()]


def _attempt(number: int, runs: Sequence[Run]) -> _Attempt:
    parent = next((run for run in runs if run.data.tags.get("lab.role") == "run"), None)
    return _Attempt(
        number=number,
        digest=parent.data.tags.get("lab.digest", "") if parent else "",
        provisional=parent is None or parent.info.status == "RUNNING",
        superseded=parent is not None and parent.data.tags.get("lab.superseded") == "true",
        runs=tuple(runs),
    )


def _log(client: MlflowClient, experiment_id: str, entry: Entry, number: int, parent_id: str = "") -> str:
    """Write one entry as a new MLflow run; returns its id."""
    tags = {**entry.tags, "lab.key": entry.key, "lab.attempt": str(number), "lab.superseded": "false"}
    if parent_id:
        tags["mlflow.parentRunId"] = parent_id
    if entry.tables:  # the UI draws these as tables
        tags["mlflow.loggedArtifacts"] = json.dumps([{"path": path, "type": "table"} for path in entry.tables])
    started = milliseconds(entry.started_utc)
    made = client.create_run(experiment_id, start_time=started, run_name=entry.name)
    run_id = str(made.info.run_id)
    client.log_batch(
        run_id,
        metrics=[Metric(m.key, m.value, milliseconds(m.utc), m.step) for m in entry.measures],
        params=[Param(key, value) for key, value in entry.params.items() if value],
        tags=[RunTag(key, value) for key, value in tags.items() if value],
    )
    for path, text in entry.artifacts.items():
        client.log_text(run_id, text, path)
    if entry.ended_utc:
        client.set_terminated(run_id, status=entry.status, end_time=milliseconds(entry.ended_utc))
    return run_id


def _supersede(client: MlflowClient, attempt: _Attempt) -> None:
    for run in attempt.runs:
        client.set_tag(run.info.run_id, "lab.superseded", "true")
        if run.data.tags.get("lab.role") == "run":
            client.update_run(run.info.run_id, name=f"{run.info.run_name} (superseded {attempt.number})")


def _analyze(store: Store) -> None:
    """Tell SQLite how large its tables have become: sorting by a metric is a hundred times as fast then."""
    if store.database is not None:
        with contextlib.closing(sqlite3.connect(store.database)) as connection:
            connection.execute("ANALYZE")
