"""Experiments, plans and verdicts as lines of text for a terminal."""

from collections.abc import Iterator

from lab.definition.claim_words import can_run, claim_sentence
from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.plan import Plan, PlannedCase
from lab.verdict.ceilings import Ceilings, ceiling_gap
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.plain_words import claim_word, in_words
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.search import ConfigurationTrial, Search, compiled_of
from lab.verdict.statistics import Speedup
from lab.website.format import (
    distance,
    gigabytes_per_second,
    megabytes,
    microseconds,
    ratio_interval,
    share,
    teraflops_per_second,
    verdict_ratio,
)


def describe_experiment(experiment: Experiment) -> Iterator[str]:
    yield _said(experiment.name, experiment.question)
    yield "  cases"
    for case in experiment.cases:
        flag = f"   (with --include-{case.only_with})" if case.only_with else ""
        yield f"    {case.name}{flag}"
    yield "  profiles"
    for profile in experiment.profiles:
        yield _said(f"    {profile.name}", profile.technique)
    yield "  claims"
    for claim in experiment.claims:
        yield f"    {claim.name}: {claim_sentence(claim)}"


def _said(name: str, text: str) -> str:
    """Prose may be left out until a run is published."""
    return f"{name}: {text}" if text else name


def describe_plan(plan: Plan) -> Iterator[str]:
    protocol = plan.protocol
    where = "an NVIDIA GPU" if plan.device == "cuda" else "the CPU (Triton cells will be skipped: no CUDA GPU here)"
    size = f"{plan.cell_count()} cells x {protocol.sweeps} sweeps"
    yield f"run {plan.run_id} on {where}: {size}, digest {plan.digest[:12]}"
    for experiment in plan.experiments:
        for case in experiment.included_cases:
            names = ", ".join(profile.name for profile in experiment.profiles_of(case))
            yield f"  {experiment.name}  {case.name}: {names}"
        if left := [case for case in experiment.cases if not case.included]:
            names = ", ".join(case.name for case in left)
            if experiment.name == CEILINGS and len(plan.experiments) > 1:
                yield f"  not needed here: {names} (--experiment {CEILINGS})"
            else:
                yield f"  not in this run: {names} ({', '.join(sorted({case.option for case in left}))})"


def describe_verdicts(run: RunResult) -> Iterator[str]:
    where = run.machine.gpu or f"CPU evidence, {run.machine.cpu}"
    yield f"run {run.plan.run_id}: {where}{'' if run.finished_utc else ' (unfinished)'}"
    if run.ceilings:
        yield f"  ceilings: {_ceilings(run.ceilings)}"
    yield from _journal(run)
    for experiment in run.experiments:
        for case in experiment.plan.included_cases:
            yield f"  {case.name}"
            for cell in (experiment.cells[case.name, profile.name] for profile in experiment.plan.profiles_of(case)):
                yield f"    {cell.profile:24} {_cell(case, cell, run.ceilings)}"
        yield from _claims(experiment, run.machine.device)


def _journal(run: RunResult) -> Iterator[str]:
    if run.seal:
        missing = "none is missing" if run.seal.chained else "not chained, so that a missing one leaves no trace"
        missing = "see below" if run.damages else missing
        yield f"  journal: {run.seal.lines} lines, {missing}; SHA-256 {run.seal.sha256}"
    for damage in run.damages:
        yield f"  journal line {damage.line_number} not used: {damage.reason}"


def _claims(experiment: ExperimentResult, device: str) -> Iterator[str]:
    """Each that was measured, with its verdict at each case; then how many were not, and why."""
    able = [each for each in experiment.claims if can_run(experiment.plan, each.claim, device)]
    measured = [claim for claim in able if claim.verdicts]
    for claim in measured:
        mark = f" ({claim.mark})" if claim.mark else ""
        words = {case_name: in_words(verdict) for case_name, verdict in claim.verdicts.items()}
        statuses = (verdict.status for verdict in claim.verdicts.values())
        word = claim_word(claim.status, zip(statuses, words.values(), strict=True), claim.claim.threshold)
        yield f"  {word:13} {claim_sentence(claim.claim)}{mark}"
        for case_name, verdict in claim.verdicts.items():
            cpu = "CPU evidence" if device == "cpu" else ""
            parts = (verdict_ratio(verdict), verdict.mark, cpu, verdict.reason)
            yield f"    {words[case_name]:18} {case_name:28} {'  '.join(part for part in parts if part)}"
    if elsewhere := len(able) - len(measured):
        yield f"  {elsewhere} claim{'s are' if elsewhere > 1 else ' is'} about cases that are not in this run"
    if needing := len(experiment.claims) - len(able):
        yield f"  {needing} claim{'s need' if needing > 1 else ' needs'} a GPU"


