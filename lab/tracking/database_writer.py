"""A change written into the lab's own SQLite file in one transaction, as rows of MLflow's tables.

The transaction is made whole or not at all: a filling that is killed leaves files without a run, and no run without its
values.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mlflow.store.tracking.dbmodels.models import SqlRun, SqlTag
from sqlalchemy import Connection, bindparam, create_engine, update

from lab.evidence.moment import now
from lab.tracking import rows
from lab.tracking.change import DIGEST, SUPERSEDED, TreeReplacement, whole_run
from lab.tracking.measures import milliseconds
from lab.tracking.rows import RUN_NAME
from lab.tracking.whole_run import WholeRun

BUSY_SECONDS = 20  # that another process, such as a UI, may keep the file locked; MLflow waits as long


def write(database: Path, artifacts: Path, change: TreeReplacement) -> None:
    """`artifacts` is the folder of the experiment's artifacts."""
    engine = create_engine(f"sqlite:///{database}", connect_args={"timeout": BUSY_SECONDS})
    try:
        with engine.begin() as connection:
            added = rows.rows_of(connection, change.experiment_id, _files_and_runs(artifacts, change))
            _retire(connection, change)
            rows.add(connection, added)
    finally:
        engine.dispose()


def _files_and_runs(artifacts: Path, change: TreeReplacement) -> Iterator[tuple[WholeRun, str]]:
    """Every run that is added, with the address of its artifacts, which are written on the way."""
    parent_id = ""
    for entry in (change.tree.parent, *change.tree.children):
        run = whole_run(entry, change, parent_id)
        folder = artifacts / run.run_id / "artifacts"
        if not parent_id:
            parent_id = run.run_id
            run = replace(run, tags={**run.tags, DIGEST: change.tree.evidence_digest})
            _copy(change.files, folder)
        _write_texts(entry.artifacts, folder)
        yield run, folder.as_uri()


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
