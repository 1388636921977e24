"""`lab zoo`: the lab's kernels against their rivals over a sample of the shapes of public models, as a run."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from lab.definition.catalogue import choose_experiments, load_zoo
from lab.definition.plan import MOST_SWEEPS_ASKED, Plan
from lab.definition.planning import make_plan
from lab.errors import PlanError
from lab.measured_once import Say, measured_once
from lab.project import project
from lab.tune import launch_by_rules
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.results import ExperimentResult
from lab.verdict.standing import Standing, bar_of, spread, standings, unmeasured

WORST = 10  # cases that are listed
CLOSE = 0.04  # a screened ratio is this uncertain: below its bar times 1 + CLOSE the usual protocol decides
BAR_CHARACTERS = 40  # of the chart, for all cases
EDGES = (0.0, 0.9, 0.98, 1.0, 1.02, 1.1, 1.5, 1000.0)  # of the chart's bars, as ratios


@dataclass(frozen=True, kw_only=True, slots=True)
class Tour:
    """What to screen: operators (none means all of the zoo), shapes of each, and the number of fresh processes.

    decide: the sweeps of a second run by the usual protocol, of the shapes where the screening is close; 0 is none.
    """

    operators: tuple[str, ...]
    sample: int
    sweeps: int
    run_id: str
    decide: int = 0


def describe_tour(tour: Tour) -> Iterator[str]:
    """What would be measured. PlanError for options that a run would refuse."""
    names = _names(tour)
    _screening(tour, names)
    for experiment in choose_experiments(names):
        profiles = ", ".join(profile.name for profile in experiment.profiles)
        yield f"{experiment.name}: {len(experiment.cases)} shapes by {profiles}"
        yield from (f"  {case.name}: {case.description}" for case in experiment.cases)
    if tour.decide:
        yield f"then those that are close or lost, in {tour.decide} sweeps by the usual protocol"


def screen(tour: Tour, runs: Path, say: Say) -> Iterator[str]:
    """Measure what is not yet measured, and tell how the kernels stand. PlanError and RunError as for any run."""
    launch_by_rules()
    screened = measured_once(_screening(tour, _names(tour)), runs, say).experiments
    for experiment in screened:
        yield from describe_standing(experiment)
    if not tour.decide:
        return
    close = {each.plan.name: cases for each in screened if (cases := close_cases(each))}
    yield f"close: {sum(map(len, close.values()))} shapes, in {tour.decide} sweeps by the usual protocol"
    for experiment in measured_once(_deciding(tour, close), runs, say).experiments if close else ():
        yield from describe_standing(experiment)


def close_cases(experiment: ExperimentResult) -> tuple[str, ...]:
    """The cases whose ratio in some scope is below their bar, or above it by less than CLOSE."""
    return tuple(
        sorted(
            {
                standing.case
                for scope in experiment.plan.scopes
                for standing in standings(experiment, scope)
                if standing.ratio < standing.bar * (1 + CLOSE)
            }
        )
    )


def describe_standing(experiment: ExperimentResult) -> Iterator[str]:
    """The distribution of ratios in every scope, drawn, and the worst ten."""
    for scope in experiment.plan.scopes:
        ranked = standings(experiment, scope)
        yield f"{experiment.plan.name}, {scope}"
        if missing := unmeasured(experiment, scope):
            yield f"  no time of the lab's kernel at {len(missing)} shapes, such as {missing[0]}"
        if not ranked:
            yield "  no shape at which both the lab's kernel and a rival were measured"
            continue
        summary, bar = spread(ranked, len(missing)), bar_of(experiment.plan)
        yield (
            f"  best rival's p50 over the lab's at {len(ranked)} shapes: smallest {summary.smallest:.3f}, at 5 % "
            f"{summary.low:.3f}, median {summary.median:.3f}; of {summary.cases} shapes {summary.bar_share:.0%} at "
            f"{bar} or above, {summary.ahead_share:.0%} ahead"
        )
        yield from _bars(ranked)
        yield from (_line(standing) for standing in ranked[:WORST])


def _bars(standings: tuple[Standing, ...]) -> Iterator[str]:
    for low, high in pairwise(EDGES):
        count = sum(low <= standing.ratio < high for standing in standings)
        name = f"below {high}" if low == EDGES[0] else f"{low} and more" if high == EDGES[-1] else f"{low} to {high}"
        yield f"  {name:14} {count:4} {'█' * round(BAR_CHARACTERS * count / len(standings))}".rstrip()


def _line(standing: Standing) -> str:
    return (
        f"  {standing.ratio:.3f}  {standing.case}: {standing.seconds * 1e6:.2f} µs, {standing.rival} "
        f"{standing.rival_seconds * 1e6:.2f} µs"
    )


def _names(tour: Tour) -> list[str]:
    zoo = load_zoo()
    if not zoo.operators:
        raise PlanError(f"this project has no zoo: {project().experiments} holds no zoo.py and zoo_screening.py")
    for operator in tour.operators:
        if operator not in zoo.operators:
            raise PlanError(f"no operator {operator!r} is in the zoo; accepted are {list(zoo.operators)}")
    if tour.sample < 1:
        raise PlanError(f"--sample is {tour.sample}; accepted are numbers from 1")
    if not 0 <= tour.decide <= MOST_SWEEPS_ASKED:
        raise PlanError(f"--decide is {tour.decide}; accepted are 0 to {MOST_SWEEPS_ASKED}")
    return zoo.names(tour.operators, tour.sample)


def _screening(tour: Tour, names: list[str]) -> Plan:
    """With a third of the usual samples, since it looks for losses larger than CLOSE."""
    if tour.decide:
        _deciding(tour, dict.fromkeys(names, ()))  # refused now, and not when the screening is over
    plan = make_plan(
        tour.run_id, choose_experiments(names), device="cuda", profiling=False, sweeps=tour.sweeps,
        include=frozenset(), policy_version=POLICY_VERSION,
    )  # fmt: skip
    return replace(plan, protocol=replace(plan.protocol, rounds=4, block=6, cell_seconds=0.05, warmup_seconds=0.02))


def _deciding(tour: Tour, cases: Mapping[str, Collection[str]]) -> Plan:
    return make_plan(
        f"{tour.run_id}-close", choose_experiments(list(cases)), device="cuda", profiling=False, sweeps=tour.decide,
        include=frozenset(), policy_version=POLICY_VERSION, cases=cases,
    )  # fmt: skip
