"""What a store holds of one experiment of a run: fillings that are whole, and what interrupted ones left.

A filling is a parent and the children that name it; it counts once its parent has the digest of the evidence, which is
written last. A server knows no locks and no unique tags, and several hosts may fill it at once. So each makes a parent
of its own, and whoever ends or comes later takes away all that does not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlflow import MlflowClient
from mlflow.entities import LifecycleStage, Run, ViewType
from mlflow.exceptions import MlflowException

from lab.evidence.moment import now
from lab.tracking.change import DIGEST, FILLING, PARENT, SUPERSEDED, Begun, Outdated
from lab.tracking.measures import milliseconds
from lab.tracking.tree import SEALED

PARENTS = " AND tags.`lab.role` = 'run'"
CELLS = " AND tags.`lab.role` = 'cell'"
PARENT_TAG = f"tags.`{PARENT}`"
PAGE = 500
GIVEN_UP_MILLISECONDS = 3_600_000  # much more than the clocks of two hosts differ by, and than a filling takes
UNFILLED = "RUNNING"  # the status of a run until it has all of its values


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """The MLflow runs of one filling, as they are now."""

    parent_id: str
    number: int
    digest: str  # empty where the filling was interrupted
    filling: str  # the digest of the evidence, the place that fills, and since when
    sealed: str  # SHA-256 of the journal that it was filled from, where that is on record
    provisional: bool
    superseded: bool
    runs: tuple[Run, ...]

    @property
    def run_ids_parents_last(self) -> list[str]:
        """In the order of deleting: what is left of an attempt still has its parent."""
        return [run.info.run_id for run in sorted(self.runs, key=_is_parent)]


def attempts_of(client: MlflowClient, experiment_id: str, run_id: str, which: str = "") -> list[Attempt]:
    """Every attempt at a run, with all of its runs or only its parents."""
    runs_by_parent: dict[str, list[Run]] = {}
    for run in _search(client, experiment_id, run_id, which):
        parent_id = run.info.run_id if _is_parent(run) else run.data.tags.get(PARENT, "")
        runs_by_parent.setdefault(parent_id, []).append(run)
    return [_attempt(parent_id, runs) for parent_id, runs in runs_by_parent.items()]


def begun(attempt: Attempt) -> Begun:
    """What of an interrupted attempt need not be made again."""
    filled = (run for run in attempt.runs if not _is_parent(run) and run.info.status != UNFILLED)
    return Begun(
        parent_id=attempt.parent_id, children={run.data.tags["lab.key"]: run.info.run_id for run in filled}
    )  # fmt: skip


def outdated(attempt: Attempt) -> list[Outdated]:
    """Its runs, with the name that a parent gets once another attempt takes its place."""
    marked = f" (superseded {attempt.number})"
    return [
        Outdated(run_id=run.info.run_id, new_name=f"{run.info.run_name}{marked}" if _is_parent(run) else "")
        for run in attempt.runs
    ]


def settle(client: MlflowClient, experiment_id: str, run_id: str, digest: str, place: str) -> bool:
    """Whether the store shows this evidence of the run; where it does, it is left there once, and nothing broken.

    Of two fillings with the same evidence the one with the smaller id stays, whichever host looks. One that another
    host may still be at is left alone: else it could be deleted just when it becomes whole and takes away this one.
    """
    parents = attempts_of(client, experiment_id, run_id, PARENTS)
    equal = [each for each in parents if each.digest == digest and not each.superseded]
    if not equal:
        return False
    kept = min(equal, key=lambda each: each.parent_id)
    gone = [each for each in parents if each is not kept and (each in equal or _is_given_up(each, place))]
    delete(client, [each.parent_id for each in gone])
    counted = [each.parent_id for each in parents if each not in gone]
    strays = _search(
        client, experiment_id, run_id, CELLS + "".join(f" AND {PARENT_TAG} != '{each}'" for each in counted)
    )
    if strays:  # a filling that began since the parents were asked for is none
        known = {each.parent_id for each in attempts_of(client, experiment_id, run_id, PARENTS)}
        delete(client, [run.info.run_id for run in strays if run.data.tags.get(PARENT) not in known])
    if not kept.provisional:
        unfilled = f"{CELLS} AND {PARENT_TAG} = '{kept.parent_id}' AND attributes.status = '{UNFILLED}'"
        delete(client, [run.info.run_id for run in _search(client, experiment_id, run_id, unfilled)])
    return True


def _is_given_up(attempt: Attempt, place: str) -> bool:
    """Whether nobody goes on with a filling: it was begun here, where one process at a time fills, or long ago."""
    if attempt.digest:
        return False
    _, filler, began_utc = attempt.filling.split() if attempt.filling else ("", place, "")
    return filler == place or milliseconds(now()) - milliseconds(began_utc) > GIVEN_UP_MILLISECONDS


def delete(client: MlflowClient, run_ids: Iterable[str]) -> None:
    """Delete runs of which somebody else may delete some at the same moment."""
    for run_id in run_ids:
        try:
            client.delete_run(run_id)
        except MlflowException:
            if not is_deleted(client, run_id):
                raise


def delete_children(client: MlflowClient, experiment_id: str, run_id: str, parent_id: str) -> None:
    children = _search(client, experiment_id, run_id, f" AND {PARENT_TAG} = '{parent_id}'")
    delete(client, [run.info.run_id for run in children])


def is_deleted(client: MlflowClient, run_id: str) -> bool:
    return bool(client.get_run(run_id).info.lifecycle_stage == LifecycleStage.DELETED)


def _search(client: MlflowClient, experiment_id: str, run_id: str, which: str) -> list[Run]:
    runs: list[Run] = []
    token: str | None = None
    wanted = f"tags.`lab.run_id` = '{run_id}'{which}"
    while True:
        page = client.search_runs([experiment_id], wanted, ViewType.ACTIVE_ONLY, PAGE, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _attempt(parent_id: str, runs: Sequence[Run]) -> Attempt:
    parent = next((run for run in runs if _is_parent(run)), None)
    tags = parent.data.tags if parent else {}
    return Attempt(
        parent_id=parent_id,
        number=int(runs[0].data.tags.get("lab.attempt", 0)),
        digest=tags.get(DIGEST, ""),
        filling=tags.get(FILLING, ""),
        sealed=tags.get(SEALED, ""),
        provisional=parent is None or parent.info.status == UNFILLED,
        superseded=tags.get(SUPERSEDED) == "true",
        runs=tuple(runs),
    )


def _is_parent(run: Run) -> bool:
    return bool(run.data.tags.get("lab.role") == "run")