def _ceilings(ceilings: Ceilings) -> str:
    """The largest copy and read, the matrix rates and the launch floor."""
    largest = [
        f"{name} {gigabytes_per_second(rungs[-1].bytes_per_second)} GB/s at {rungs[-1].bytes >> 20} MiB"
        for name, ladders in (("copy", ceilings.copies), ("read", ceilings.reads))
        if (rungs := ladders.get(SCOPE, ()))
    ]
    rates = [f"{kind} {teraflops_per_second(rate.flops_per_second)} TFLOP/s" for kind, rate in ceilings.matrix.items()]
    return ", ".join([*largest, *rates, f"launch floor {microseconds(ceilings.launch_floor_seconds)} µs"])


def _cell(case: PlannedCase, cell: CellResult, ceilings: Ceilings | None) -> str:
    if cell.latency is None:
        others = [f"{scope} {microseconds(each.p50_seconds)} µs" for scope, each in cell.latencies.items()]
        return ", ".join([f"{cell.outcome}: {cell.reason or cell.unmeasured.get(SCOPE, '')}", *others])
    parts = [f"p50 {microseconds(cell.latency.p50_seconds)} µs"]
    if noise := cell.latency.noise_ratio:
        parts.append(f"noise {noise:.2f}")
    if gap := ceiling_gap(case, cell, ceilings):
        parts.append(f"{share(gap.attained)} % of the {gap.limit} ceiling")
        parts.append(f"{distance(gap.distance_seconds)} µs from it")
    if size := cell.cache_resident.get(SCOPE):
        parts.append(f"cache-resident, working set {megabytes(size)} MB")
    return ", ".join(parts)


def describe_search(search: Search, control: Speedup | None) -> Iterator[str]:
    """Every configuration tried, the fastest first, and how stable the win is."""
    rule = search.rule.latencies.get(search.scope)
    yield f"{search.case.name}, {search.scope}"
    yield f"  {'the rule':34} {f'p50 {microseconds(rule.p50_seconds)} µs' if rule else search.rule.outcome}"
    yield from (f"  {trial.profile.name:34} {_trial(trial, search.scope)}" for trial in search.trials)
    if control:
        yield f"  control: the rule under two names, {ratio_interval(control)}"
    if search.winner is None:
        yield "  no configuration is clearly faster among so many: the rule stays"
    else:
        sweeps = len(search.winner.sweep_ratios)
        yield (
            f"  winner: {search.winner.profile.name}, {verdict_ratio(search.winner.verdict)} over the rule; ahead of "
            f"it in {search.winner.sweeps_ahead} of {sweeps} sweeps, fastest of all in {search.sweeps_fastest}"
        )


def _trial(trial: ConfigurationTrial, scope: str) -> str:
    latency = trial.cell.latencies.get(scope)
    if latency is None:
        return f"{trial.cell.outcome}: {trial.cell.reason}"
    parts = [f"p50 {microseconds(latency.p50_seconds)} µs"]
    if trial.sweep_ratios:
        parts.append(
            f"{verdict_ratio(trial.verdict)}, ahead in {trial.sweeps_ahead} of {len(trial.sweep_ratios)} sweeps"
        )
    if kernel := compiled_of(trial.cell):
        parts.append(f"{kernel.registers_per_thread} registers, {kernel.spills} spills")
    verdict = trial.verdict
    parts.append(f"{verdict.status}{f' ({verdict.mark})' if verdict.mark else ''}")
    return ", ".join([*parts, verdict.reason] if verdict.reason else parts)
