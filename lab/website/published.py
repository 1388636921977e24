"""An experiment's result as the data behind its page: every figure that a reader sees is one of these values."""

import math
from collections.abc import Sequence
from typing import Any

from lab.definition.plan import PlannedExperiment
from lab.evidence.record import SCHEMA, Counters, Kernel, Round, Watch
from lab.verdict.cells import CellResult
from lab.verdict.explained import explain
from lab.verdict.judge import POLICY_VERSION, WEIGHED, Verdict
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import Speedup, geometric_mean

TRAFFIC_FIELDS = ("ratio", "low", "high", "subject_bytes", "baseline_bytes")
DIGITS = 7  # enough for any reader, few enough that every machine computes the same ones


def experiment_data(result: ExperimentResult, run: RunResult | None, digest: str) -> dict[str, Any]:
    """Plain JSON values; SI units; the unit in the key."""
    plan = result.plan
    return {
        "schema": SCHEMA,
        "policy_version": POLICY_VERSION,
        "experiment": plan.name,
        "evidence": _evidence(result, run, digest) if run else None,
        "counts": _counts(plan, result),
        "cases": {
            case.name: {
                "op": case.op,
                "shape": list(case.shape),
                "dtype": case.dtype,
                "least_bytes": case.least_bytes,
                "flops": case.flops,
                "included": case.included,
            }
            for case in plan.cases
        },
        "cells": {
            case.name: {profile.name: _cell(result.cells[case.name, profile.name]) for profile in plan.profiles}
            for case in plan.cases
        },
        "claims": {
            claim.claim.name: {
                "status": claim.status,
                "measure": claim.claim.measure,
                "threshold": claim.claim.threshold,
                "scope": claim.claim.scope,
                "expected": list(claim.claim.expected),
                "cases": {case: _verdict(verdict) for case, verdict in claim.verdicts.items()},
                **_summary(list(claim.verdicts.values())),
            }
            for claim in result.claims
        },
        "controls": {case.name: _control(result, case.name) for case in plan.included_cases},
        "gpu": {case.name: _gpu(result.watches.get(case.name, ())) for case in plan.included_cases},
        "splits": {case.name: _splits(result, case.name) for case in plan.included_cases},
        "explained": _explained(result),
        "against": {
            case.name: {
                subject.name: {
                    baseline.name: _speedup(result, case.name, subject.name, baseline.name)
                    for baseline in result.measured_profiles(case.name)
                    if baseline != subject
                }
                for subject in result.measured_profiles(case.name)
            }
            for case in plan.included_cases
        },
    }


def _evidence(result: ExperimentResult, run: RunResult, digest: str) -> dict[str, Any]:
    protocol = run.plan.protocol
    return {
        "digest": digest,
        "run_id": run.plan.run_id,
        "source_digest": run.start.source_digest,
        "plan_digest": run.start.plan_digest,
        "policy_version_of_run": run.plan.policy_version,
        "started_utc": run.start.started_utc,
        "finished_utc": run.finished_utc,
        "sweeps": protocol.sweeps,
        "fewest_sweeps": min(_sweeps_by_case(result).values(), default=0),
        "most_sweeps": max(_sweeps_by_case(result).values(), default=0),
        "rounds": protocol.rounds,
        "block": protocol.block,
        "launch_floor_seconds": _rounded(run.sweeps[0].launch_floor_seconds),
        "damaged_lines": [damage.line_number for damage in run.damages],
    }


def _sweeps_by_case(result: ExperimentResult) -> dict[str, int]:
    """How many sweeps measured a case: more where the first ones left it imprecise."""
    found = {case.name: [c.latency for c in result.measured(case.name) if c.latency] for case in result.plan.cases}
    return {
        case: max(len(each.sweep_p50_seconds) for each in latencies) for case, latencies in found.items() if latencies
    }


