"""Judged runs → MLflow, any number of times with the same result.

Runs are found again by their tags, never by MLflow's ids. One filling of one run is an attempt; its parent
gets the digest of the evidence last, so an attempt without one was interrupted and is made again. Changed
evidence of a finished run is a new attempt beside the old one, which is then tagged superseded; an attempt
of an unfinished run gives way to the next.
"""

import contextlib
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# MLflow reads these when it is imported: no telemetry, no chatter, no minutes of retries.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")  # seconds; its own default is 120, and is tried seven times

from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from lab.definition import plan_file
from lab.definition.plan import PlannedExperiment
from lab.errors import EvidenceError, StoreError
from lab.evidence import journal
from lab.evidence.moment import now
from lab.evidence.record import RunStart
from lab.project import project
from lab.tracking import client_writer, database_writer
from lab.tracking.attempts import PARENTS, Attempt, attempts_of, begun, outdated, settle
from lab.tracking.change import Begun, TreeReplacement
from lab.tracking.measures import curve_keys, headline_baselines, p50_key, speedup_key
from lab.tracking.quick_client import client_of
from lab.tracking.saved_view import CURVES, FIRST_RUNS, TAG, WINNERS, Chart, curves_view, view_path, winners_view
from lab.tracking.store import LATER, Store, check_answers, find_store, locked, name_of_this_place
from lab.tracking.tree import SEALED, digest_of_journal, evidence_digest, tree, tried
from lab.verdict.results import ExperimentResult, RunResult

OURS = "lab.experiment"  # tags the MLflow experiments that this room made
DEFAULT_EXPERIMENT = "0"
SIDE_BY_SIDE = 8  # runs that a server is given at once; it takes two connections to its database, of 15, for each
# Heights of charts: around all bars, of one bar, of all at most; of lines.
FRAME_PIXELS, BAR_PIXELS, TALLEST_PIXELS, CURVES_PIXELS = 220, 14, 2400, 480


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
    with locked(runs), _explained(store, later):
        client = _open(store)
        experiments = tried(run)
        if not experiments:
            yield f"tracked nothing of {run.plan.run_id}: none of its cells is measured yet"
        for experiment in experiments:
            yield _fill(client, store, run, experiment, directory, name_of_this_place(runs))
        _analyze(store)


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
    with locked(runs), _explained(store):
        client = _open(store)
        for planned in registered.experiments:
            if not client.get_experiment_by_name(planned.name):
                return []
            if not settle(
                client, _experiment(client, store, planned), registered.run_id, digest, name_of_this_place(runs)
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
    with locked(runs), _explained(store):
        client = _open(store)
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
    with locked(runs), _explained(store):
        client = _open(store)
        ours = [item for item in client.search_experiments() if OURS in item.tags]
    if not ours:
        raise nothing
    ours.sort(key=lambda item: item.last_update_time or 0, reverse=True)
    return [View(experiment=item.name, path=view_path(item.experiment_id, WINNERS)) for item in ours]


@contextlib.contextmanager
def _explained(store: Store, later: str = LATER) -> Iterator[None]:
    """Turn MLflow's and the database's errors into one that says what to do."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise StoreError(
            f"the tracking store {store.shown} needs the package {missing.name}, which is not installed here. {later}"
        ) from None
    except (MlflowException, SQLAlchemyError, subprocess.SubprocessError, OSError) as problem:
        damaged = f"If it is damaged, delete {store.database} and its mlartifacts. " if store.database else ""
        reason = next(iter(store.hides(str(problem)).strip().splitlines()), type(problem).__name__)[:300]
        raise StoreError(f"the tracking store {store.shown} failed: {reason}. {damaged}{later}") from None


def _open(store: Store) -> MlflowClient:
    """A client; makes the lab's own database first, or brings an older one up to date. Call it locked."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if store.database is not None and not store.database.is_file():
        _make(store.database)
    try:
        return client_of(store.uri) if store.address else MlflowClient(tracking_uri=store.uri)
    except MlflowException as problem:
        if store.database is None or "out-of-date database schema" not in str(problem):
            raise
    subprocess.run([sys.executable, "-m", "mlflow", "db", "upgrade", store.uri], check=True, capture_output=True)
    return MlflowClient(tracking_uri=store.uri)


def _make(database: Path) -> None:
    """Make the database under another name, so that one that was left half made is never used."""
    unfinished = database.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    client = MlflowClient(tracking_uri=f"sqlite:///{unfinished}")
    client.delete_experiment(DEFAULT_EXPERIMENT)  # always empty, and the first thing that the UI would show
    unfinished.replace(database)


def _experiment(client: MlflowClient, store: Store, planned: PlannedExperiment) -> str:
    """The id of the MLflow experiment of that name, with its description and views as they should be."""
    home = f"{store.artifacts}/{planned.name}" if store.artifacts else None
    known = client.get_experiment_by_name(planned.name)
    if known is None:
        known = _make_experiment(client, planned.name, home)
    elif store.database is not None and known.artifact_location != home:
        raise StoreError(
            f"{store.database} was filled at another place and cannot be moved: its artifacts are under "
            f"{known.artifact_location}. Delete the file and `lab track` your runs again"
        )
    elif known.lifecycle_stage == "deleted":
        client.restore_experiment(known.experiment_id)
    _describe(client, known, planned)
    return str(known.experiment_id)


def _make_experiment(client: MlflowClient, name: str, home: str | None) -> Experiment:
    try:
        return client.get_experiment(client.create_experiment(name, artifact_location=home))
    except MlflowException:
        if known := client.get_experiment_by_name(name):  # another host made it at the same moment
            return known
        raise


def _describe(client: MlflowClient, known: Experiment, planned: PlannedExperiment) -> None:
    named = {claim.baseline for claim in planned.claims}
    wanted = {
        OURS: planned.name,
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": (
            f"**{planned.title}** – {planned.question}\n\n"
            "Each run id is a parent run; each case × profile that it tried is a child run. Open the saved view "
            "*Which profile wins at which shape*: its charts are p50 and speed-up by case, a colour for each profile; "
            "its table groups the cells by case, fastest first, `1 FASTEST` on top, or `1 tie` where the ranking "
            "cannot tell. *p50 over problem size* draws a line for each profile. "
            "`speedup/vs_X` is how many times as fast as X; `noise/ratio` is p95 / p50, noisy from 1.20; `size/…` can "
            "be sorted and cut (metrics.`size/bytes` > 1000000), which params cannot. "
            "A parent's report.md has the verdicts, its figure.html the intervals."
        ),
        TAG + WINNERS: winners_view([p.name for p in planned.profiles if p.name in named], _charts_by_case(planned)),
        TAG + CURVES: curves_view(_charts_by_size(planned)),
    }
    for key, value in wanted.items():
        if known.tags.get(key) != value:
            client_writer.again(client.set_experiment_tag, known.experiment_id, key, value)


