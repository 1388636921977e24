"""A judged run → what a tracking server shows of it: entries with names, tags, numbers and texts. Pure.

One tree per experiment: a parent for the run, a child per cell that was tried. All times are those of the
measurement, so that two fillings are equal.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.definition.plan import PlannedCase
from lab.evidence.chain import Seal
from lab.evidence.codec import digest, to_data
from lab.tracking.gpu_state import gpu_of_cell, gpu_of_run
from lab.tracking.measures import Measure, cell_measures, headlines, last_utc
from lab.tracking.names import case_name, machine_name, run_title
from lab.tracking.overview import overview_page
from lab.tracking.report import describe_cell, describe_run, summary_table, write_report
from lab.tracking.sizes import sizes
from lab.verdict.cells import CellResult
from lab.verdict.judge import NOISY_RATIO, POLICY_VERSION
from lab.verdict.ranking import Place, rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import Speedup

LAYOUT = 6  # raise it when names, tags or artifacts change: tracked runs then get a new attempt
PARENT_KEY = "run"
SEALED = "lab.journal_sha256"  # the tag of a parent that holds the digest of its journal
STATUSES = {
    "measured": "FINISHED", "skipped": "FINISHED", "failed": "FAILED", "wrong": "FAILED", "crashed": "FAILED",
}  # fmt: skip
LONGEST_TAG = 500
LONGEST_NOTE, REST = 8000, "\n\nThe rest is in report.md."
DIGEST_LENGTH = 16  # of a dataset; MLflow takes up to 36 characters


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """What a cell was measured on: a case, as MLflow lists data. Cells of any run with an equal case share it."""

    name: str
    digest: str  # of the case's definition
    source: str  # JSON: what makes the data
    profile: str  # JSON: its sizes


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
    dataset: Dataset | None = None


@dataclass(frozen=True, slots=True)
class Children:
    """An entry for each cell that was tried; made when it is asked for, so that a server is filled meanwhile."""

    run: RunResult
    experiment: ExperimentResult

    def __len__(self) -> int:
        return sum(
            bool(self.experiment.cells[case.name, profile.name].cells)
            for case in self.experiment.plan.included_cases
            for profile in self.experiment.plan.profiles_of(case)
        )

    def __iter__(self) -> Iterator[Entry]:
        return _children(self.run, self.experiment)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """One experiment of a run, without superseded entries."""

    experiment: str
    run_id: str
    evidence_digest: str
    finished: bool
    parent: Entry
    children: Children


def tried(run: RunResult) -> tuple[ExperimentResult, ...]:
    """The experiments of which a cell was tried: nothing is known yet of the others."""
    return tuple(each for each in run.experiments if any(cell.cells for cell in each.cells.values()))


def tree(run: RunResult, experiment: ExperimentResult) -> Tree:
    """What to track of an experiment of the run."""
    return Tree(
        experiment=experiment.plan.name,
        run_id=run.plan.run_id,
        evidence_digest=evidence_digest(run),
        finished=bool(run.finished_utc),
        parent=_parent(run, experiment),
        children=Children(run, experiment),
    )


def evidence_digest(run: RunResult) -> str:
    """Changes exactly when what was measured or registered does, or the rules, or what is made of it here.

    The journal names its plan by a digest, and holds everything else.
    """
    return digest_of_journal(run.seal.sha256 if run.seal else digest([to_data(record) for record in run.records]))


def digest_of_journal(lines_sha256: str) -> str:
    """The same, of a journal whose lines have that SHA-256."""
    return digest({"layout": LAYOUT, "policy": POLICY_VERSION, "journal": lines_sha256})


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
        measures=(*headlines(run, experiment), *gpu_of_run(experiment, run.machine)),
        artifacts={
            "report.md": write_report(run, experiment),
            "summary.json": json.dumps(summary_table(experiment)),
            "figure.html": overview_page(experiment, f"{experiment.plan.title}: {run_title(run)}"),
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
        **(_seal_tags(run.seal) if run.seal else {}),
        "mlflow.note.content": _cut(describe_run(run, experiment)),
        "mlflow.source.git.commit": run.start.commit,
    }


def _cut(note: str) -> str:
    """As long as PostgreSQL takes it; it refuses the whole run for a longer one."""
    if len(note) <= LONGEST_NOTE:
        return note
    return note[: LONGEST_NOTE - len(REST)].rpartition("\n")[0] + REST


def _seal_tags(seal: Seal) -> dict[str, str]:
    """What a later change of the run's directory contradicts."""
    return {
        SEALED: seal.sha256,
        "lab.journal_lines": str(seal.lines),
        "lab.journal_chained": str(seal.chained).lower(),
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
    records = [to_data(record) for record in cell.cells]
    counters = [to_data(cell.counters)] if cell.counters else []
    processes = {record.process for record in cell.cells}
    tags = {"lab.place": place_tag, "lab.record_digest": digest(records + counters)}
    gpu = gpu_of_cell(experiment, case.name, cell.cells, run.machine) if cell.latency else ()
    return Entry(
        key=f"{case.name}|{cell.profile}",
        name=f"{case_name(case)} · {cell.profile}{_cpu_mark(run)}",
        status=STATUSES[cell.outcome] if whole else "RUNNING",
        # A cell that its process died of while loading, or that was not run, has no sweep of its own.
        started_utc=min(
            (sweep.started_utc for sweep in run.sweeps if sweep.process in processes), default=run.start.started_utc
        ),
        ended_utc=last_utc(cell) if whole else "",
        tags=_child_tags(run, experiment, case, cell, place) | tags,
        params={
            "case": case.name, "profile": cell.profile, "op": case.op, "dtype": case.dtype,
            **{name: str(size) for name, size in sizes(case).items()},
        },
        measures=(*cell_measures(run, experiment, cell), *gpu),
        artifacts={"cell.json": json.dumps({"samples": records, "counters": counters})},
        dataset=dataset_of(case),
    )  # fmt: skip


def dataset_of(case: PlannedCase) -> Dataset:
    """Whether and when a case is measured is no part of its definition."""
    definition = {
        "name": case.name, "op": case.op, "shape": case.shape, "dtype": case.dtype, "read_bytes": case.read_bytes,
        "written_bytes": case.written_bytes, "flops": case.flops,
    }  # fmt: skip
    return Dataset(
        name=case.name,
        digest=digest(definition)[:DIGEST_LENGTH],
        source=json.dumps({"tags": {"mlflow.source.name": f"inputs of the operator {case.op}, made from seeds"}}),
        profile=json.dumps({"dtype": case.dtype, **sizes(case)}),
    )


def _child_tags(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None
) -> dict[str, str]:
    noise = cell.latency.noise_ratio if cell.latency else None
    noisy = noise is not None and noise >= NOISY_RATIO
    where = "CPU" if run.machine.device == "cpu" else run.machine.gpu.removeprefix("NVIDIA ")
    tags = _common_tags(run) | {
        "lab.role": "cell",
        "lab.case": case.name,
        "lab.profile": cell.profile,
        "lab.case_in_run": f"{case_name(case)} · {run.plan.run_id} · {where}",
        "lab.status": cell.outcome + (", noisy" if noisy else ""),
        "lab.reason": cell.reason[:LONGEST_TAG],
        "mlflow.note.content": describe_cell(run, experiment, case, cell, place),
    }
    if cell.counters and cell.counters.outcome != "measured":
        tags["lab.counters"] = f"{cell.counters.outcome}: {cell.counters.reason}"[:LONGEST_TAG]
    return tags


def _cpu_mark(run: RunResult) -> str:
    return " (CPU)" if run.machine.device == "cpu" else ""
