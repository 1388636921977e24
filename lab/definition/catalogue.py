"""The one place where the lab meets the author's experiments."""

from collections.abc import Sequence

from lab.definition.experiment import Experiment
from lab.errors import PlanError


def load_experiments() -> tuple[Experiment, ...]:
    from experiments import EXPERIMENTS

    return EXPERIMENTS


def choose_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The named experiments in the lab's order; 'all' names every one but the lab's tests of itself."""
    experiments = load_experiments()
    known = [experiment.name for experiment in experiments]
    for name in names:
        if name != "all" and name not in known:
            raise PlanError(f"no experiment {name!r}; accepted are 'all' and {known}")
    return tuple(e for e in experiments if e.name in names or ("all" in names and not e.self_test))
