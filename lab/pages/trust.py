"""How far the lab itself can be trusted: its error rates and cost, as a page and as the data behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab import format
from lab.evidence import Evidence
from lab.figure import Figure, Ledger, Sentence
from lab.judge import POLICY_VERSION
from lab.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.record import SCHEMA
from lab.validity import AGREES_WITHIN, AGREES_WITHIN_SECONDS, REPEATED_WITHIN, SelfComparison, Study

Row = tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """`goal` says what the rows are held to."""

    anchor: str
    title: str
    about: str
    goal: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustPage:
    lede: Sentence
    tables: tuple[TableView, ...]
    data: dict[str, Any]


def trust_page(study: Study, evidence: Sequence[Evidence]) -> TrustPage:
    data = trust_data(study, evidence)
    ledger = Ledger(data)
    makers = (_same, _power, _repeats, _instruments, _flush, _cost)
    tables = tuple(table for make in makers if (table := make(ledger)).rows)
    return TrustPage(lede=_lede(ledger), tables=tables, data=data)


def trust_data(study: Study, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Plain JSON values; SI units; the unit in the key."""
    runs = [item.run for item in evidence]
    return {
        "schema": SCHEMA,
        "policy_version": POLICY_VERSION,
        "sessions": study.sessions,
        "same": _counts(study.same),
        "same_by_case": {case: _counts(found) for case, found in study.by_case.items()},
        "controls": _counts(study.controls),
        "power": {
            power.claim: {
                "known_ratio": power.known_ratio, "trials": power.trials, "right": power.right,
                "excluding_one": power.excluding_one, "covering": power.covering,
            }
            for power in study.power
        },
        "repeats": {
            repeat.experiment: {
                "gpu": repeat.gpu, "gpus": repeat.gpus, "runs": repeat.runs, "cells": repeat.cells,
                "within": repeat.within, "largest_deviation": _rounded(repeat.largest_deviation),
                "largest_at": repeat.largest_at, "flips": list(repeat.flips), "flip_count": len(repeat.flips),
            }
            for repeat in study.repeats
        },
        "instruments": {
            f"{found.case} {found.profile}": {
                "p50_seconds": _rounded(found.p50_seconds),
                **{f"{name}_seconds": _rounded(found.seconds[key]) for name, key in INSTRUMENTS.items()},
                "do_bench_agrees": found.agrees(DO_BENCH), "nvbench_agrees": found.agrees(NVBENCH),
            }
            for found in study.agreements
        },
        "flush": {
            run.plan.run_id: {
                "footprint_bytes": run.flush.footprint_bytes,
                "flushed_read_bytes": run.flush.flushed_read_bytes,
                "warm_read_bytes": run.flush.warm_read_bytes,
            }
            for run in runs
            if run.flush and run.flush.flushed_read_bytes is not None
        },
        "cost": {
            run.plan.run_id: {
                "wall_seconds": run.finish.wall_seconds,
                "profiling_seconds": run.finish.profiling_seconds,
                "sweeps": len({end.sweep for end in run.sweep_ends}),
                "cells": run.plan.cell_count(),
                "timing_seconds_per_cell_and_sweep": _per_cell(run),
                "stage_seconds": _stages(run),
            }
            for run in runs
            if run.finish and run.sweep_ends
        },
    }  # fmt: skip


INSTRUMENTS = {"dirty_flush": DIRTY_FLUSH, "do_bench": DO_BENCH, "nvbench": NVBENCH}


def _counts(found: SelfComparison) -> dict[str, int]:
    return {
        "comparisons": found.comparisons, "supported": found.supported, "excluding_one": found.excluding_one,
    }  # fmt: skip


def _stages(run: Any) -> dict[str, float]:
    spent: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            spent[stage] = spent.get(stage, 0.0) + seconds
    return {stage: _rounded(seconds) for stage, seconds in sorted(spent.items())}


