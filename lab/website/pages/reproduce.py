"""What measures a run again: exactly the options that it was given, as its plan and its evidence have them."""

from collections.abc import Iterator, Sequence

from lab.definition.experiment import CEILINGS
from lab.definition.plan import METRIC_SETS
from lab.website.data.judged import Judged

RUN_ID = "<run-id>"
TUNED = "LAB_TUNED"  # lab.kernels.tuned.VARIABLE, by a name that needs no PyTorch; not empty with --with-tuned


def live_command(shown: Judged) -> str:
    """What measures one experiment again as its run did; of what was never measured, what measures it at all."""
    return _command([shown.plan.name], _options(shown))


def run_command(run: Sequence[Judged]) -> str:
    """What measures the whole run again. The ceilings come with any other experiment, and are named only alone."""
    names = [item.plan.name for item in run]
    return _command([name for name in names if name != CEILINGS] or names, _options(run[0], whole=True))


def _command(names: Sequence[str], options: Iterator[str]) -> str:
    return " ".join(("./scripts/benchmark", "--run-id", RUN_ID, "--experiment", *names, *options))


def _options(shown: Judged, whole: bool = False) -> Iterator[str]:
    evidence = shown.evidence
    if not evidence:
        return
    flags = {case.only_with for case in shown.plan.included_cases}
    if shown.on_cpu:
        yield "--device cpu"
    yield f"--sweeps {evidence['sweeps']}"
    yield from (f"--include-{flag}" for flag in evidence["include"] if whole or flag in flags)
    if shown.machine["environment"].get(TUNED):
        yield "--with-tuned"
    if evidence["profiling"]:
        full = evidence["metric_set"] != METRIC_SETS[0]
        yield f"--with-profiling {evidence['metric_set']}" if full else "--with-profiling"
    if evidence["instruments"]:
        yield "--with-instruments"
