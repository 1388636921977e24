"""Judged runs → MLflow, any number of times with the same result.

Runs are found again by their tags, never by MLflow's ids. One filling of one run is an attempt; its parent
gets the digest of the evidence last, so an attempt without one was interrupted and is made again. Changed
evidence of a finished run is a new attempt beside the old one, which is then tagged superseded; an attempt
of an unfinished run gives way to the next.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# MLflow reads these when it is imported: no telemetry, no chatter, no minutes of retries.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")  # seconds; its own default is 120, and is tried seven times

from mlflow import MlflowClient

from lab.definition import plan_file
from lab.errors import EvidenceError, StoreError
from lab.evidence import journal
from lab.evidence.moment import now
from lab.evidence.record import RunStart
from lab.project import project
from lab.tracking import client_writer, database_writer
from lab.tracking.attempts import PARENTS, Attempt, attempts_of, begun, outdated, settle
from lab.tracking.change import Begun, TreeReplacement
from lab.tracking.mlflow_experiment import OURS, experiment_id_of
from lab.tracking.opening import analyze, explained, open_store
from lab.tracking.saved_view import WINNERS, view_path
from lab.tracking.store import Store, check_answers, find_store, locked, name_of_this_place
from lab.tracking.tree import SEALED, digest_of_journal, evidence_digest, tree, tried
from lab.verdict.results import ExperimentResult, RunResult

SIDE_BY_SIDE = 8  # runs that a server is given at once; it takes two connections to its database, of 15, for each


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A tracked experiment and the path, under the server's address, that opens it ready to read."""

    experiment: str
    path: str


def track(run: RunResult, directory: Path, runs: Path) -> Iterator[str]:
    """Fill the store from a judged run; yields a line for each of its experiments.

    StoreError where the store cannot be used. Never touches the run's directory.
    """
    store = find_store(runs)
    later = f"{directory} is whole: `lab track {directory.name}` fills the store later"
    check_answers(store, later)
    with locked(runs), explained(store, later):
        client = open_store(store)
        experiments = tried(run)
        if not experiments:
            yield f"tracked nothing of {run.plan.run_id}: none of its cells is measured yet"
        for experiment in experiments:
            yield _fill(client, store, run, experiment, directory, name_of_this_place(runs))
        analyze(store)


def unchanged(directory: Path, runs: Path) -> list[str]:
    """What `track` says of a run where the store shows every experiment of it as it is now; else nothing.

    It looks at the digest of the journal alone, and so does not judge the run. StoreError as in `track`.
    """
    store, path = find_store(runs), journal.find(directory)
    if store.is_missing or path is None:
        return []
    registered, start = plan_file.load_plan(directory), journal.begins_with(path)
    if not isinstance(start, RunStart) or start.plan_digest != registered.digest:
        return []
    digest, said = digest_of_journal(journal.sha256_of(path)), []
    check_answers(store)
    with locked(runs), explained(store):
        client = open_store(store)
        for planned in registered.experiments:
            if not client.get_experiment_by_name(planned.name):
                return []
            if not settle(
                client, experiment_id_of(client, store, planned), registered.run_id, digest, name_of_this_place(runs)
            ):
                return []
            said.append(f"tracked {registered.run_id} in {planned.name}: unchanged")
    return said


def refuse_contradicted(directory: Path, runs: Path) -> None:
    """EvidenceError where the store, which is there, holds this run finished with another journal than it has now.

    StoreError where the store cannot be asked.
    """
    store = find_store(runs)
    check_answers(store)
    registered = plan_file.load_plan(directory)
    sealed = journal.seal_of(journal.find(directory) or directory / journal.NAME).sha256
    with locked(runs), explained(store):
        client = open_store(store)
        for planned in registered.experiments:
            known = client.get_experiment_by_name(planned.name)
            attempts = attempts_of(client, known.experiment_id, registered.run_id, PARENTS) if known else []
            for attempt in attempts:
                if attempt.digest and not attempt.provisional and attempt.sealed not in ("", sealed):
                    raise EvidenceError(
                        f"{directory}: its journal is not the one that was tracked when it was finished "
                        f"(SHA-256 {attempt.sealed}; it is now {sealed}). Restore it, or measure again under "
                        "another run id"
                    )


def views(runs: Path) -> list[View]:
    """The tracked experiments, latest filled first; StoreError where there are none."""
    store = find_store(runs)
    nothing = StoreError(
        f"nothing is tracked yet in {store.shown}. Measure first: {project().script('benchmark')} --run-id X "
        "(or, for a run that was measured elsewhere: lab track X)"
    )
    if store.is_missing:
        raise nothing
    check_answers(store)
    with locked(runs), explained(store):
        client = open_store(store)
        ours = [item for item in client.search_experiments() if OURS in item.tags]
    if not ours:
        raise nothing
    ours.sort(key=lambda item: item.last_update_time or 0, reverse=True)
    return [View(experiment=item.name, path=view_path(item.experiment_id, WINNERS)) for item in ours]


def _fill(
    client: MlflowClient, store: Store, run: RunResult, experiment: ExperimentResult, directory: Path, place: str
) -> str:
    """Make the store show this experiment of the run, and say what was done."""
    run_id, name = run.plan.run_id, experiment.plan.name
    experiment_id = experiment_id_of(client, store, experiment.plan)
    subject, digest = f"tracked {run_id} in {name}", evidence_digest(run)
    if settle(client, experiment_id, run_id, digest, place):
        return f"{subject}: unchanged"
    attempts = attempts_of(client, experiment_id, run_id)
    filled_since = any(each.digest == digest and not each.superseded for each in attempts)  # by another host
    if filled_since and settle(client, experiment_id, run_id, digest, place):
        return f"{subject}: unchanged"
    filling = "" if store.database else f"{digest} {place} {now()}"
    kept = [attempt for attempt in attempts if attempt.digest and not attempt.provisional]
    interrupted = [attempt for attempt in attempts if attempt not in kept]
    ours = next((begun(each) for each in interrupted if each.filling.split()[:2] == [digest, place]), Begun())
    change = TreeReplacement(
        experiment_id=experiment_id,
        number=1 + max((attempt.number for attempt in kept), default=0),
        filling=filling,
        tree=tree(run, experiment),
        begun=ours,
        files=tuple(path for path in (directory / plan_file.NAME, journal.find(directory)) if path),
        deleted=tuple(
            each for attempt in interrupted for each in attempt.run_ids_parents_last if each not in ours.run_ids
        ),
        superseded=tuple(each for attempt in kept if not attempt.superseded for each in outdated(attempt)),
    )  # fmt: skip
    if store.database is None:
        client_writer.write(client, change, SIDE_BY_SIDE if store.address else 1)
        settle(client, experiment_id, run_id, digest, place)
    else:
        database_writer.write(store.database, store.artifacts_of(name), change)
    return f"{subject}: {_action_words(change, kept)}"


def _action_words(change: TreeReplacement, kept: Sequence[Attempt]) -> str:
    again = f", attempt {change.number}: the evidence changed, the attempt before is tagged superseded" if kept else ""
    sealed = change.tree.parent.tags.get(SEALED, "")
    if other := next((a.sealed for a in kept if a.sealed and sealed and a.sealed != sealed), ""):
        again += f"; its journal was changed after it was finished: SHA-256 was {other[:12]}…, is {sealed[:12]}…"
    return f"{len(change.tree.children)} cells{'' if change.tree.finished else ', unfinished'}{again}"
