"""The lab's error rates and cost as plain data: what the page on trust shows, and nothing else."""

import statistics
from collections.abc import Sequence
from typing import Any

from lab.evidence.codec import SCHEMA
from lab.evidence.record import Timing
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.cells import SCOPE
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.pooled import Pooled, pooled
from lab.verdict.repeatability import Repeatability, repeatability
from lab.verdict.results import RunResult
from lab.verdict.spoiled import LARGEST_CANARY_DRIFT, deviations
from lab.verdict.statistics import largest_rate
from lab.verdict.validity import Repeat, SelfComparison, Study
from lab.website.data.published_clocks import clocks_data
from lab.website.data.rounding import rounded

INSTRUMENTS = {"dirty_flush": DIRTY_FLUSH, "do_bench": DO_BENCH, "nvbench": NVBENCH}
OTHERS = ("do_bench", "nvbench")


def trust_data(study: Study, runs: Sequence[RunResult]) -> dict[str, Any]:
    """Plain JSON values; SI units; the unit in the key."""
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
                "withheld": power.withheld, "excluding_one": power.excluding_one, "covering": power.covering,
            }
            for power in study.power
        },
        "repeatability": {str(number): _pairs_data(found) for number, found in enumerate(repeatability(runs))},
        "pooled": _pooled_data(pooled(runs)),
        "repeats": {str(number): _repeat_data(repeat) for number, repeat in enumerate(study.repeats)},
        "repeated": {
            "flip_count": sum(len(repeat.flips) for repeat in study.repeats),
            "comparisons": sum(repeat.comparisons for repeat in study.repeats),
        },
        "instruments": {
            f"{found.case} {found.profile}": {
                "p50_seconds": rounded(found.p50_seconds),
                **{f"{name}_seconds": rounded(found.seconds[key]) for name, key in INSTRUMENTS.items()},
                **{f"{name}_agrees": found.agrees(INSTRUMENTS[name]) for name in OTHERS},
                **{f"{name}_agrees_cold": found.agrees_cold(INSTRUMENTS[name]) for name in OTHERS},
            }
            for found in study.agreements
        },
        "agreement": _agreement_data(study) | _turned(runs),
        "flush": {
            run.plan.run_id: {
                "footprint_bytes": run.flush.footprint_bytes,
                "flushed_read_bytes": run.flush.flushed_read_bytes,
                "warm_read_bytes": run.flush.warm_read_bytes,
            }
            for run in runs
            if run.flush and run.flush.flushed_read_bytes is not None
        },
        "clock": {run.plan.run_id: _clock(run) for run in runs if run.canaries},
        "cost": {
            run.plan.run_id: {
                "wall_seconds": run.finish.wall_seconds,
                "profiling_seconds": run.finish.profiling_seconds,
                "sweeps": len({end.sweep for end in run.sweep_ends}),
                "cells": run.plan.cell_count(),
                "timing_seconds_per_cell_and_sweep": _per_cell(run),
                "gpu_seconds_per_cell_and_sweep": _gpu_per_cell(run),
                "stage_seconds": _stages(run),
            }
            for run in runs
            if run.finish and run.sweep_ends
        },
    }  # fmt: skip


def _pairs_data(found: Repeatability) -> dict[str, Any]:
    """Pairs of runs of one source, and how often the one agreed with the other."""
    return {
        "gpu": found.gpu, "one_draw": found.one_draw, "boards": found.boards, "runs": found.runs, "pairs": found.pairs,
        "holding_share": rounded(found.holding_share), "zero_share": rounded(found.share(found.zero)),
        "changed_share": rounded(found.share(found.changed)), "flipped": found.flipped,
    }  # fmt: skip


def _pooled_data(found: Sequence[Pooled]) -> dict[str, Any]:
    """By experiment, GPU, claim and case: the speed-up over all runs of the source that was measured last."""
    data: dict[str, Any] = {}
    for each in found:
        if each.low is not None:
            claims = data.setdefault(each.place.experiment, {}).setdefault(each.place.gpu, {})
            claims.setdefault(each.place.claim, {})[each.place.case] = {
                "ratio": rounded(each.ratio), "low": rounded(each.low), "high": rounded(each.high),
                "boards": each.boards, "runs": list(each.runs), "run_count": len(each.runs),
            }  # fmt: skip
    return data


