"""An app of MLflow's server that takes many runs in one request: `mlflow server --app-name kernel-evidence`.

MLflow's own requests fill one run in five, each of which loads what it changes. All else is MLflow's server as it is.
Needs of the lab only what it imports here, so that a server needs no torch.
"""

import dataclasses
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flask import Response, request
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.server import app as pages
from mlflow.server.fastapi_app import app
from mlflow.server.handlers import _get_artifact_repo_mlflow_artifacts, _get_tracking_store, catch_mlflow_exception
from mlflow.store.tracking.dbmodels.models import SqlRun
from sqlalchemy import select

from lab.tracking import rows
from lab.tracking.whole_run import MANY_RUNS, SERVED, WholeRun

__all__ = ["app"]
RUN_ID, FILE = re.compile(r"[0-9a-f]{32}"), re.compile(r"\w[\w.-]*", re.ASCII)
FIELDS = {field.name for field in dataclasses.fields(WholeRun)}


@pages.route(MANY_RUNS, methods=["POST"])
@catch_mlflow_exception  # type: ignore[untyped-decorator]
def add_runs() -> Response:
    """Adds those that are not there yet, so that a request may be sent twice: {experiment_id, runs: [{..., texts}]}."""
    experiment_id, texts_by_run = _understood(request.get_json(silent=True))
    store: Any = _get_tracking_store()
    place: str = store.get_experiment(experiment_id).artifact_location  # refuses what is not there
    scheme, _, folder = place.partition(":/")
    if scheme != SERVED:
        raise _refusal(f"the artifacts of experiment {experiment_id} are at {place}, which this server does not keep")
    with store.ManagedSessionMaker(read_only=False) as session:
        ids = [run.run_id for run, _ in texts_by_run]
        known = SqlRun.__table__.c.run_uuid
        there = set(session.scalars(select(known).where(known.in_(ids))))
        new = [(run, texts) for run, texts in texts_by_run if run.run_id not in there]
        _keep(folder.strip("/"), new)
        connection = session.connection()
        placed = [(run, f"{place}/{run.run_id}/artifacts") for run, _ in new]
        rows.add(connection, rows.rows_of(connection, experiment_id, placed))
    return Response("{}", mimetype="application/json")


def _understood(content: Any) -> tuple[str, Sequence[tuple[WholeRun, Mapping[str, str]]]]:
    try:
        return str(int(content["experiment_id"])), list(map(_run, content["runs"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise _refusal(f"{MANY_RUNS}: the request cannot be read: {type(problem).__name__}: {problem}") from None


def _run(data: Mapping[str, Any]) -> tuple[WholeRun, Mapping[str, str]]:
    run = WholeRun(**{name: data[name] for name in FIELDS} | {"points": tuple(map(tuple, data["points"]))})
    texts = data["texts"]
    for pattern, name in ((RUN_ID, run.run_id), *((FILE, name) for name in texts)):
        if not pattern.fullmatch(name):
            raise ValueError(f"{name!r} is no plain name")
    return run, texts


def _keep(folder: str, new: Sequence[tuple[WholeRun, Mapping[str, str]]]) -> None:
    """The artifacts come before the rows: what is left of a request that fails is files without a run."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in _files(Path(scratch), new):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _get_artifact_repo_mlflow_artifacts().log_artifacts(scratch, folder)


def _files(scratch: Path, new: Sequence[tuple[WholeRun, Mapping[str, str]]]) -> Iterator[tuple[Path, str]]:
    for run, texts in new:
        for name, text in texts.items():
            yield scratch / run.run_id / "artifacts" / name, text


def _refusal(message: str) -> Exception:
    return MlflowException(message, INVALID_PARAMETER_VALUE)
