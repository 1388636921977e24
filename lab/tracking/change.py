"""What one filling of one experiment changes in a store, whichever way it is written. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.tracking.tree import Entry, Tree

DIGEST = "lab.digest"  # the tag of a parent that says what it was filled from; written last
SUPERSEDED = "lab.superseded"
RUN_NAME = "mlflow.runName"
DATASET_CONTEXT = ("mlflow.data.context", "benchmark")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outdated:
    """A run of an attempt before this one; `new_name` is empty where it keeps its own."""

    run_id: str
    new_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeReplacement:
    """A tree that is added, and the runs that give way to it."""

    experiment_id: str
    number: int  # of this attempt
    tree: Tree
    files: tuple[Path, ...]  # that the parent carries beside its own artifacts
    deleted: tuple[str, ...]  # ids of runs of interrupted or unfinished attempts, parents last
    superseded: tuple[Outdated, ...]


def tags_of(entry: Entry, number: int, parent_id: str) -> Mapping[str, str]:
    """All tags that a run is made with; `parent_id` is empty for a parent."""
    tags = {**entry.tags, "lab.key": entry.key, "lab.attempt": str(number), SUPERSEDED: "false"}
    tags["mlflow.parentRunId"] = parent_id
    if entry.tables:  # the UI draws these as tables
        tags["mlflow.loggedArtifacts"] = json.dumps([{"path": path, "type": "table"} for path in entry.tables])
    return {key: value for key, value in tags.items() if value}