def _repeat_data(repeat: Repeat) -> dict[str, Any]:
    return {
        "experiment": repeat.experiment, "gpu": repeat.gpu, "gpus": repeat.gpus, "runs": repeat.runs,
        "sources": repeat.sources, "cells": repeat.cells, "within": repeat.within,
        "largest_deviation": rounded(repeat.largest_deviation), "largest_at": repeat.largest_at,
        "comparisons": repeat.comparisons, "disjoint": list(repeat.disjoint), "disjoint_count": len(repeat.disjoint),
        "changed": list(repeat.changed), "changed_count": len(repeat.changed),
        "flips": list(repeat.flips), "flip_count": len(repeat.flips),
    }  # fmt: skip


def _agreement_data(study: Study) -> dict[str, int]:
    """How many cells agree: by the lab's clock after a flush like theirs, and by device_cold as it is."""
    found = study.agreements
    data = {"cells": len(found), "cold_above_dirty": sum(f.p50_seconds > f.seconds[DIRTY_FLUSH] for f in found)}
    for name in OTHERS:
        data[f"{name}_agrees"] = sum(each.agrees(INSTRUMENTS[name]) for each in found)
        data[f"{name}_agrees_cold"] = sum(each.agrees_cold(INSTRUMENTS[name]) for each in found)
    return data


def _turned(runs: Sequence[RunResult]) -> dict[str, int]:
    """Claims at cases that another clock has timed too, and those that it puts on the other side of their threshold."""
    found = [
        other["turned"]
        for run in runs
        for result in run.experiments
        for claims in clocks_data(result, run).values()
        for other in claims.values()
    ]
    return {"claims": len(found), "claims_turned": sum(map(bool, found))}


def _counts(found: SelfComparison) -> dict[str, Any]:
    return {
        "comparisons": found.comparisons, "supported": found.supported, "excluding_one": found.excluding_one,
        "largest_supported_rate": rounded(largest_rate(found.supported, found.comparisons)),
    }  # fmt: skip


def _clock(run: RunResult) -> dict[str, Any]:
    """The clock's floors, as medians of the processes, and how steady the canaries were."""
    off = [deviation for _, deviation in deviations(run.canaries)]
    steps = [step for e in run.experiments if (step := e.step_seconds.get(SCOPE))]
    return {
        "clock_step_seconds": rounded(min(steps)) if steps else None,
        "empty_seconds": rounded(statistics.median(sweep.empty_seconds for sweep in run.sweeps)),
        "launch_floor_seconds": rounded(statistics.median(sweep.launch_floor_seconds for sweep in run.sweeps)),
        "canaries": len(off),
        "off": sum(deviation > LARGEST_CANARY_DRIFT for deviation in off),
        "largest_off": rounded(max(off)),
    }


def _stages(run: RunResult) -> dict[str, float]:
    spent: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            spent[stage] = spent.get(stage, 0.0) + seconds
    return {stage: rounded(seconds) for stage, seconds in sorted(spent.items())}


def _per_cell(run: RunResult) -> float | None:
    """Wall time of the timing stage over the cells that were timed in it, controls included."""
    timed = _timed(run)
    return rounded(_stages(run).get("time", 0.0) / len(timed)) if timed else None


def _gpu_per_cell(run: RunResult) -> float | None:
    """Time of the samples and of the spins before them, without flushes, warm-up and checks."""
    timed = _timed(run)
    busy = [
        second * timing.calls_per_sample + timing.spin_seconds
        for timings in timed
        for timing in timings
        for block in timing.rounds
        for second in block
    ]
    return rounded(sum(busy) / len(timed)) if timed else None


def _timed(run: RunResult) -> list[tuple[Timing, ...]]:
    """The timings of each cell and control in each sweep that timed it."""
    cells = [cell.timings for e in run.experiments for result in e.cells.values() for cell in result.cells]
    controls = [control.timings for e in run.experiments for held in e.controls.values() for control in held]
    return [timings for timings in (*cells, *controls) if timings]
