"""An experiment's result as the data behind its page: every figure that a reader sees is one of these values."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lab.definition.breakdown import Breakdown
from lab.definition.plan import PlannedExperiment
from lab.definition.publication import Publication
from lab.definition.search import is_search
from lab.definition.tokens import Tokens
from lab.evidence.codec import SCHEMA, to_data
from lab.evidence.record import Round, Watch
from lab.verdict.breakdown import break_down
from lab.verdict.explained import explain
from lab.verdict.judge import POLICY_VERSION, WEIGHED, Verdict
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.search import searches
from lab.verdict.statistics import Speedup, geometric_mean
from lab.verdict.validity import can_fail
from lab.website.data.published_breakdown import breakdown_data
from lab.website.data.published_cells import (
    attributes,
    ceilings_data,
    cell_data,
    clocks_data,
    contest_data,
    limits_data,
    measured_data,
    places_data,
    quotient,
    rounded,
)
from lab.website.data.published_replication import replication_data, replication_of

NO_TOKENS: Mapping[str, Tokens] = {}


# What a run was asked for beside times, and what it cost, as data: the same in each of its experiments.
def run_data(run: RunResult) -> dict[str, Any]:
    """`processes` began to measure: more than there were sweeps, where some died; `stage_seconds` are of them all.

    `experiments` are all that the run measured; `include` the flags by which it took in cases that it leaves out.
    """
    finish = run.finish
    return {
        "experiments": [each.name for each in run.plan.experiments],
        "include": sorted({case.only_with for each in run.plan.experiments for case in each.included_cases} - {""}),
        **attributes(run.plan, "metric_set profiling instruments"),
        "processes": len({(sweep.sweep, sweep.process) for sweep in run.sweeps}),
        # 0 is what a record says that never asked; None what an interrupted run does not know.
        "wall_seconds": finish.wall_seconds or None if finish else None,
        "profiling_seconds": finish.profiling_seconds or None if finish else None,
        "stage_seconds": stage_seconds(run),
    }


def stage_seconds(run: RunResult) -> dict[str, float]:
    """Where the time of its processes went, over all sweeps."""
    stages: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    return dict(sorted(stages.items()))


def experiment_data(
    result: ExperimentResult,
    run: RunResult | None,
    digest: str = "",
    commit: str = "",
    publications: Sequence[Publication] = (),
    breakdown: Breakdown | None = None,
    tokens: Mapping[str, Tokens] = NO_TOKENS,
) -> dict[str, Any]:
    """Plain JSON values; SI units; the unit in the key. `commit` is the one whose source was measured.

    `publications`: those whose cases an experiment may measure again; `breakdown`: which of its cases are parts of
    another; `tokens`: by operator, how many tokens a call is.
    """
    plan = result.plan
    of_call = {case.name: tokens[case.op].of(case.shape) for case in plan.cases if case.op in tokens}
    again = replication_of(publications, plan.name)
    broken_down = break_down(result, breakdown) if breakdown else None
    data = {
        "schema": SCHEMA,
        "policy_version": POLICY_VERSION,
        "experiment": plan.name,
        **attributes(plan, "title question"),
        "evidence": _evidence(result, run, digest, commit) if run else None,
        "machine": {**to_data(run.machine), "gpu_id": run.board} if run else None,
        "ceilings": ceilings_data(run) if run else None,
        "limits": limits_data(result, run) if run else None,
        "clock_step_seconds": result.step_seconds,
        "counts": _counts(plan, result),
        "cases": {
            case.name: {
                **attributes(case, "op shape dtype least_bytes flops included"),
                **({"tokens": of_call[case.name]} if case.name in of_call else {}),
            }
            for case in plan.cases
        },
        "places": {
            case.name: {scope: places_data(result, case.name, scope) for scope in plan.scopes}
            for case in plan.included_cases
        },
        "contest": {
            case.name: {scope: contest_data(result, case.name, scope) for scope in plan.scopes}
            for case in plan.included_cases
        },
        "cells": {
            case.name: {
                profile.name: cell_data(
                    case, profile, result.cells[case.name, profile.name], run, of_call.get(case.name)
                )
                for profile in plan.profiles
            }
            for case in plan.cases
        },
        "claims": {
            claim.claim.name: {
                "status": claim.status,
                "mark": claim.mark,
                **attributes(claim.claim, "measure threshold scope expected"),
                "cases": {
                    case: _verdict(verdict)
                    | quotient(
                        result, case, claim.claim.subject, claim.claim.baseline, verdict.speedup, claim.claim.scope
                    )
                    for case, verdict in claim.verdicts.items()
                },
                **_summary(list(claim.verdicts.values())),
            }
            for claim in result.claims
        },
        "controls": {case.name: _control(result, case.name) for case in plan.included_cases},
        "gpu": {
            case.name: _gpu(result.watches.get(case.name, ()))
            | {"power_capped": (plan.name, case.name) in result.spoiled.power_capped}
            for case in plan.included_cases
        },
        "splits": {case.name: _splits(result, case.name) for case in plan.included_cases},
        "explained": _explained(result),
        "searches": _searches(result),
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
        "measured": measured_data(result),
        "clocks": clocks_data(result),
        **({"replication": replication_data(*again, result, run)} if again else {}),
        **({"breakdown": breakdown_data(broken_down)} if broken_down else {}),
    }
    whole: dict[str, Any] = rounded(data)
    return whole


def _evidence(result: ExperimentResult, run: RunResult, digest: str, commit: str) -> dict[str, Any]:
    return {
        "digest": digest,
        "commit": commit or run.start.commit,
        "run_id": run.plan.run_id,
        "schema_of_run": run.start.schema,
        "cut_short": run.finish.cut_short if run.finish else "",
        "source_digest": run.start.source_digest,
        "plan_digest": run.start.plan_digest,
        "policy_version_of_run": run.plan.policy_version,
        "started_utc": run.start.started_utc,
        "finished_utc": run.finished_utc,
        "sweeps": run.plan.protocol.sweeps,
        "fewest_sweeps": min(_sweeps_by_case(result).values(), default=0),
        "most_sweeps": max(_sweeps_by_case(result).values(), default=0),
        **attributes(run.plan.protocol, "rounds block"),
        **attributes(run.sweeps[0], "launch_floor_seconds empty_seconds"),
        "median_launch_floor_seconds": statistics.median(s.launch_floor_seconds for s in run.sweeps),
        "median_empty_seconds": statistics.median(s.empty_seconds for s in run.sweeps),
        "damages": {str(damage.line_number): damage.reason for damage in run.damages},
        **run_data(run),
    }


def _sweeps_by_case(result: ExperimentResult) -> dict[str, int]:
    """How many sweeps measured a case: more where the first ones left it imprecise."""
    latencies_by_case = {
        case.name: [latency for cell in result.measured(case.name) for latency in cell.latencies.values()]
        for case in result.plan.cases
    }
    return {
        case: max(len(each.sweep_p50_seconds) for each in latencies)
        for case, latencies in latencies_by_case.items()
        if latencies
    }


def _counts(plan: PlannedExperiment, result: ExperimentResult) -> dict[str, int]:
    outcomes = [cell.outcome for cell in result.cells.values()]
    return {
        "cases": len(plan.included_cases),
        "registered_cases": len(plan.cases),
        "profiles": len(plan.profiles),
        **{outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        **_known(result),
    }


def _known(result: ExperimentResult) -> dict[str, int]:
    """Claims whose right verdict is known before anything is measured, and those that came out so.

    One of which any verdict would be right is not among them.
    """
    known = [claim for claim in result.claims if can_fail(claim.claim.expected)]
    right = sum(str(claim.status) in claim.claim.expected for claim in known)
    return {"known": len(known), "right": right} if known else {}


def _control(result: ExperimentResult, case: str) -> dict[str, Any]:
    """The A/A control of a case by scope, and how much of the case was left out."""
    controls = result.controls.get(case, ())
    scopes = {scope: _ratio(result.control(case, scope)) for scope in result.plan.scopes} if controls else {}
    return {
        "profile": controls[0].profile if controls else "",
        "scopes": {scope: ratio for scope, ratio in scopes.items() if ratio},
        "spoiled_share": result.spoiled_share(case),
        "spoiled_because": _spoiled_because(result, case),
    }


def _spoiled_because(result: ExperimentResult, case: str) -> list[str]:
    """The reasons for which rounds of a case were left out; figures in them are those of single rounds."""
    reasons = {
        reason.partition(" was off by")[0]
        for watch in result.watches.get(case, ())
        for reason in result.spoiled.reasons(watch).values()
    }
    return sorted(reasons)


def _gpu(watches: Sequence[Watch]) -> dict[str, Any]:
    """What the GPU went through while a case was timed, over all sweeps; None where nobody told."""
    rounds = [seen for watch in watches for seen in watch.rounds]
    readings = {name: [v for seen in rounds if (v := getattr(seen, name)) is not None] for name in Round.__slots__}
    joules = [watch.energy_joules for watch in watches if watch.energy_joules is not None]
    return {
        "rounds": len(rounds),
        "lowest_spin_hertz": min(readings["spin_hertz"], default=None),
        "lowest_sm_hertz": min(readings["sm_hertz"], default=None),
        "largest_power_watts": max(readings["power_watts"], default=None),
        "largest_temperature_celsius": max(readings["temperature_celsius"], default=None),
        "energy_joules_per_sweep": sum(joules) / len(joules) if joules else None,
        "blind": sorted({watch.blind for watch in watches if watch.blind}),
    }


def _splits(result: ExperimentResult, case: str) -> dict[str, Any]:
    """The eager speed-up of each headline claim, as device × launch."""
    splits = {}
    for claim in result.plan.claims:
        if claim.name in result.plan.headlines and case in claim.cases and claim.measure == "speedup":
            split = result.split(case, claim.subject, claim.baseline)
            if split:
                parts = {"end_to_end": split.end_to_end, "device": split.device, "launch": split.launch}
                splits[claim.name] = {name: _ratio(part) for name, part in parts.items()}
    return splits


def _explained(result: ExperimentResult) -> dict[str, Any]:
    """By case and profile: what the traffic explains of its time beside the fastest."""
    rows: dict[str, Any] = {}
    for row in explain(result):
        values = attributes(row, "fastest time_ratio bytes_ratio explained others")
        rows.setdefault(row.case, {})[row.profile] = values
    return rows


def _searches(result: ExperimentResult) -> dict[str, Any]:
    """By case, of a search for launch configurations: how often each was ahead of the rule, and what won.

    `claims`: those of the trials, the fastest first.
    """
    if not is_search(result.plan):
        return {}
    return {
        search.case.name: {
            "winner": search.winner.profile.name if search.winner else "",
            "scope": search.scope,
            "sweeps_fastest": search.sweeps_fastest,
            "claims": [trial.claim for trial in search.trials],
            "trials": {
                trial.profile.name: {"sweeps_ahead": trial.sweeps_ahead, "sweeps": len(trial.sweep_ratios)}
                for trial in search.trials
                if trial.sweep_ratios
            },
        }
        for search in searches(result)
    }


def _ratio(speedup: Speedup | None) -> dict[str, Any] | None:
    return attributes(speedup, "ratio low high") if speedup else None


def _verdict(verdict: Verdict) -> dict[str, Any]:
    data = attributes(verdict, "status mark reason")
    if verdict.speedup:
        run_low, run_high = verdict.speedup.of_run_alone
        data |= attributes(verdict.speedup, "ratio low high") | {"run_low": run_low, "run_high": run_high}
        data["sweep_ratios"] = verdict.speedup.sweep_ratios
    if verdict.compared_bytes:
        data |= attributes(verdict.compared_bytes, "ratio low high subject_bytes baseline_bytes")
    return data


def _summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts of a claim's verdicts, and range and geometric mean of the ratios that were fit to be judged."""
    weighed = [verdict for verdict in verdicts if verdict.status in WEIGHED]
    ratios = [verdict.ratio for verdict in weighed if verdict.ratio is not None]
    counts: dict[str, Any] = {
        "judged": len(verdicts),
        "compared": len(ratios),
        "supported": sum(verdict.status == "supported" for verdict in verdicts),
        "ties": sum("equivalent" in verdict.mark.split(", ") for verdict in verdicts),
    }
    if ratios:
        counts |= {"smallest_ratio": min(ratios), "largest_ratio": max(ratios)}
        counts["geometric_mean"] = geometric_mean(ratios)
    return counts


def _speedup(result: ExperimentResult, case: str, subject: str, baseline: str) -> dict[str, Any] | None:
    speedup = result.compare(case, subject, baseline)
    ratio = _ratio(speedup)
    return ratio | quotient(result, case, subject, baseline, speedup) if ratio else None
