"""The lab's error rates as plain data: what the page on trust shows, and nothing else."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.definition.catalogue import ZOO
from lab.profiler.readings import DIRTY_FLUSH
from lab.verdict.cells import SCOPE
from lab.verdict.excluded_rounds import LARGEST_CANARY_DRIFT, deviations
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.neighbours import neighbours
from lab.verdict.pooled import Pooled, pooled
from lab.verdict.repeatability import RunsOfOneSource, repeatability, runs_of_one_source
from lab.verdict.results import RunResult
from lab.verdict.validity import Agreement, Repeat, Study
from lab.website.data.published_clocks import INSTRUMENTS, clocks_data
from lab.website.data.typed import DATA_SCHEMA, plain_json
from lab.website.data.zoo_runs import screens

OTHERS = ("do_bench", "nvbench")


def trust_data(study: Study, runs: Sequence[RunResult]) -> dict[str, Any]:
    """Plain JSON values; SI units; the unit in the key."""
    screenings = [repeat for repeat in study.repeats if _screens(repeat)]
    usual = [repeat for repeat in study.repeats if not _screens(repeat)]
    data: dict[str, Any] = plain_json({
        "schema": DATA_SCHEMA,
        "policy_version": POLICY_VERSION,
        "sessions": study.sessions,
        "same": study.same,
        "same_by_case": study.by_case,
        "controls": study.controls,
        "power": {power.claim: power for power in study.power},
        "repeatability": {str(number): result for number, result in enumerate(repeatability(runs))},
        "runs_of_one_source": {str(number): each for number, each in enumerate(_repeated(runs))},
        "pooled": _pooled_data(pooled(runs), {run.plan.run_id: run.finished_utc for run in runs}),
        "repeats": {
            str(number): plain_json(repeat) | {"screening": _screens(repeat)}
            for number, repeat in enumerate(study.repeats)
        },
        "changed": {str(number): each for number, each in enumerate(_changed(usual))},
        "changed_screenings": _counts(screenings),
        "repeated": _counts(usual),
        "neighbours": {str(number): each for number, each in enumerate(neighbours(runs))},
        "instruments": {f"{each.case} {each.profile}": _instruments_data(each) for each in study.agreements},
        "agreement": _agreement_data(study) | _turned(runs),
        "flush": {run.plan.run_id: flush for run in runs if (flush := _flush_data(run))},
        "clock": {run.plan.run_id: _clock(run) for run in runs if run.canaries},
    })  # fmt: skip
    return data


def _repeated(runs: Sequence[RunResult]) -> Iterator[RunsOfOneSource]:
    """Samples of the zoo are left out: none is to be repeated."""
    return (each for each in runs_of_one_source(runs) if not each.experiment.startswith(ZOO))


def _screens(repeat: Repeat) -> bool:
    return screens(repeat.experiment, repeat.block)


def _changed(repeats: Sequence[Repeat]) -> Iterator[dict[str, Any]]:
    """By experiment and GPU, over the protocols that it was measured under."""
    for experiment, gpu in dict.fromkeys((repeat.experiment, repeat.gpu) for repeat in repeats):
        members = [repeat for repeat in repeats if (repeat.experiment, repeat.gpu) == (experiment, gpu)]
        yield {"experiment": experiment, "gpu": gpu, **_counts(members)}


def _counts(repeats: Sequence[Repeat]) -> dict[str, int]:
    return {
        "protocols": len(repeats),
        "runs": sum(repeat.runs for repeat in repeats),
        "comparisons": sum(repeat.comparisons for repeat in repeats),
        "changed_count": sum(repeat.changed_count for repeat in repeats),
        "flip_count": sum(repeat.flip_count for repeat in repeats),
    }


def _pooled_data(cases: Sequence[Pooled], finished_utc: Mapping[str, str]) -> dict[str, Any]:
    """By experiment, GPU, claim and case: the speed-up over all runs of the source that was measured last."""
    data: dict[str, Any] = {}
    for each in cases:
        if each.low is not None:
            claims = data.setdefault(each.place.experiment, {}).setdefault(each.place.gpu, {})
            claims.setdefault(each.place.claim, {})[each.place.case] = {
                "ratio": each.ratio, "low": each.low, "high": each.high, "boards": each.boards, "runs": each.runs,
                "run_count": len(each.runs), "last_utc": max(finished_utc[run] for run in each.runs),
                "scope": each.place.scope, "threshold": each.place.threshold, "status": each.status,
            }  # fmt: skip
    return data


def _instruments_data(cell: Agreement) -> dict[str, Any]:
    """A cell's times by every instrument, and which of them agree with the lab's clock."""
    return {
        "p50_seconds": cell.p50_seconds,
        **{f"{name}_seconds": cell.seconds[key] for name, key in INSTRUMENTS.items()},
        **{f"{name}_agrees": cell.agrees(INSTRUMENTS[name]) for name in OTHERS},
        **{f"{name}_agrees_cold": cell.agrees_cold(INSTRUMENTS[name]) for name in OTHERS},
    }


def _flush_data(run: RunResult) -> dict[str, Any] | None:
    """Bytes that were counted, to the last one; None where the flush was not checked."""
    if run.flush is None or run.flush.flushed_read_bytes is None:
        return None
    warm = run.flush.warm_read_bytes
    return {
        "footprint_bytes": run.flush.footprint_bytes,
        "flushed_read_bytes": int(run.flush.flushed_read_bytes),
        "warm_read_bytes": None if warm is None else int(warm),
    }


def _agreement_data(study: Study) -> dict[str, int]:
    """How many cells agree: by the lab's clock after a flush like theirs, and by device_cold as it is."""
    agreements = study.agreements
    data = {
        "cells": len(agreements),
        "cold_above_dirty": sum(f.p50_seconds > f.seconds[DIRTY_FLUSH] for f in agreements),
    }
    for name in OTHERS:
        data[f"{name}_agrees"] = sum(each.agrees(INSTRUMENTS[name]) for each in agreements)
        data[f"{name}_agrees_cold"] = sum(each.agrees_cold(INSTRUMENTS[name]) for each in agreements)
    return data


def _turned(runs: Sequence[RunResult]) -> dict[str, int]:
    """Claims at cases that another clock has timed too, and those that it puts on the other side of their threshold."""
    turned = [
        other.turned
        for run in runs
        for result in run.experiments
        for claims in clocks_data(result).values()
        for other in claims.values()
    ]
    return {"claims": len(turned), "claims_turned": sum(map(bool, turned))}


def _clock(run: RunResult) -> dict[str, Any]:
    """The clock's floors, as medians of the processes, and how steady the canaries were."""
    off = [deviation for _, deviation in deviations(run.canaries)]
    steps = [step for e in run.experiments if (step := e.step_seconds.get(SCOPE))]
    return {
        "clock_step_seconds": min(steps) if steps else None,
        "empty_seconds": statistics.median(sweep.empty_seconds for sweep in run.sweeps),
        "launch_floor_seconds": statistics.median(sweep.launch_floor_seconds for sweep in run.sweeps),
        "canaries": len(off),
        "off": sum(deviation > LARGEST_CANARY_DRIFT for deviation in off),
        "largest_off": max(off),
    }
