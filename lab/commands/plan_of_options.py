"""The plan that the options of `lab benchmark`, `plan` and `run` ask for."""

import argparse
from collections.abc import Collection, Mapping, Sequence

from lab.definition.chosen_cases import chosen_cases
from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.plan import METRIC_SETS, Plan, Protocol
from lab.errors import PlanError
from lab.suggest import did_you_mean


def plan_of(options: argparse.Namespace) -> Plan:
    from lab.definition.catalogue import experiments_of_run, file_of
    from lab.definition.mistakes import refuse_mistakes
    from lab.definition.planning import make_plan
    from lab.verdict.judge import POLICY_VERSION
    from lab.website.wording.references import typed_figures

    device = device_of(options)
    experiments = experiments_of_run(options.experiment or (), device)
    refuse_mistakes(experiments, file_of, typed_figures(experiments))
    _refuse_flags(options.include or (), experiments)
    cases = _cases(options, experiments)
    return make_plan(
        options.run_id,
        [each for each in experiments if not options.cases or each.name in cases],
        device=device,
        profiling=options.with_profiling is not None,
        sweeps=options.sweeps if options.sweeps is not None else Protocol().sweeps,
        include=frozenset(options.include or ()),
        policy_version=POLICY_VERSION,
        instruments=options.with_instruments,
        metric_set=options.with_profiling or METRIC_SETS[0],
        cases=cases,
    )


def device_of(options: argparse.Namespace) -> str:
    """'cuda' or 'cpu'. The host that gives a cluster its orders may have no GPU itself."""
    from lab.cluster.choice import RAY
    from lab.worker.device import choose_device

    if options.executor == RAY and options.device != "cpu":
        return "cuda"
    return choose_device(options.device)


def _cases(options: argparse.Namespace, experiments: Sequence[Experiment]) -> Mapping[str, Collection[str]]:
    """Names of the cases to measure, by experiment: those that `--cases` chooses, and the ceilings that they need,
    unless the ceilings were asked for. Flags choose those of any other experiment. PlanError where both choose."""
    if options.cases and options.include:
        flags = " and ".join(f"--include-{flag}" for flag in options.include)
        raise PlanError(f"--cases {' '.join(options.cases)}: {flags} chooses cases too; give --cases alone")
    along = [each for each in experiments if each.name == CEILINGS and CEILINGS not in (options.experiment or ())]
    asked = [each for each in experiments if each not in along]
    cases = chosen_cases(asked, options.cases) if options.cases else {}
    return cases | {each.name: _needed(each, asked, options, cases) for each in along}


def _needed(
    ceilings: Experiment, asked: Sequence[Experiment], options: argparse.Namespace, cases: Mapping[str, Collection[str]]
) -> Collection[str]:
    from lab.definition.planning import planned
    from lab.verdict.ceilings import needed_cases

    include = frozenset(options.include or ())
    measured = [each for each in asked if not options.cases or each.name in cases]
    return needed_cases(
        planned(ceilings, frozenset()), [planned(each, include, cases.get(each.name)) for each in measured]
    )


def _refuse_flags(flags: Sequence[str], experiments: Sequence[Experiment]) -> None:
    """PlanError for a flag that includes no case of any of the project's experiments."""
    from lab.definition.catalogue import sound_experiments

    known = {case.only_with for each in (*sound_experiments(), *experiments) for case in each.cases} - {""}
    for flag in flags:
        if flag not in known:
            accepted = f"accepted are {sorted(known)}{did_you_mean(flag, known)}"
            raise PlanError(f"--include-{flag}: no case is only with it; {accepted}")
