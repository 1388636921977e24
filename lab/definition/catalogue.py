"""The one place where the lab meets the author's experiments, and the publications that it audits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.publication import Publication
from lab.definition.search import Tunable, search_of
from lab.errors import PlanError
from lab.suggest import did_you_mean


def load_experiments() -> tuple[Experiment, ...]:
    from experiments import EXPERIMENTS

    return EXPERIMENTS


def load_tunables() -> Mapping[str, Tunable]:
    """By the operator's name, what `lab tune` can search."""
    from experiments.tunables import TUNABLES

    return {tunable.operator.name: tunable for tunable in TUNABLES}


@dataclass(frozen=True, slots=True)
class Zoo:
    """What `lab zoo` asks of the author's zoo: experiments by name, their names, and whose standing is told."""

    operators: tuple[str, ...]
    experiment: Callable[[str], Experiment | None]
    names: Callable[[tuple[str, ...], int], list[str]]
    profile: str
    level: float  # the ratio to the best rival from which on the profile counts as level with it


def load_zoo() -> Zoo:
    from experiments.zoo import operators
    from experiments.zoo_screening import LAB, LEVEL, zoo_experiment, zoo_names

    return Zoo(operators(), zoo_experiment, zoo_names, LAB, LEVEL)


def load_audits() -> tuple[Publication, ...]:
    from experiments.audits import AUDITS

    return AUDITS


def choose_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The named experiments in the lab's order, then searches and samples of the zoo; 'all' names every one but the
    lab's tests of itself.

    A search or a sample is not in any list: its name says what it is.
    """
    experiments = load_experiments()
    known = [experiment.name for experiment in experiments]
    searches = [name for name in dict.fromkeys(names) if name not in known and name.startswith("tune-")]
    samples = {name: load_zoo().experiment(name) for name in names if name not in known and name.startswith("zoo-")}
    sampled = {name: experiment for name, experiment in samples.items() if experiment}
    for name in names:
        if name not in ("all", *known, *searches, *sampled):
            raise PlanError(f"no experiment {name!r}; accepted are 'all' and {known}{did_you_mean(name, known)}")
    chosen = [e for e in experiments if e.name in names or ("all" in names and not e.self_test)]
    return (*chosen, *(search_of(name, load_tunables()) for name in searches), *sampled.values())


def _first_look(device: str) -> str:
    experiments = load_experiments()
    return next((each for each in experiments if each.for_cpu and device == "cpu"), experiments[0]).name


def experiments_of_run(names: Sequence[str], device: str) -> tuple[Experiment, ...]:
    """What a run measures that is asked for these: on a GPU its ceilings too, beside any that is no test of the lab.

    Asked for none it takes one, for a first look: on a GPU the lab's first, on a CPU the first of those for a CPU, for
    most cases are of a size that keeps a GPU busy for microseconds and a CPU for minutes. 'all' leaves those for a CPU
    out on a GPU.

    PlanError where the ceilings of a GPU are asked of a CPU; 'all' leaves them out there.
    """
    chosen = choose_experiments(names or [_first_look(device)])
    if device == "cuda":
        wanted = [experiment.name for experiment in chosen if experiment.name in names or not experiment.for_cpu]
        if not all(experiment.self_test for experiment in chosen):
            wanted.append(CEILINGS)
        return choose_experiments(wanted)
    if CEILINGS in names:
        raise PlanError(f"{CEILINGS!r} measures what a GPU allows, and this run measures the CPU; ask for another")
    return tuple(experiment for experiment in chosen if experiment.name != CEILINGS)
