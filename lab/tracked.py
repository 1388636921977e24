"""A judged run → what a tracking server shows of it: entries with names, tags, metrics and artifacts. Pure.

One tree per experiment: a parent for the run, a child per cell that was tried. Times are those of the
measurement, in UTC; values are in the unit that the metric's name ends in, with five significant digits.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.figures import overview_figure, spots
from lab.judge import NOISY_RATIO, POLICY_VERSION, Status
from lab.naming import case_name, machine_name, run_title
from lab.plan import PlannedCase, PlannedExperiment
from lab.ranking import Place, baselines, rank
from lab.record import Counters, Kernel, digest, to_data
from lab.report import geomean, summary_table, write_report
from lab.results import CellResult, ExperimentResult, RunResult

LAYOUT = 1  # raise it when names, tags or artifacts change: tracked runs then get a new attempt
PARENT_KEY = "run"
STATUSES = {"measured": "FINISHED", "skipped": "FINISHED", "failed": "FAILED", "wrong": "FAILED"}
LONGEST_TAG = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One metric value; `step` is 0, or the problem size on a curve."""

    key: str
    value: float
    utc: str
    step: int = 0

    @property
    def milliseconds(self) -> int:
        return milliseconds(self.utc)


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
    """What to track of each experiment of the run."""
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
    )


def curve_keys(plan: PlannedExperiment) -> dict[str, list[str]]:
    """The metrics that draw p50 over problem size, by operator and dtype, where those have several sizes."""
    names = [_series(case) for case in plan.cases]
    found: dict[str, list[str]] = {}
    for case in plan.cases:
        if names.count(_series(case)) > 1:
            keys = [_curve_key(case, profile.name) for profile in plan.profiles_of(case)]
            found[f"{_series(case)}: p50 (µs) over least traffic (KiB)"] = keys
    return found


def rounded(value: float) -> float:
    """Five significant digits: the UI prints every digit that it is given."""
    return float(f"{value:.5g}")


def milliseconds(utc: str) -> int:
    """A record's UTC time as MLflow counts time."""
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)


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
            "finished_utc": run.finished_utc,
        }
    )


def _parent(run: RunResult, experiment: ExperimentResult) -> Entry:
    machine, protocol = run.machine, run.plan.protocol
    figure = overview_figure(spots(experiment), f"{run_title(run)}: {experiment.plan.title}")
    return Entry(
        key=PARENT_KEY,
        name=run.plan.run_id + (" (CPU)" if machine.device == "cpu" else ""),
        status="FINISHED" if run.finished_utc else "RUNNING",
        started_utc=run.start.started_utc,
        ended_utc=run.finished_utc,
        tags=_common_tags(run)
        | {
            "lab.role": "run",
            "lab.commit": run.start.commit,
            "lab.dirty": str(run.start.dirty).lower(),
            "lab.source_digest": run.start.source_digest,
            "lab.plan_digest": run.start.plan_digest,
            "lab.policy_version": str(run.plan.policy_version),
            "lab.damaged_lines": str(len(run.damages)),
            "mlflow.note.content": f"{run_title(run)}. Artifacts: report.md answers, figure.html shows.",
            "mlflow.source.git.commit": run.start.commit,
        },
        params={
            "machine": machine_name(machine),
            "torch": machine.torch,
            "triton": machine.triton,
            "cuda": machine.cuda,
            "driver": machine.driver,
            "sweeps": str(protocol.sweeps),
            "rounds": str(protocol.rounds),
        },
        measures=tuple(_headlines(run, experiment)) + tuple(_curves(experiment)),
        artifacts={
            "report.md": write_report(run, experiment),
            "summary.json": json.dumps(summary_table(experiment)),
            "figure.html": figure,
        },
        tables=("summary.json",),
    )


def _common_tags(run: RunResult) -> dict[str, str]:
    return {
        "lab.run_id": run.plan.run_id,
        "lab.device": run.machine.device,
        "lab.gpu": run.machine.gpu or "none: measured on the CPU",
        "mlflow.source.name": "lab track",
        "mlflow.source.type": "LOCAL",
    }


def _headlines(run: RunResult, experiment: ExperimentResult) -> Iterator[Measure]:
    """Geometric mean of each claim over the cases that were judged, and how the cells went."""
    utc = run.finished_utc or run.start.started_utc
    for result in experiment.claims:
        if gain := geomean(result):
            yield Measure(key=f"speedup_geomean/{result.claim.name}", value=rounded(gain), utc=utc)
    for status in Status:
        count = sum(result.status == status for result in experiment.claims)
        yield Measure(key=f"claims/{status}", value=count, utc=utc)
    planned = [experiment.cells[case.name, profile.name] for case, profile in experiment.plan.cells()]
    for outcome in (*STATUSES, "unfinished"):
        count = sum(cell.outcome == outcome for cell in planned)
        yield Measure(key=f"cells/{outcome}", value=count, utc=utc)
    noises = [c.latency.noise_ratio for c in planned if c.latency and c.latency.noise_ratio is not None]
    if noises:
        yield Measure(key="noise/max_ratio", value=rounded(max(noises)), utc=utc)


