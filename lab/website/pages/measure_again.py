"""The command that measures an experiment or a whole run again: exactly the options that it was given, as its plan and
its evidence have them."""

from collections.abc import Iterator, Sequence

from lab.definition.catalogue import ZOO
from lab.definition.experiment import CEILINGS
from lab.definition.plan import METRIC_SETS
from lab.project import project
from lab.website.data.judged import Judged
from lab.website.data.zoo_runs import is_screening

RUN_ID = "<run-id>"
TUNED = "LAB_TUNED"  # lab.kernels.tuned.VARIABLE, by a name that needs no PyTorch; not empty with --with-tuned


def live_command(shown: Judged) -> str:
    """What measures one experiment again as its run did; of what was never measured, what measures it at all."""
    if is_screening(shown):
        return _screening_command([shown])
    return _command([shown.plan.name], _options([shown]))


def run_command(run: Sequence[Judged]) -> str:
    """What measures the whole run again. The ceilings come with any other experiment, and are named only alone."""
    if is_screening(run[0]):
        return _screening_command(run)
    named = [item for item in run if item.plan.name != CEILINGS] or run
    return _command([item.plan.name for item in named], _options(named, whole=True))


def _screening_command(run: Sequence[Judged]) -> str:
    """What screens the same shapes again."""
    named = [item.name.removeprefix(ZOO).rpartition("-") for item in run]
    operators, sample = " ".join(operator for operator, _, _ in named), max(int(count) for _, _, count in named)
    sweeps = run[0].evidence["sweeps"]
    return f"{project().lab} zoo {operators} --sample {sample} --sweeps {sweeps} --run-id {RUN_ID}"


def _command(names: Sequence[str], options: Iterator[str]) -> str:
    return " ".join((project().script("benchmark"), "--run-id", RUN_ID, "--experiment", *names, *options))


def _options(named: Sequence[Judged], whole: bool = False) -> Iterator[str]:
    shown = named[0]
    evidence = shown.evidence
    if not evidence:
        return
    flags = {case.only_with for case in shown.plan.included_cases}
    if shown.on_cpu:
        yield "--device cpu"
    yield f"--sweeps {evidence['sweeps']}"
    if (evidence["gpus"] or 1) > 1:
        yield f"--gpus {evidence['gpus']}"
    if evidence["in_turn"]:
        yield "--in-turn"
    if any(item.plan.cases_chosen_by_name for item in named):
        yield " ".join(("--cases", *(case.name for item in named for case in item.plan.included_cases)))
    elif (flags - {""}) and all(case.included for item in named for case in item.plan.cases):
        yield "--cases all"
    else:
        include = "--include-" if project().is_the_labs_own else "--include "  # elsewhere flags are the project's
        yield from (include + flag for flag in evidence["include"] if whole or flag in flags)
    if shown.machine["environment"].get(TUNED):
        yield "--with-tuned"
    if evidence["profiling"]:
        full = evidence["metric_set"] != METRIC_SETS[0]
        yield f"--with-profiling {evidence['metric_set']}" if full else "--with-profiling"
    if evidence["instruments"]:
        yield "--with-instruments"
