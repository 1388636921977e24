"""Runs that have all of their values → rows of MLflow's tables, as its own store makes them.

Through MLflow's requests a thousand cells take over a minute, for it asks and commits several times for each. The tests
hold both ways against each other.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlflow.store.tracking.dbmodels.models import (
    SqlDataset,
    SqlInput,
    SqlInputTag,
    SqlLatestMetric,
    SqlMetric,
    SqlParam,
    SqlRun,
    SqlTag,
)
from sqlalchemy import Connection, insert, select

from lab.tracking.whole_run import WholeRun

RUN_NAME = "mlflow.runName"
TABLES = (SqlRun, SqlTag, SqlParam, SqlMetric, SqlLatestMetric, SqlDataset, SqlInput, SqlInputTag)
Row = dict[str, Any]
Rows = dict[type[Any], list[Row]]


def rows_of(connection: Connection, experiment_id: str, runs: Iterable[tuple[WholeRun, str]]) -> Rows:
    """All that is added, by table. `runs`: each with the address of its artifacts."""
    rows: Rows = {table: [] for table in TABLES}
    datasets = _known_datasets(connection, experiment_id)
    for run, artifacts in runs:
        rows[SqlRun].append(_run_row(run, experiment_id, artifacts))
        rows[SqlTag] += _named_rows(run.run_id, {**run.tags, RUN_NAME: run.name})
        rows[SqlParam] += _named_rows(run.run_id, run.params)
        points = list(_metric_rows(run))
        rows[SqlMetric] += points
        rows[SqlLatestMetric] += _latest(points)
        if run.dataset:
            _add_input(rows, datasets, run.dataset, run.run_id, experiment_id)
    return rows


def add(connection: Connection, rows: Rows) -> None:
    for table in TABLES:
        if rows[table]:
            connection.execute(insert(table), rows[table])


def _run_row(run: WholeRun, experiment_id: str, artifacts: str) -> Row:
    return {
        "run_uuid": run.run_id,
        "name": run.name,
        "experiment_id": int(experiment_id),
        "artifact_uri": artifacts,
        "source_type": "UNKNOWN",
        "source_name": "",
        "source_version": "",
        "entry_point_name": "",
        "user_id": "unknown",
        "status": run.status,
        "start_time": run.started,
        "end_time": run.ended,
        "lifecycle_stage": "active",
    }


def _named_rows(run_id: str, values: Mapping[str, str]) -> Iterator[Row]:
    for key, value in values.items():
        yield {"run_uuid": run_id, "key": key, "value": value}


def _metric_rows(run: WholeRun) -> Iterator[Row]:
    for key, value, moment, step in dict.fromkeys(run.points):
        yield {
            "run_uuid": run.run_id, "key": key, "value": value, "timestamp": moment, "step": step, "is_nan": False,
        }  # fmt: skip


def _latest(metrics: Iterable[Row]) -> Iterable[Row]:
    """Of each key the row that lists show, as MLflow chooses it."""
    latest: dict[str, Row] = {}
    for row in metrics:
        before = latest.setdefault(row["key"], row)
        if _order(row) > _order(before):
            latest[row["key"]] = row
    return latest.values()


def _order(row: Row) -> tuple[int, int, float]:
    return row["step"], row["timestamp"], row["value"]


def _known_datasets(connection: Connection, experiment_id: str) -> dict[tuple[str, str], str]:
    """The id of each dataset of the experiment, by name and digest."""
    columns = [SqlDataset.__table__.c[name] for name in ("name", "digest", "dataset_uuid", "experiment_id")]
    rows = connection.execute(select(*columns).where(columns[-1] == int(experiment_id)))
    return {(name, digest): identity for name, digest, identity, _ in rows}


def _add_input(
    rows: Rows, datasets: dict[tuple[str, str], str], dataset: Mapping[str, str], run_id: str, experiment_id: str
) -> None:
    known = dataset["name"], dataset["digest"]
    identity = datasets.get(known)
    if identity is None:
        identity = datasets[known] = uuid.uuid4().hex
        rows[SqlDataset].append(
            {
                "dataset_uuid": identity, "experiment_id": int(experiment_id), "name": dataset["name"],
                "digest": dataset["digest"], "dataset_source_type": "code", "dataset_source": dataset["source"],
                "dataset_profile": dataset["profile"],
            }
        )  # fmt: skip
    edge = uuid.uuid4().hex
    rows[SqlInput].append(
        {
            "input_uuid": edge, "source_type": "DATASET", "source_id": identity, "destination_type": "RUN",
            "destination_id": run_id,
        }
    )  # fmt: skip
    rows[SqlInputTag].append({"input_uuid": edge, "name": "mlflow.data.context", "value": dataset["context"]})
