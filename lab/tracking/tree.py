"""A judged run → what a tracking server shows of it: entries with names, tags, numbers and texts. Pure.

One tree per experiment: a parent for the run, a child per cell that was tried. All times are those of the
measurement, so that two fillings are equal.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.definition.plan import PlannedCase
from lab.evidence.codec import digest, to_data
from lab.tracking.measures import Measure, cell_measures, curves, headlines, last_utc
from lab.tracking.report import describe_cell, describe_run, summary_table, write_report
from lab.verdict.cells import CellResult
from lab.verdict.judge import NOISY_RATIO, POLICY_VERSION
from lab.verdict.ranking import Place, rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import Speedup
from lab.website.charts.overview import overview_figure, spots
from lab.website.naming import case_name, machine_name, run_title

LAYOUT = 3  # raise it when names, tags or artifacts change: tracked runs then get a new attempt
PARENT_KEY = "run"
STATUSES = {
    "measured": "FINISHED", "skipped": "FINISHED", "failed": "FAILED", "wrong": "FAILED", "crashed": "FAILED",
}  # fmt: skip
LONGEST_TAG = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One tracked run. `ended_utc` is empty while it is unfinished; artifacts are texts by path."""

    key: str  # unique within the run: PARENT_KEY, or case|profile
    name: str
    status: str
    started_utc: str
    ended_utc: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    measures: tuple[Measure, ...]
    artifacts: Mapping[str, str]
    tables: tuple[str, ...] = ()  # artifacts that hold a table


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """One experiment of a run. `evidence_digest` changes exactly when what was measured or registered does."""

    experiment: str
    run_id: str
    evidence_digest: str
    finished: bool
    parent: Entry
    children: tuple[Entry, ...]


def trees(run: RunResult) -> tuple[Tree, ...]:
    """What to track of each experiment of the run that has a tried cell."""
    return tuple(
        Tree(
            experiment=experiment.plan.name,
            run_id=run.plan.run_id,
            evidence_digest=_evidence_digest(run, experiment),
            finished=bool(run.finished_utc),
            parent=_parent(run, experiment),
            children=tuple(_children(run, experiment)),
        )
        for experiment in run.experiments
        if any(cell.cells for cell in experiment.cells.values())
    )


def _evidence_digest(run: RunResult, experiment: ExperimentResult) -> str:
    cells = experiment.cells.values()
    return digest(
        {
            "layout": LAYOUT,
            "policy": POLICY_VERSION,
            "start": to_data(run.start),  # names the plan by its digest
            "sweeps": [to_data(sweep) for sweep in run.sweeps],
            "cells": [to_data(record) for cell in cells for record in cell.cells],
            "counters": [to_data(cell.counters) for cell in cells if cell.counters],
            "damages": [to_data(damage) for damage in run.damages],
            "ceilings": to_data(
                run.ceilings
            ),  # they are another experiment's, and the cells here are held against them
            "finished_utc": run.finished_utc,
        }
    )


def _parent(run: RunResult, experiment: ExperimentResult) -> Entry:
    return Entry(
        key=PARENT_KEY,
        name=run.plan.run_id + _cpu_mark(run),
        status="FINISHED" if run.finished_utc else "RUNNING",
        started_utc=run.start.started_utc,
        ended_utc=run.finished_utc,
        tags=_parent_tags(run, experiment),
        params={
            "machine": machine_name(run.machine),
            "torch": run.machine.torch,
            "triton": run.machine.triton,
            "cuda": run.machine.cuda,
            "driver": run.machine.driver,
            "sweeps": str(run.plan.protocol.sweeps),
            "rounds": str(run.plan.protocol.rounds),
        },
        measures=(*headlines(run, experiment), *curves(experiment)),
        artifacts={
            "report.md": write_report(run, experiment),
            "summary.json": json.dumps(summary_table(experiment)),
            "figure.html": overview_figure(spots(experiment), f"{experiment.plan.title}: {run_title(run)}"),
        },
        tables=("summary.json",),
    )