def _counts(plan: PlannedExperiment, result: ExperimentResult) -> dict[str, int]:
    outcomes = [cell.outcome for cell in result.cells.values()]
    return {
        "cases": len(plan.included_cases),
        "registered_cases": len(plan.cases),
        "profiles": len(plan.profiles),
        **{outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
    }


def _cell(cell: CellResult) -> dict[str, Any]:
    data: dict[str, Any] = {"outcome": cell.outcome, "reason": cell.reason}
    if cell.latency:
        data |= {
            "p50_seconds": _rounded(cell.latency.p50_seconds),
            "p95_seconds": _rounded(cell.latency.p95_seconds),
            "noise_ratio": _rounded(cell.latency.noise_ratio),
            "between_sweep_spread": _rounded(cell.latency.between_sweep_spread),
            "sweep_p50_seconds": [_rounded(value) for value in cell.latency.sweep_p50_seconds],
            "samples": cell.latency.samples,
            "sweeps": len(cell.latency.sweep_p50_seconds),
            "scopes": {scope: _latency(cell, scope) for scope in cell.latencies},
            "unmeasured": dict(cell.unmeasured),
            "void_share": _rounded(cell.void_share),
            "bytes_per_second": _rounded(cell.bytes_per_second),
            "enqueue_seconds": _rounded(cell.enqueue_seconds),
            "prepare_seconds": _rounded(cell.prepare_seconds),
            "launch_bound": cell.launch_bound,
            "host_bound": cell.host_bound,
        }
    if cell.correctness:
        data |= {
            "worst_absolute_error": _rounded(max(c.worst_absolute_error for c in cell.correctness)),
            "worst_tolerance_share": _rounded(max(c.worst_tolerance_share for c in cell.correctness)),
            "edges": {edge.name: edge.outcome for c in cell.correctness for edge in c.edges},
            "correctness_checks": sum(len(c.seeds) + 1 for c in cell.correctness),
        }
    if cell.counters:
        data["counters"] = _counters(cell.counters)
    return data


def _latency(cell: CellResult, scope: str) -> dict[str, Any]:
    found = cell.latencies[scope]
    return {
        "p50_seconds": _rounded(found.p50_seconds),
        "p95_seconds": _rounded(found.p95_seconds),
        "noise_ratio": _rounded(found.noise_ratio),
        "samples": found.samples,
        "void_share": _rounded(cell.void_shares.get(scope, 0.0)),
    }


def _control(result: ExperimentResult, case: str) -> dict[str, Any]:
    """The A/A control of a case by scope, and how much of the case was left out."""
    held = result.controls.get(case, ())
    scopes = {scope: _ratio(result.control(case, scope)) for scope in result.plan.scopes} if held else {}
    return {
        "profile": held[0].profile if held else "",
        "scopes": {scope: found for scope, found in scopes.items() if found},
        "spoiled_share": _rounded(result.spoiled_share(case)),
    }


def _gpu(watches: Sequence[Watch]) -> dict[str, Any]:
    """What the GPU went through while a case was timed, over all sweeps; None where nobody told."""
    rounds = [seen for watch in watches for seen in watch.rounds]
    told = {name: [v for seen in rounds if (v := getattr(seen, name)) is not None] for name in Round.__slots__}
    joules = [watch.energy_joules for watch in watches if watch.energy_joules is not None]
    return {
        "rounds": len(rounds),
        "lowest_spin_hertz": _rounded(min(told["spin_hertz"], default=None)),
        "lowest_sm_hertz": _rounded(min(told["sm_hertz"], default=None)),
        "largest_power_watts": _rounded(max(told["power_watts"], default=None)),
        "largest_temperature_celsius": _rounded(max(told["temperature_celsius"], default=None)),
        "energy_joules_per_sweep": _rounded(sum(joules) / len(joules)) if joules else None,
        "blind": sorted({watch.blind for watch in watches if watch.blind}),
    }


def _splits(result: ExperimentResult, case: str) -> dict[str, Any]:
    """The eager speed-up of each headline claim, as device × launch."""
    found = {}
    for claim in result.plan.claims:
        if claim.name in result.plan.headlines and case in claim.cases and claim.measure == "speedup":
            split = result.split(case, claim.subject, claim.baseline)
            if split:
                parts = {"end_to_end": split.end_to_end, "device": split.device, "launch": split.launch}
                found[claim.name] = {name: _ratio(part) for name, part in parts.items()}
    return found


def _explained(result: ExperimentResult) -> dict[str, Any]:
    """By case and profile: what the traffic explains of its time beside the fastest."""
    found: dict[str, Any] = {}
    for row in explain(result):
        found.setdefault(row.case, {})[row.profile] = {
            "fastest": row.fastest,
            "time_ratio": _rounded(row.time_ratio),
            "bytes_ratio": _rounded(row.bytes_ratio),
            "explained": row.explained,
            "others": list(row.others),
        }
    return found


def _ratio(found: Speedup | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"ratio": _rounded(found.ratio), "low": _rounded(found.low), "high": _rounded(found.high)}


def _counters(counters: Counters) -> dict[str, Any]:
    """One call's kernels, with sums where a sum has sense and duration-weighted means where not."""
    kernels = counters.kernels
    return {
        "outcome": counters.outcome,
        "reason": counters.reason,
        "ncu": counters.ncu,
        "kernels": [_kernel(kernel) for kernel in kernels],
        "launches": len(kernels),
        "duration_seconds": _sum([kernel.duration_seconds for kernel in kernels]),
        "dram_read_bytes": _sum([kernel.dram_read_bytes for kernel in kernels]),
        "dram_written_bytes": _sum([kernel.dram_written_bytes for kernel in kernels]),
        "dram_bytes": _sum([k.dram_read_bytes for k in kernels] + [k.dram_written_bytes for k in kernels]),
        "dram_percent": _weighted_mean(kernels, [kernel.dram_percent for kernel in kernels]),
        "occupancy_percent": _weighted_mean(kernels, [kernel.occupancy_percent for kernel in kernels]),
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {name: _rounded(getattr(kernel, name)) for name in kernel.__slots__}


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum, or None where any part was not measured."""
    known = [value for value in values if value is not None]
    return float(_rounded(sum(known))) if known and len(known) == len(values) else None


def _weighted_mean(kernels: Sequence[Kernel], values: Sequence[float | None]) -> float | None:
    """Mean weighted by the kernels' durations, or None where any part was not measured."""
    pairs = [
        (kernel.duration_seconds, value)
        for kernel, value in zip(kernels, values, strict=True)
        if kernel.duration_seconds is not None and value is not None
    ]
    if not pairs or len(pairs) < len(values):
        return None
    return float(_rounded(sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)))


def _verdict(verdict: Verdict) -> dict[str, Any]:
    data: dict[str, Any] = {"status": verdict.status, "mark": verdict.mark, "reason": verdict.reason}
    if verdict.speedup:
        data |= {
            "ratio": _rounded(verdict.speedup.ratio),
            "low": _rounded(verdict.speedup.low),
            "high": _rounded(verdict.speedup.high),
            "sweep_ratios": [_rounded(ratio) for ratio in verdict.speedup.sweep_ratios],
        }
    if verdict.traffic:
        data |= {name: _rounded(getattr(verdict.traffic, name)) for name in TRAFFIC_FIELDS}
    return data


def _summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts of a claim's verdicts, and range and geometric mean of the ratios that were fit to be judged."""
    weighed = [verdict for verdict in verdicts if verdict.status in WEIGHED]
    ratios = [verdict.ratio for verdict in weighed if verdict.ratio is not None]
    counts: dict[str, Any] = {
        "judged": len(verdicts),
        "compared": len(ratios),
        "supported": sum(verdict.status == "supported" for verdict in verdicts),
    }
    if ratios:
        counts |= {
            "smallest_ratio": _rounded(min(ratios)),
            "largest_ratio": _rounded(max(ratios)),
            "geometric_mean": _rounded(geometric_mean(ratios)),
        }
    return counts


def _speedup(result: ExperimentResult, case: str, subject: str, baseline: str) -> dict[str, Any] | None:
    return _ratio(result.compare(case, subject, baseline))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