def _charts_by_case(planned: PlannedExperiment) -> list[Chart]:
    """Bars: a lane for each case, a colour for each profile: the same in all, so no chart leaves a profile out."""
    names = [profile.name for profile in planned.profiles]
    bars = min(len(planned.included_cases), FIRST_RUNS) * len(names)
    height = min(FRAME_PIXELS + BAR_PIXELS * bars, TALLEST_PIXELS)
    keys_by_title = {"p50 by case, µs": [p50_key(name) for name in names]} | {
        f"Speed-up over {baseline}, ×": [speedup_key(baseline, name) for name in names]
        for baseline in headline_baselines(planned)
    }
    return [Chart(title=title, keys=tuple(keys), height=height) for title, keys in keys_by_title.items()]


def _charts_by_size(planned: PlannedExperiment) -> list[Chart]:
    return [
        Chart(title=f"{name}: p50, µs, over KiB", keys=(key,), height=CURVES_PIXELS)
        for name, key in curve_keys(planned).items()
    ]


def _fill(
    client: MlflowClient, store: Store, run: RunResult, experiment: ExperimentResult, directory: Path, place: str
) -> str:
    """Make the store show this experiment of the run, and say what was done."""
    run_id, name = run.plan.run_id, experiment.plan.name
    experiment_id = _experiment(client, store, experiment.plan)
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


def _analyze(store: Store) -> None:
    """Tell SQLite how large its tables have become: sorting by a metric is a hundred times as fast then."""
    if store.database is not None:
        with contextlib.closing(sqlite3.connect(store.database)) as connection:
            connection.execute("ANALYZE")