def _per_cell(run: Any) -> float | None:
    """Wall time of the timing stage over the cells that were timed in it, controls included."""
    timed = sum(bool(cell.timings) for e in run.experiments for result in e.cells.values() for cell in result.cells)
    timed += sum(len(held) for e in run.experiments for held in e.controls.values())
    return _rounded(_stages(run).get("time", 0.0) / timed) if timed else None


def _lede(ledger: Ledger) -> Sentence:
    count, supported = ledger.figure("same", "comparisons"), ledger.figure("same", "supported")
    excluding, sessions = ledger.figure("same", "excluding_one"), ledger.figure("sessions")
    if not ledger.value("same", "comparisons") or not (count and supported and excluding and sessions):
        return ("No run that tests the lab itself has been published yet.",)
    return (
        "A function was compared with itself, under another name, ", count, " times in ", sessions,
        " sessions of five sweeps: ", supported, " of these claims were supported, and ", excluding,
        " intervals excluded 1, where one in twenty may.",
    )  # fmt: skip


def _same(ledger: Ledger) -> TableView:
    rows = [_counted((case,), ledger, "same_by_case", case) for case in ledger.value("same_by_case") or {}]
    if rows:
        rows.append(_counted(("All",), ledger, "same"))
    if ledger.value("controls", "comparisons"):
        rows.append(_counted(("Controls of all other runs",), ledger, "controls"))
    return TableView(
        anchor="same", title="The same function under two names",
        about="Each session is judged as a run of its own. Nothing here should be supported.",
        goal="At most one supported; at most 16 intervals in 200 exclude 1.",
        headings=("Case", "Comparisons", "Supported", "Intervals that exclude 1"), rows=tuple(rows),
    )  # fmt: skip


def _counted(first: Sentence, ledger: Ledger, *path: str) -> Row:
    return (first, *(_one(ledger.figure(*path, name)) for name in ("comparisons", "supported", "excluding_one")))


def _power(ledger: Ledger) -> TableView:
    rows = []
    for claim in ledger.value("power") or {}:
        if ledger.value("power", claim, "trials"):
            known = ledger.figure("power", claim, "known_ratio", show=lambda v: f"{v:.2f}×")
            names = ("trials", "right", "excluding_one", "covering")
            rows.append((_one(known), *(_one(ledger.figure("power", claim, name)) for name in names)))
    return TableView(
        anchor="power", title="Known extra work",
        about=(
            "A kernel against the same kernel with 1, 2 and 5 % more work of the kind that its time consists of. At "
            "5 % the claim of 1.02× is to be supported; at 2 % the ratio lies on that threshold, and the interval "
            "is only to exclude 1; at 1 % the claim is not to be supported."
        ),
        goal="Right in 90 % at 5 %; 1 excluded in 90 % at 2 %; the known ratio covered in 93 %.",
        headings=("Known ratio", "Trials", "Right verdicts", "Intervals that exclude 1", "Intervals that hold it"),
        rows=tuple(rows),
    )  # fmt: skip


def _repeats(ledger: Ledger) -> TableView:
    rows = []
    for name in ledger.value("repeats") or {}:
        path = ("repeats", name)
        worst = ledger.figure(*path, "largest_deviation", show=lambda v: f"{v:.2%}")
        rows.append(
            (
                (name,), (str(ledger.value(*path, "gpu")),), _one(ledger.figure(*path, "gpus")),
                _one(ledger.figure(*path, "runs")), _one(ledger.figure(*path, "cells")),
                _one(ledger.figure(*path, "within")), (*_one(worst), f" ({ledger.value(*path, 'largest_at')})"),
                _one(ledger.figure(*path, "flip_count")),
            )
        )  # fmt: skip
    return TableView(
        anchor="repeats", title="The same experiment again",
        about="Whole runs under one protocol. A flip is a claim supported at a case in one run and refuted in another.",
        goal=f"p50 of cells of 20 µs and more within ±{REPEATED_WITHIN:.0%} of its median over the runs; no flips.",
        headings=("Experiment", "GPU", "Different GPUs", "Runs", "Cells", "Within", "Largest deviation", "Flips"),
        rows=tuple(rows),
    )  # fmt: skip


