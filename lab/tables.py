"""A judged run as flat rows, with units in the names: for data frames and for files that other programs read."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import COLD, SCOPES
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.results import ExperimentResult, RunResult

Row = dict[str, Any]


def cell_rows(run: RunResult) -> Iterator[Row]:
    for experiment, case, profile in _places(run):
        cell = experiment.cells[case.name, profile.name]
        for scope in SCOPES if cell.latencies else (COLD,):
            latency = cell.latencies.get(scope)
            if latency is None and (cell.latencies or scope != COLD):
                continue
            headline = scope == COLD
            worst = max((each.worst_tolerance_share for each in cell.correctness), default=None)
            yield {
                "experiment": experiment.plan.name, "case": case.name, "operator": case.op,
                "shape": "x".join(map(str, case.shape)), "dtype": case.dtype, "profile": profile.name, "scope": scope,
                "outcome": cell.outcome, "reason": cell.reason,
                "p50_seconds": latency.p50_seconds if latency else None,
                "p95_seconds": latency.p95_seconds if latency else None,
                "noise_ratio": latency.noise_ratio if latency else None,
                "samples": latency.samples if latency else 0,
                "bytes_per_second": cell.bytes_per_second if headline else None,
                "least_bytes": case.least_bytes, "flops": case.flops, "worst_tolerance_share": worst,
            }  # fmt: skip


def claim_rows(run: RunResult) -> Iterator[Row]:
    for experiment in run.experiments:
        for result in experiment.claims:
            claim = result.claim
            for case, verdict in result.verdicts.items():
                speedup = verdict.speedup
                yield {
                    "experiment": experiment.plan.name, "claim": claim.name, "text": claim_sentence(claim),
                    "case": case, "subject": claim.subject, "baseline": claim.baseline,
                    "scope": claim.scope, "measure": claim.measure, "threshold": claim.threshold,
                    "ratio": verdict.ratio, "ratio_low": speedup.low if speedup else None,
                    "ratio_high": speedup.high if speedup else None,
                    "sweeps": len(speedup.sweep_ratios) if speedup else 0,
                    "status": str(verdict.status), "mark": verdict.mark, "reason": verdict.reason,
                }  # fmt: skip


def sample_rows(run: RunResult) -> Iterator[Row]:
    for experiment, case, profile in _places(run):
        for cell in experiment.cells[case.name, profile.name].cells:
            for timing in cell.timings:
                for number, block in enumerate(timing.rounds):
                    for seconds in block:
                        yield {
                            "experiment": experiment.plan.name, "case": case.name, "profile": profile.name,
                            "scope": timing.scope, "sweep": cell.sweep, "round": number, "seconds": seconds,
                        }  # fmt: skip


def _places(run: RunResult) -> Iterator[tuple[ExperimentResult, PlannedCase, PlannedProfile]]:
    for experiment in run.experiments:
        for case, profile in experiment.plan.cells():
            yield experiment, case, profile


TABLES: Mapping[str, Callable[[RunResult], Iterator[Row]]] = {
    "cells": cell_rows,
    "claims": claim_rows,
    "samples": sample_rows,
}
