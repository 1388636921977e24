"""A change written through MLflow's client, request by request: to a server, or a database that somebody named.

The digest of the evidence comes last, so a parent without one was interrupted.
"""

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

from lab.tracking.change import DATASET_CONTEXT, DIGEST, SUPERSEDED, TreeReplacement, tags_of
from lab.tracking.measures import milliseconds
from lab.tracking.tree import Entry


def write(client: MlflowClient, change: TreeReplacement) -> None:
    for run_id in change.deleted:
        client.delete_run(run_id)
    parent_id = _log(client, change, change.tree.parent)
    for path in change.files:
        client.log_artifact(parent_id, str(path))
    for child in change.tree.children:
        _log(client, change, child, parent_id)
    for outdated in change.superseded:
        client.set_tag(outdated.run_id, SUPERSEDED, "true")
        if outdated.new_name:
            client.update_run(outdated.run_id, name=outdated.new_name)
    client.set_tag(parent_id, DIGEST, change.tree.evidence_digest)


def _log(client: MlflowClient, change: TreeReplacement, entry: Entry, parent_id: str = "") -> str:
    """Write one entry as a new MLflow run; returns its id."""
    # Tags are set when the run is created: a run that a kill leaves incomplete is found by them.
    made = client.create_run(
        change.experiment_id,
        start_time=milliseconds(entry.started_utc),
        run_name=entry.name,
        tags=dict(tags_of(entry, change.number, parent_id)),
    )
    run_id = str(made.info.run_id)
    client.log_batch(
        run_id,
        metrics=[Metric(m.key, m.value, milliseconds(m.utc), m.step) for m in entry.measures],
        params=[Param(key, value) for key, value in entry.params.items() if value],
    )
    if entry.dataset:
        client.log_inputs(run_id, [_dataset_input(entry)])
    for path, text in entry.artifacts.items():
        client.log_text(run_id, text, path)
    if entry.ended_utc:
        client.set_terminated(run_id, status=entry.status, end_time=milliseconds(entry.ended_utc))
    return run_id


def _dataset_input(entry: Entry) -> DatasetInput:
    data = entry.dataset
    assert data
    dataset = Dataset(
        name=data.name, digest=data.digest, source_type="code", source=data.source, profile=data.profile
    )  # fmt: skip
    return DatasetInput(dataset, [InputTag(*DATASET_CONTEXT)])
