"""Experiments, plans and verdicts as lines of text for a terminal."""

from collections.abc import Iterator

from lab.definition.asked import can_run, claim_sentence
from lab.definition.experiment import Experiment
from lab.definition.plan import Plan, PlannedCase
from lab.verdict.ceilings import Ceilings, light
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.results import RunResult
from lab.verdict.search import Search, Trial, compiled_of
from lab.verdict.statistics import Speedup, per_cent
from lab.verdict.validity import SelfComparison, Study
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
    yield f"{experiment.name}: {experiment.question}"
    yield "  cases"
    for case in experiment.cases:
        flag = f"   (with --include-{case.only_with})" if case.only_with else ""
        yield f"    {case.name}{flag}"
    yield "  profiles"
    for profile in experiment.profiles:
        yield f"    {profile.name}: {profile.technique}"
    yield "  claims"
    for claim in experiment.claims:
        yield f"    {claim.name}: {claim_sentence(claim)}"


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
            flags = sorted({f"--include-{case.only_with}" for case in left})
            yield f"  not in this run: {', '.join(case.name for case in left)} ({', '.join(flags)})"


def describe_verdicts(run: RunResult) -> Iterator[str]:
    where = run.machine.gpu or f"CPU evidence, {run.machine.cpu}"
    yield f"run {run.plan.run_id}: {where}{'' if run.finished_utc else ' (unfinished)'}"
    if run.ceilings:
        yield f"  ceilings: {_ceilings(run.ceilings)}"
    for damage in run.damages:
        yield f"  journal line {damage.line_number} not used: {damage.reason}"
    for experiment in run.experiments:
        for case in experiment.plan.included_cases:
            yield f"  {case.name}"
            for cell in (experiment.cells[case.name, profile.name] for profile in experiment.plan.profiles_of(case)):
                yield f"    {cell.profile:24} {_cell(case, cell, run.ceilings)}"
        able = [each for each in experiment.claims if can_run(experiment.plan, each.claim, run.machine.device)]
        for claim in able:
            yield f"  {claim.status:13} {claim_sentence(claim.claim)}"
            for case_name, verdict in claim.verdicts.items():
                cpu = "CPU evidence" if run.machine.device == "cpu" else ""
                detail = "  ".join(part for part in (verdict_ratio(verdict), verdict.mark, cpu, verdict.reason) if part)
                yield f"    {verdict.status:13} {case_name:28} {detail}"
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
        return f"{cell.outcome}: {cell.reason}"
    told = [f"p50 {microseconds(cell.latency.p50_seconds)} µs"]
    if noise := cell.latency.noise_ratio:
        told.append(f"noise {noise:.2f}")
    if found := light(case, cell, ceilings):
        told.append(f"{share(found.attained)} % of the {found.limit} ceiling")
        told.append(f"{distance(found.distance_seconds)} µs from it")
    if size := cell.cache_resident.get(SCOPE):
        told.append(f"cache-resident, working set {megabytes(size)} MB")
    return ", ".join(told)


def describe_search(search: Search, control: Speedup | None) -> Iterator[str]:
    """Every configuration tried, the fastest first, and how stable the win is."""
    rule = search.rule.latencies.get(search.scope)
    yield f"{search.case.name}, {search.scope}"
    yield f"  {'the rule':34} {f'p50 {microseconds(rule.p50_seconds)} µs' if rule else search.rule.outcome}"
    yield from (f"  {trial.profile.name:34} {_trial(trial, search.scope)}" for trial in search.trials)
    if control:
        yield f"  control: the rule under two names, {ratio_interval(control)}"
    if search.winner is None:
        yield "  no winner within noise: the rule stays"
    else:
        sweeps = len(search.winner.sweep_ratios)
        yield (
            f"  winner: {search.winner.profile.name}, {verdict_ratio(search.winner.verdict)} over the rule; ahead of "
            f"it in {search.winner.sweeps_ahead} of {sweeps} sweeps, fastest of all in {search.sweeps_fastest}"
        )


def _trial(trial: Trial, scope: str) -> str:
    latency = trial.cell.latencies.get(scope)
    if latency is None:
        return f"{trial.cell.outcome}: {trial.cell.reason}"
    told = [f"p50 {microseconds(latency.p50_seconds)} µs"]
    if trial.sweep_ratios:
        told.append(
            f"{verdict_ratio(trial.verdict)}, ahead in {trial.sweeps_ahead} of {len(trial.sweep_ratios)} sweeps"
        )
    if kernel := compiled_of(trial.cell):
        told.append(f"{kernel.registers_per_thread} registers, {kernel.spills} spills")
    verdict = trial.verdict
    told.append(f"{verdict.status}{f' ({verdict.mark})' if verdict.mark else ''}")
    return ", ".join([*told, verdict.reason] if verdict.reason else told)


def describe_validity(study: Study) -> Iterator[str]:
    yield f"{study.sessions} sessions of five sweeps on a GPU"
    for label, found in (("the same function under two names", study.same), ("controls of other runs", study.controls)):
        yield f"  {label}: {_self_comparison(found)}"
    for case, found in study.by_case.items():
        yield f"    {case:34} {_self_comparison(found)}"
    for power in study.power:
        yield (
            f"  {power.known_ratio:.2f}x: {power.trials} trials, {power.right} right verdicts, {power.withheld} "
            f"withheld as noise, {power.excluding_one} intervals exclude 1, {power.covering} hold the ratio"
        )
    for repeat in study.repeats:
        gpus = f"on {repeat.gpus} GPUs of one model"
        yield f"  {repeat.experiment}: {repeat.runs} runs of {repeat.sources} states of the source, {gpus}"
        yield (
            f"    {repeat.comparisons} claims at cases: {len(repeat.flips)} flipped, {len(repeat.changed)} changed, "
            f"{len(repeat.disjoint)} with intervals that do not meet"
        )
        yield (
            f"    p50 of {repeat.within} of {repeat.cells} cells within 1 %, "
            f"at most {per_cent(repeat.largest_deviation, 2)} off ({repeat.largest_at})"
        )
        for told, places in (("flipped", repeat.flips), ("changed", repeat.changed), ("apart", repeat.disjoint)):
            yield from (f"    {told}: {place}" for place in places)
    for agreement in study.agreements:
        times = ", ".join(f"{name} {microseconds(seconds)}" for name, seconds in agreement.seconds.items())
        yield f"  {agreement.case} {agreement.profile}: device_cold {microseconds(agreement.p50_seconds)}; {times} µs"


def _self_comparison(found: SelfComparison) -> str:
    return f"{found.comparisons} comparisons, {found.supported} supported, {found.excluding_one} intervals exclude 1"
