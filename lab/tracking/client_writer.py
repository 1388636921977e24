"""A change written through MLflow's client, request by request: to a server, or a database that somebody named.

The digest of the evidence comes last, so a parent without one was interrupted; so was a run that has no end yet. A
filling that was interrupted goes on with the runs that have all of their values.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run
from mlflow.exceptions import MlflowException

from lab.errors import StoreError
from lab.tracking.attempts import delete, delete_children, is_deleted
from lab.tracking.change import DATASET_CONTEXT, DIGEST, SUPERSEDED, Outdated, TreeReplacement, tags_of, whole_run
from lab.tracking.measures import milliseconds
from lab.tracking.quick_client import QuickClient, Unreachable
from lab.tracking.tree import Entry

DELETED = "INVALID_PARAMETER_VALUE"  # what MLflow answers where a run may not be changed, for it was deleted
RUNS_AT_ONCE = 50  # in one request, where a server takes many: about a second of its time
Given = TypeVar("Given")


def write(client: MlflowClient, change: TreeReplacement, at_once: int) -> None:
    """`at_once`: how many runs are filled side by side.

    StoreError where another host took this filling away, because it fills the same run now.
    """
    with ThreadPoolExecutor(at_once) as pool:
        _all(pool, lambda run_id: delete(client, [run_id]), change.deleted)
    parent = _parent(client, change)
    try:
        with ThreadPoolExecutor(at_once) as pool:
            _write(client, change, parent, pool)
        client.set_tag(parent.info.run_id, DIGEST, change.tree.evidence_digest)
    except MlflowException as refusal:
        if refusal.error_code != DELETED or not is_deleted(client, parent.info.run_id):
            raise
        delete_children(client, change.experiment_id, change.tree.run_id, parent.info.run_id)
        raise StoreError(
            f"another `lab track` fills {change.tree.run_id} on this server, and took the place of this one. Once it "
            f"has ended, `lab track {change.tree.run_id}` sees whether all is there"
        ) from None


def _write(client: MlflowClient, change: TreeReplacement, parent: Run, pool: ThreadPoolExecutor) -> None:
    _fill(client, parent, change.tree.parent, change.files)
    children = (child for child in change.tree.children if child.key not in change.begun.children)
    if isinstance(client, QuickClient) and client.takes_many_runs(change.experiment_id):
        _write_many(client, change, parent.info.run_id, children)
    else:
        _all(pool, lambda child: _fill(client, _make(client, change, child, parent), child), children)
    _all(pool, lambda outdated: _retire(client, outdated), change.superseded)


def _write_many(client: QuickClient, change: TreeReplacement, parent_id: str, children: Iterable[Entry]) -> None:
    """One request after the other, while the next runs are made; each is done whole or not at all."""
    whole = ((whole_run(child, change, parent_id), child.artifacts) for child in children)
    with ThreadPoolExecutor(1) as pool:
        # Once more where it is refused: another host may have added the same case's dataset at the same moment.
        _all(pool, lambda runs: again(client.create_many, change.experiment_id, runs), _groups(whole))


def _groups(items: Iterable[Given]) -> Iterator[list[Given]]:
    rest = iter(items)
    while group := list(itertools.islice(rest, RUNS_AT_ONCE)):
        yield group


def again(request: Callable[..., object], *arguments: object) -> None:
    """Send it once more where it is refused: somebody may have added the same row at the same moment."""
    try:
        request(*arguments)
    except Unreachable:
        raise
    except MlflowException:
        request(*arguments)


def _all(pool: ThreadPoolExecutor, do: Callable[[Given], None], items: Iterable[Given]) -> None:
    """Do it for each item; after an error those that wait are not begun."""
    for _ in pool.map(do, items):
        pass


def _parent(client: MlflowClient, change: TreeReplacement) -> Run:
    if change.begun.parent_id:
        return client.get_run(change.begun.parent_id)
    return _make(client, change, change.tree.parent)


def _make(client: MlflowClient, change: TreeReplacement, entry: Entry, parent: Run | None = None) -> Run:
    # Tags are set when the run is created: a run that a kill leaves incomplete is found by them.
    return client.create_run(
        change.experiment_id,
        start_time=milliseconds(entry.started_utc),
        run_name=entry.name,
        tags=dict(tags_of(entry, change, parent.info.run_id if parent else "")),
    )


def _fill(client: MlflowClient, run: Run, entry: Entry, files: Iterable[Path] = ()) -> None:
    """Give a run its values; doing it twice changes nothing. What ends it comes last."""
    run_id = run.info.run_id
    client.log_batch(
        run_id,
        metrics=[Metric(m.key, m.value, milliseconds(m.utc), m.step) for m in entry.measures],
        params=[Param(key, value) for key, value in entry.params.items() if value],
    )
    if entry.dataset:
        again(client.log_inputs, run_id, [_dataset_input(entry)])
    for name, text in entry.artifacts.items():
        client.log_text(run_id, text, name)
    for path in files:
        client.log_artifact(run_id, str(path))
    if entry.ended_utc:
        client.set_terminated(run_id, status=entry.status, end_time=milliseconds(entry.ended_utc))


def _retire(client: MlflowClient, outdated: Outdated) -> None:
    client.set_tag(outdated.run_id, SUPERSEDED, "true")
    if outdated.new_name:
        client.update_run(outdated.run_id, name=outdated.new_name)


def _dataset_input(entry: Entry) -> DatasetInput:
    data = entry.dataset
    assert data
    dataset = Dataset(
        name=data.name, digest=data.digest, source_type="code", source=data.source, profile=data.profile
    )  # fmt: skip
    return DatasetInput(dataset, [InputTag(*DATASET_CONTEXT)])
