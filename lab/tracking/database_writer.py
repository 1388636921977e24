"""A change written into the lab's own SQLite file in one transaction, as rows of MLflow's tables.

Through the client a thousand cells take over a minute, for it asks and commits several times for each. So rows are made
here as MLflow's own store makes them; the tests hold both ways against each other. The transaction is made whole or not
at all: a filling that is killed leaves files without a run, and no run without its values.
"""

import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
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
from sqlalchemy import Connection, bindparam, create_engine, insert, select, update

from lab.evidence.moment import now
from lab.tracking.change import DATASET_CONTEXT, DIGEST, RUN_NAME, SUPERSEDED, TreeReplacement, tags_of
from lab.tracking.measures import Measure, milliseconds
from lab.tracking.tree import Dataset, Entry

BUSY_SECONDS = 20  # that another process, such as a UI, may keep the file locked; MLflow waits as long
TABLES = (SqlRun, SqlTag, SqlParam, SqlMetric, SqlLatestMetric, SqlDataset, SqlInput, SqlInputTag)
Row = dict[str, Any]
Rows = dict[type[Any], list[Row]]


def write(database: Path, artifacts: Path, change: TreeReplacement) -> None:
    """`artifacts` is the folder of the experiment's artifacts."""
    engine = create_engine(f"sqlite:///{database}", connect_args={"timeout": BUSY_SECONDS})
    try:
        with engine.begin() as connection:
            rows = _rows(connection, artifacts, change)
            _retire(connection, change)
            for table in TABLES:
                if rows[table]:
                    connection.execute(insert(table), rows[table])
    finally:
        engine.dispose()


def _rows(connection: Connection, artifacts: Path, change: TreeReplacement) -> Rows:
    """All that is added, by table; the artifacts are written on the way."""
    rows: Rows = {table: [] for table in TABLES}
    datasets = _known_datasets(connection, change.experiment_id)
    parent_id = ""
    for entry in (change.tree.parent, *change.tree.children):
        run_id = uuid.uuid4().hex
        folder = artifacts / run_id / "artifacts"
        tags = {**tags_of(entry, change, parent_id), RUN_NAME: entry.name}
        if not parent_id:
            parent_id = run_id
            tags[DIGEST] = change.tree.evidence_digest
            _copy(change.files, folder)
        _write_texts(entry.artifacts, folder)
        rows[SqlRun].append(_run_row(entry, run_id, change.experiment_id, folder))
        rows[SqlTag] += _named_rows(run_id, tags)
        rows[SqlParam] += _named_rows(run_id, {key: value for key, value in entry.params.items() if value})
        metrics = list(_metric_rows(run_id, entry.measures))
        rows[SqlMetric] += metrics
        rows[SqlLatestMetric] += _latest(metrics)
        if entry.dataset:
            _add_input(rows, datasets, entry.dataset, run_id, change.experiment_id)
    return rows


def _run_row(entry: Entry, run_id: str, experiment_id: str, folder: Path) -> Row:
    return {
        "run_uuid": run_id,
        "name": entry.name,
        "experiment_id": int(experiment_id),
        "artifact_uri": folder.as_uri(),
        "source_type": "UNKNOWN",
        "source_name": "",
        "source_version": "",
        "entry_point_name": "",
        "user_id": "unknown",
        "status": entry.status if entry.ended_utc else "RUNNING",
        "start_time": milliseconds(entry.started_utc),
        "end_time": milliseconds(entry.ended_utc) if entry.ended_utc else None,
        "lifecycle_stage": "active",
    }


def _named_rows(run_id: str, values: Mapping[str, str]) -> Iterator[Row]:
    for key, value in values.items():
        yield {"run_uuid": run_id, "key": key, "value": value}


def _metric_rows(run_id: str, measures: Iterable[Measure]) -> Iterator[Row]:
    for each in dict.fromkeys(measures):
        yield {
            "run_uuid": run_id, "key": each.key, "value": each.value, "timestamp": milliseconds(each.utc),
            "step": each.step, "is_nan": False,
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
    rows: Rows, datasets: dict[tuple[str, str], str], dataset: Dataset, run_id: str, experiment_id: str
) -> None:
    identity = datasets.get((dataset.name, dataset.digest))
    if identity is None:
        identity = datasets[dataset.name, dataset.digest] = uuid.uuid4().hex
        rows[SqlDataset].append(
            {
                "dataset_uuid": identity, "experiment_id": int(experiment_id), "name": dataset.name,
                "digest": dataset.digest, "dataset_source_type": "code", "dataset_source": dataset.source,
                "dataset_profile": dataset.profile,
            }
        )  # fmt: skip
    edge = uuid.uuid4().hex
    rows[SqlInput].append(
        {
            "input_uuid": edge, "source_type": "DATASET", "source_id": identity, "destination_type": "RUN",
            "destination_id": run_id,
        }
    )  # fmt: skip
    name, value = DATASET_CONTEXT
    rows[SqlInputTag].append({"input_uuid": edge, "name": name, "value": value})


def _retire(connection: Connection, change: TreeReplacement) -> None:
    """Delete and rename the runs that give way, as MLflow deletes: they are kept, out of sight."""
    if change.deleted:
        gone = update(SqlRun).where(SqlRun.run_uuid == bindparam("run"))
        connection.execute(
            gone.values(lifecycle_stage="deleted", deleted_time=milliseconds(now())),
            [{"run": run_id} for run_id in change.deleted],
        )
    for outdated in change.superseded:
        tags = {SUPERSEDED: "true"} | ({RUN_NAME: outdated.new_name} if outdated.new_name else {})
        for key, value in tags.items():
            tag = update(SqlTag).where(SqlTag.run_uuid == outdated.run_id, SqlTag.key == key)
            connection.execute(tag.values(value=value))
        if outdated.new_name:
            run = update(SqlRun).where(SqlRun.run_uuid == outdated.run_id)
            connection.execute(run.values(name=outdated.new_name))


def _write_texts(texts: Mapping[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _copy(files: Iterable[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copyfile(path, folder / path.name)