def _curves(experiment: ExperimentResult) -> Iterator[Measure]:
    """p50 over problem size, with KiB of least traffic as the step."""
    wanted = {key for keys in curve_keys(experiment.plan).values() for key in keys}
    for case in experiment.plan.included_cases:
        for cell in experiment.measured(case.name):
            key = _curve_key(case, cell.profile)
            if cell.latency and key in wanted:
                p50_us = rounded(cell.latency.p50_seconds * 1e6)
                yield Measure(key=key, value=p50_us, utc=_last_utc(cell), step=case.least_bytes // 1024)


def _series(case: PlannedCase) -> str:
    return f"{case.op}-{case.dtype}"


def _curve_key(case: PlannedCase, profile: str) -> str:
    return f"p50_us_by_kib {_series(case)}/{profile}"


def _children(run: RunResult, experiment: ExperimentResult) -> Iterator[Entry]:
    for case in experiment.plan.included_cases:
        places = rank(experiment, case.name)
        for profile in experiment.plan.profiles_of(case):
            cell = experiment.cells[case.name, profile.name]
            if cell.cells:  # nothing is known yet of a cell that no sweep has reached
                yield _child(run, experiment, case, cell, places.get(profile.name))


def _child(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None
) -> Entry:
    whole = bool(run.finished_utc) or len({record.sweep for record in cell.cells}) == run.plan.protocol.sweeps
    artifacts = {"samples.json": json.dumps([to_data(record) for record in cell.cells])}
    if cell.counters:
        artifacts["counters.json"] = json.dumps(to_data(cell.counters), indent=1)
    processes = {record.process for record in cell.cells}
    return Entry(
        key=f"{case.name}|{cell.profile}",
        name=f"{case_name(case)} · {cell.profile}" + (" (CPU)" if run.machine.device == "cpu" else ""),
        status=STATUSES[cell.outcome] if whole else "RUNNING",
        started_utc=min(sweep.started_utc for sweep in run.sweeps if sweep.process in processes),
        ended_utc=_last_utc(cell) if whole else "",
        tags=_child_tags(run, experiment, case, cell, place),
        params={"case": case.name, "profile": cell.profile, "op": case.op, "dtype": case.dtype},
        measures=tuple(
            Measure(key=key, value=rounded(value), utc=_last_utc(cell))
            for key, value in _cell_values(experiment, cell).items()
        ),
        artifacts=artifacts,
    )


def _child_tags(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None
) -> dict[str, str]:
    noise = cell.latency.noise_ratio if cell.latency else None
    noisy = noise is not None and noise >= NOISY_RATIO
    where = "CPU" if run.machine.device == "cpu" else run.machine.gpu
    tags = _common_tags(run) | {
        "lab.role": "cell",
        "lab.case": case.name,
        "lab.profile": cell.profile,
        "lab.case_in_run": f"{case_name(case)} · {run.plan.run_id} · {where}",
        "lab.status": cell.outcome + (", noisy" if noisy else ""),
        "lab.place": place.text if place else "",
        "lab.record_digest": digest([to_data(record) for record in (*cell.cells, *_held(cell.counters))]),
    }
    if cell.reason:
        tags["lab.reason"] = cell.reason[:LONGEST_TAG]
    if cell.counters and cell.counters.outcome != "measured":
        tags["lab.counters"] = f"{cell.counters.outcome}: {cell.counters.reason}"[:LONGEST_TAG]
    for result in experiment.claims:
        verdict = result.verdicts.get(case.name)
        if verdict and result.claim.subject == cell.profile:
            parts = (str(verdict.status), verdict.mark, verdict.reason)
            tags[f"claim.{result.claim.name}"] = ", ".join(part for part in parts if part)[:LONGEST_TAG]
    return tags


def _cell_values(experiment: ExperimentResult, cell: CellResult) -> dict[str, float]:
    values: dict[str, float] = {}
    if cell.latency:
        values["latency/p50_us"] = cell.latency.p50_seconds * 1e6
        if cell.latency.p95_seconds is not None and cell.latency.noise_ratio is not None:
            values["latency/p95_us"] = cell.latency.p95_seconds * 1e6
            values["noise/ratio"] = cell.latency.noise_ratio
        values["noise/sweep_spread_pct"] = cell.latency.between_sweep_spread * 100
        for baseline in baselines(experiment):
            if baseline == cell.profile:
                continue
            if speedup := experiment.compare(cell.case, cell.profile, baseline):
                values[f"speedup/vs_{baseline}"] = speedup.ratio
    if cell.bytes_per_second is not None:
        values["throughput/gbps"] = cell.bytes_per_second / 1e9
    return values | _counter_values(cell.counters)


def _counter_values(counters: Counters | None) -> dict[str, float]:
    """Sums over the call's kernels; percentages weighted by each kernel's duration."""
    if counters is None or not counters.kernels:
        return {}
    kernels = counters.kernels
    values = {
        "ncu/dram_pct": _weighted(kernels, [kernel.dram_percent for kernel in kernels]),
        "ncu/occupancy_pct": _weighted(kernels, [kernel.occupancy_percent for kernel in kernels]),
        "ncu/dram_read_mb": _total_megabytes([kernel.dram_read_bytes for kernel in kernels]),
        "ncu/dram_written_mb": _total_megabytes([kernel.dram_written_bytes for kernel in kernels]),
        "ncu/kernels": float(len(kernels)),
    }
    return {key: value for key, value in values.items() if value is not None}


def _weighted(kernels: tuple[Kernel, ...], percents: list[float | None]) -> float | None:
    pairs = [(k.duration_seconds, p) for k, p in zip(kernels, percents, strict=True)]
    whole = [(seconds, percent) for seconds, percent in pairs if seconds and percent is not None]
    if len(whole) < len(kernels):
        return None
    return sum(seconds * percent for seconds, percent in whole) / sum(seconds for seconds, _ in whole)


def _total_megabytes(counts: list[float | None]) -> float | None:
    """A sum with a part unknown would be too small, so it is left out."""
    known = [count for count in counts if count is not None]
    return sum(known) / 1e6 if len(known) == len(counts) else None


def _last_utc(cell: CellResult) -> str:
    return max(record.finished_utc for record in cell.cells)


def _held(counters: Counters | None) -> tuple[Counters, ...]:
    return (counters,) if counters else ()