def _instruments(ledger: Ledger) -> TableView:
    rows = []
    for place in ledger.value("instruments") or {}:
        path = ("instruments", place)
        times = [ledger.figure(*path, "p50_seconds", show=format.microseconds)]
        times += [ledger.figure(*path, f"{name}_seconds", show=format.microseconds) for name in INSTRUMENTS]
        agree = [name for name in ("do_bench", "nvbench") if ledger.value(*path, f"{name}_agrees")]
        rows.append(((place,), *(_one(time) for time in times), (" and ".join(agree) or "neither",)))
    return TableView(
        anchor="instruments", title="Other instruments",
        about=(
            "Triton's do_bench and NVIDIA's nvbench flush the cache by writing, and leave it full of written lines "
            "whose write-back falls into the timed window. The lab's device_cold reads them back first, so it says "
            "less. With a flush that only writes, the lab's clock is to say what they say."
        ),
        goal=(
            f"Lab, dirty flush, within {AGREES_WITHIN:.0%} or {AGREES_WITHIN_SECONDS * 1e6:.1f} µs of each, whichever "
            "is more. nvbench writes half as much as the other two, and sees part of the effect."
        ),
        headings=("Cell", "device_cold, µs", "Lab, dirty flush, µs", "do_bench, µs", "nvbench, µs", "Agree"),
        rows=tuple(rows),
    )  # fmt: skip


def _flush(ledger: Ledger) -> TableView:
    rows = []
    for run_id in ledger.value("flush") or {}:
        names = ("footprint_bytes", "flushed_read_bytes", "warm_read_bytes")
        figures = [ledger.figure("flush", run_id, name, show=lambda v: f"{v:,.0f}") for name in names]
        rows.append(((run_id,), *(_one(figure) for figure in figures)))
    return TableView(
        anchor="flush", title="Does the flush work?",
        about=(
            "Nsight Compute counts what one read of a buffer, smaller than the cache, brings in from DRAM: after the "
            "lab's flush, and at once again."
        ),
        goal="All of the buffer after the flush, next to nothing without it.",
        headings=("Run", "Buffer, bytes", "Read after the flush", "Read at once again"), rows=tuple(rows),
    )  # fmt: skip


def _cost(ledger: Ledger) -> TableView:
    rows = []
    stages = ("load", "start", "inputs", "check", "time", "canaries")
    for run_id in ledger.value("cost") or {}:
        path = ("cost", run_id)
        shown: list[tuple[str, Callable[[Any], str]]] = [
            ("cells", str), ("sweeps", str), ("wall_seconds", _seconds), ("profiling_seconds", _seconds),
            ("timing_seconds_per_cell_and_sweep", lambda v: f"{v:.2f}"),
        ]  # fmt: skip
        found = [ledger.figure(*path, name, show=show) for name, show in shown]
        found += [ledger.figure(*path, "stage_seconds", stage, show=_seconds) for stage in stages]
        rows.append(((run_id,), *(_one(figure) for figure in found)))
    return TableView(
        anchor="cost", title="What it costs, and where the time goes",
        about=(
            "Seconds. Stages are summed over worker processes; five load side by side, so that loading takes a fifth "
            "of its sum. Other instruments count as profiling. Time per cell is the timing stage's wall time, an upper "
            "bound of the GPU's."
        ),
        goal="normalization-fusion with profiling in at most 240 s; at most 1 s of GPU time a cell in five sweeps.",
        headings=(
            "Run", "Cells", "Sweeps", "Wall", "Profiling", "Timing per cell and sweep",
            *(stage.capitalize() for stage in stages),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _one(figure: Figure | None) -> Sentence:
    return (figure or "–",)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")
