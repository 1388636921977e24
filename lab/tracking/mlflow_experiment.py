"""The MLflow experiment that the runs of one of ours go to: its description and its saved views.

MLflow's experiment is our experiment; its runs are our runs and their cells.
"""

from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from lab.definition.plan import PlannedExperiment
from lab.errors import StoreError
from lab.tracking import client_writer
from lab.tracking.measures import curve_keys, headline_baselines, p50_key, speedup_key
from lab.tracking.saved_view import CURVES, FIRST_RUNS, TAG, WINNERS, Chart, curves_view, winners_view
from lab.tracking.store import Store

OURS = "lab.experiment"  # tags the MLflow experiments that the lab made
# Heights of charts: around all bars, of one bar, of all at most; of lines.
FRAME_PIXELS, BAR_PIXELS, TALLEST_PIXELS, CURVES_PIXELS = 220, 14, 2400, 480


def experiment_id_of(client: MlflowClient, store: Store, planned: PlannedExperiment) -> str:
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
