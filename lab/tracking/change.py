"""What one filling of one experiment changes in a store, whichever way it is written. Pure."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.tracking.measures import milliseconds
from lab.tracking.tree import Dataset, Entry, Tree
from lab.tracking.whole_run import WholeRun

DIGEST = "lab.digest"  # the tag of a parent that says what it was filled from; written last
FILLING = "lab.filling"  # the tag of a parent that says who fills it from what; written first
PARENT = "mlflow.parentRunId"
SUPERSEDED = "lab.superseded"
DATASET_CONTEXT = ("mlflow.data.context", "benchmark")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outdated:
    """A run of an attempt before this one; `new_name` is empty where it keeps its own."""

    run_id: str
    new_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """An interrupted filling of the same tree by this lab, to go on with. All empty where there is none."""

    parent_id: str = ""
    children: Mapping[str, str] = field(default_factory=dict)  # ids, by key, of those that have all of their values

    @property
    def run_ids(self) -> set[str]:
        return {self.parent_id, *self.children.values()}


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeReplacement:
    """A tree that is added, and the runs that give way to it."""

    experiment_id: str
    number: int  # of this attempt
    filling: str
    tree: Tree
    begun: Begun
    files: tuple[Path, ...]  # that the parent carries beside its own artifacts
    deleted: tuple[str, ...]  # ids of runs of interrupted or unfinished attempts, parents last
    superseded: tuple[Outdated, ...]


def tags_of(entry: Entry, change: TreeReplacement, parent_id: str) -> Mapping[str, str]:
    """All tags that a run is made with; `parent_id` is empty for a parent."""
    tags = {**entry.tags, "lab.key": entry.key, "lab.attempt": str(change.number), SUPERSEDED: "false"}
    tags[PARENT if parent_id else FILLING] = parent_id or change.filling
    if entry.tables:  # the UI draws these as tables
        tags["mlflow.loggedArtifacts"] = json.dumps([{"path": path, "type": "table"} for path in entry.tables])
    return {key: value for key, value in tags.items() if value}


def whole_run(entry: Entry, change: TreeReplacement, parent_id: str) -> WholeRun:
    """With an id of its own and all of its values."""
    return WholeRun(
        run_id=uuid.uuid4().hex,
        name=entry.name,
        status=entry.status if entry.ended_utc else "RUNNING",
        started=milliseconds(entry.started_utc),
        ended=milliseconds(entry.ended_utc) if entry.ended_utc else None,
        tags=tags_of(entry, change, parent_id),
        params={key: value for key, value in entry.params.items() if value},
        points=tuple((each.key, each.value, milliseconds(each.utc), each.step) for each in entry.measures),
        dataset=_named(entry.dataset) if entry.dataset else None,
    )


def _named(data: Dataset) -> Mapping[str, str]:
    return {
        "name": data.name, "digest": data.digest, "source": data.source, "profile": data.profile,
        "context": DATASET_CONTEXT[1],
    }  # fmt: skip