def _parent_tags(run: RunResult, experiment: ExperimentResult) -> dict[str, str]:
    return _common_tags(run) | {
        "lab.role": "run",
        "lab.commit": run.start.commit,
        "lab.dirty": str(run.start.dirty).lower(),
        "lab.source_digest": run.start.source_digest,
        "lab.plan_digest": run.start.plan_digest,
        "lab.policy_version": str(run.plan.policy_version),
        "lab.damaged_lines": str(len(run.damages)),
        "mlflow.note.content": describe_run(run, experiment),
        "mlflow.source.git.commit": run.start.commit,
    }


def _common_tags(run: RunResult) -> dict[str, str]:
    return {
        "lab.run_id": run.plan.run_id,
        "lab.device": run.machine.device,
        "lab.gpu": run.machine.gpu or "none: measured on the CPU",
        "mlflow.source.name": "lab track",
        "mlflow.source.type": "LOCAL",
    }


def _children(run: RunResult, experiment: ExperimentResult) -> Iterator[Entry]:
    for case in experiment.plan.included_cases:
        places = rank(experiment, case.name)
        tags = {name: _place_tag(place, places, experiment.control(case.name)) for name, place in places.items()}
        for profile in experiment.plan.profiles_of(case):
            cell = experiment.cells[case.name, profile.name]
            if cell.cells:  # nothing is known yet of a cell that no sweep has reached
                place = places.get(profile.name)
                yield _child(run, experiment, case, cell, place, tags.get(profile.name, cell.outcome))


def _place_tag(place: Place, places: Mapping[str, Place], control: Speedup | None) -> str:
    """The place in words. The first is called the fastest only where the ranking can tell it from the second: by more
    than counts as equal, and by more than the same code differed under two names."""
    if place.rank > 1 or not place.proven:
        return place.text
    behind = [each.times_fastest for each in places.values() if each is not place]
    error = max(control.ratio, 1 / control.ratio) if control else 1.0
    return "1 tie" if place.level or (behind and min(behind) <= error) else place.text


def _child(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None,
    place_tag: str,
) -> Entry:  # fmt: skip
    whole = bool(run.finished_utc) or len({record.sweep for record in cell.cells}) == run.plan.protocol.sweeps
    artifacts = {"samples.json": json.dumps([to_data(record) for record in cell.cells])}
    if cell.counters:
        artifacts["counters.json"] = json.dumps(to_data(cell.counters), indent=1)
    processes = {record.process for record in cell.cells}
    return Entry(
        key=f"{case.name}|{cell.profile}",
        name=f"{case_name(case)} · {cell.profile}{_cpu_mark(run)}",
        status=STATUSES[cell.outcome] if whole else "RUNNING",
        # A cell that its process died of while loading, or that was not run, has no sweep of its own.
        started_utc=min(
            (sweep.started_utc for sweep in run.sweeps if sweep.process in processes), default=run.start.started_utc
        ),
        ended_utc=last_utc(cell) if whole else "",
        tags=_child_tags(run, experiment, case, cell, place) | {"lab.place": place_tag},
        params={"case": case.name, "profile": cell.profile, "op": case.op, "dtype": case.dtype},
        measures=tuple(cell_measures(run, experiment, cell)),
        artifacts=artifacts,
    )


def _child_tags(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None
) -> dict[str, str]:
    noise = cell.latency.noise_ratio if cell.latency else None
    noisy = noise is not None and noise >= NOISY_RATIO
    where = "CPU" if run.machine.device == "cpu" else run.machine.gpu.removeprefix("NVIDIA ")
    records = [to_data(record) for record in cell.cells]
    counters = [to_data(cell.counters)] if cell.counters else []
    tags = _common_tags(run) | {
        "lab.role": "cell",
        "lab.case": case.name,
        "lab.profile": cell.profile,
        "lab.case_in_run": f"{case_name(case)} · {run.plan.run_id} · {where}",
        "lab.status": cell.outcome + (", noisy" if noisy else ""),
        "lab.reason": cell.reason[:LONGEST_TAG],
        "lab.record_digest": digest(records + counters),
        "mlflow.note.content": describe_cell(run, experiment, case, cell, place),
    }
    if cell.counters and cell.counters.outcome != "measured":
        tags["lab.counters"] = f"{cell.counters.outcome}: {cell.counters.reason}"[:LONGEST_TAG]
    return tags


def _cpu_mark(run: RunResult) -> str:
    return " (CPU)" if run.machine.device == "cpu" else ""
