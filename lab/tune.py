"""`lab tune`: a search for launch configurations as a run, and what it found kept where the kernels look.

Where the budget does not allow for all configurations in every sweep, a run of one sweep goes before it, which
chooses who takes part; no verdict rests on its times.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.definition.catalogue import choose_experiments, load_tunables
from lab.definition.experiment import Experiment
from lab.definition.plan import Plan
from lab.definition.planning import make_plan
from lab.definition.search import Tunable, candidates, configuration_name, search_name
from lab.errors import PlanError, RunError
from lab.evidence.record import Machine
from lab.kernels.launch import gpu_name
from lab.kernels.tuned import VARIABLE, drop, keep, read_tuned, tuned_file
from lab.measured_once import Say, measured_once
from lab.overview import describe_search
from lab.verdict.judge import POLICY_VERSION, WITH_USABLE_RATIO
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.search import Search, searches

CELL_SECONDS = 1.2  # of one configuration in one sweep, with its share of loading, compiling and checking
FEWEST_FINALISTS = 4
SCREEN = "-screen"  # what the run id of the run that goes before ends in


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """What is to be searched, and what it may cost."""

    operator: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    scope: str
    sweeps: int
    run_id: str
    budget_seconds: float


def launch_by_rules() -> None:
    """From here on this process and its workers measure kernels as from a clean checkout; the record says so."""
    os.environ[VARIABLE] = ""


def launch_as_tuned() -> None:
    """From here on they measure kernels with what was found on this machine."""
    os.environ[VARIABLE] = str(tuned_file() or "")


def describe_request(request: SearchRequest) -> Iterator[str]:
    """What would be tried, and about how long it would take."""
    tunable = _tunable(request)
    for shape in request.shapes:
        configurations = candidates(tunable, shape, request.dtype)
        name = search_name(request.operator, shape, request.dtype, request.scope)
        yield f"{name}: the rule and {len(configurations)} others"
        yield from (f"  {configuration_name(configuration)}" for configuration in configurations)
    names = _names(request)
    seconds = _cost(choose_experiments(names), request.sweeps)
    if seconds > request.budget_seconds:
        yield f"all in one sweep first, for {request.sweeps} sweeps would take about {seconds:.0f} s; then the fastest"
    else:
        yield f"about {seconds:.0f} s in {request.sweeps} sweeps, and more where these leave intervals too wide"


def tune(request: SearchRequest, runs: Path, say: Say) -> Iterator[str]:
    """Measure, judge, keep or drop; lines for a reader. PlanError and RunError as for any run, and RunError where the
    file of what was found cannot be used: before anything is measured."""
    tunable, path = _tunable(request), tuned_file()
    _check(path)
    launch_by_rules()
    names = _names(request)
    if _cost(choose_experiments(names), request.sweeps) > request.budget_seconds:
        say("one sweep of all configurations, to choose who takes part")
        names = _finalists(measured_once(_plan(request.run_id + SCREEN, names, sweeps=1), runs, say), request)
    result = measured_once(_plan(request.run_id, names, request.sweeps), runs, say)
    for experiment in result.experiments:
        for search in searches(experiment):
            yield from describe_search(search, experiment.control(search.case.name, search.scope))
            yield _settled(search, tunable, result, path) if path else f"  not kept: {VARIABLE} is set to no file"


def settle(search: Search, tunable: Tunable, result: RunResult, path: Path) -> str:
    """Keep the winner for its class of shapes, or drop an entry that won once; what was done, in words."""
    case, machine = search.case, result.machine
    key = tunable.tuning.key(case.shape, case.dtype, gpu_of(machine))
    where = f"{case.op}, {key.shapes}, {case.dtype} on {key.gpu}"
    if search.winner is None:
        if not any(trial.verdict.status in WITH_USABLE_RATIO for trial in search.trials):
            return f"  nothing was fit to be judged; what was kept of {where} stays as it is"
        dropped = drop(path, key)
        return f"  the rule stays for {where}" + ("; an entry that no longer wins was removed" if dropped else "")
    name, speedup = search.winner.profile.name, search.winner.verdict.speedup
    assert speedup is not None, "what is supported was compared"
    (configuration,) = (c for c in candidates(tunable, case.shape, case.dtype) if configuration_name(c) == name)
    how = {
        "run_id": result.plan.run_id, "finished_utc": result.finished_utc, "scope": search.scope,
        "ratio": speedup.ratio, "low": speedup.low, "high": speedup.high, "sweeps": len(speedup.sweep_ratios),
        "sweeps_fastest": search.sweeps_fastest, "mark": search.winner.verdict.mark,
    }  # fmt: skip
    keep(path, key, configuration, how)
    return f"  kept for {where}, in {path}"


def _settled(search: Search, tunable: Tunable, result: RunResult, path: Path) -> str:
    try:
        return settle(search, tunable, result, path)
    except (ValueError, OSError) as problem:
        raise RunError(f"{problem}; what was measured is kept in run {result.plan.run_id!r}") from None


def gpu_of(machine: Machine) -> str:
    """The GPU as a kernel names it."""
    return gpu_name(machine.gpu, machine.multiprocessors)


def _tunable(request: SearchRequest) -> Tunable:
    known = load_tunables()
    if request.operator not in known:
        raise PlanError(f"no operator {request.operator!r} can be tuned; accepted are {list(known)}")
    return known[request.operator]


def _names(request: SearchRequest) -> list[str]:
    return [search_name(request.operator, shape, request.dtype, request.scope) for shape in request.shapes]


def _cost(experiments: Sequence[Experiment], sweeps: int) -> float:
    """Seconds, about."""
    return sum(len(experiment.profiles) + 1 for experiment in experiments) * sweeps * CELL_SECONDS


def _plan(run_id: str, names: Sequence[str], sweeps: int) -> Plan:
    return make_plan(
        run_id, choose_experiments(names), device="cuda", profiling=False, sweeps=sweeps, include=frozenset(),
        policy_version=POLICY_VERSION,
    )  # fmt: skip


def _finalists(screen: RunResult, request: SearchRequest) -> list[str]:
    """Searches of the fastest only, as many of each as the budget allows."""
    allowed = int(request.budget_seconds / (CELL_SECONDS * request.sweeps * len(request.shapes))) - 2
    return [
        search_name(
            request.operator, shape, request.dtype, request.scope,
            fastest(experiment, request.scope, max(FEWEST_FINALISTS, allowed)),
        )
        for experiment, shape in zip(screen.experiments, request.shapes, strict=True)
    ]  # fmt: skip


def fastest(experiment: ExperimentResult, scope: str, count: int) -> list[int]:
    """The places of so many candidates of a search, by p50. RunError where none was measured."""
    _, *rivals = experiment.plan.profiles
    (case,) = experiment.plan.included_cases
    times = {
        place: latency.p50_seconds
        for place, rival in enumerate(rivals)
        if (latency := experiment.cells[case.name, rival.name].latencies.get(scope))
    }
    if not times:
        raise RunError(f"{experiment.plan.name}: no configuration but the rule's could be measured")
    return sorted(sorted(times, key=lambda place: times[place])[:count])


def _check(path: Path | None) -> None:
    try:
        if path:
            read_tuned(path)
    except ValueError as problem:
        raise RunError(str(problem)) from None
