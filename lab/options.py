"""What `lab plan`, `run`, `benchmark`, `tune` and `zoo` accept on the command line."""

import argparse
from collections.abc import Sequence
from typing import Any

from lab.definition.dtypes import ITEMSIZES, SHORT_DTYPES
from lab.definition.plan import METRIC_SETS
from lab.definition.search import SEARCHED_SCOPES
from lab.project import project

INCLUDES = {
    "rmsnorm-shape-sweep": "measure every case of normalization-fusion, not only its first four",
    "all-shapes": "measure every case of the other fusion experiments, not only those of their first answers",
    "full-validity": "measure every case of measurement-validity: for a GPU, and for many sweeps",
}
OLDER_FORM = "(the older form of --cases)"
TUNE = (
    "Measure the configurations that a kernel can be launched with against the one that its rule chooses, under the "
    "protocol of every run: fresh processes, interleaved, correctness first, an A/A control. The fastest whose claim "
    "to be 2 % faster than the rule is supported wins, and is kept for this GPU, class of shapes, dtype, version of "
    "Triton and source of the kernel; within noise there is no winner, and the rule stays. Where all configurations "
    "in all sweeps would exceed the budget, one sweep of all comes first and chooses the finalists. The run can be "
    "judged, previewed and published like any other."
)


def add_plan_options(sub: argparse.ArgumentParser, run_id: str | None = None) -> None:
    """`run_id` is what is taken where none is given; None makes it an error to give none."""
    sub.add_argument(
        "--run-id", required=run_id is None, default=run_id, metavar="X",
        help="name of the run: a plain slug; names runs/X",
    )  # fmt: skip
    sub.add_argument(
        "--experiment", nargs="+", action="extend", metavar="NAME",
        help="experiments to measure, or 'all' but the lab's tests of itself (default: the project's first, on a CPU "
        "the first of those that are for_cpu, if there are any); a GPU's ceilings, if it has them, come along",
    )  # fmt: skip
    sub.add_argument(
        "--with-profiling", nargs="?", const=METRIC_SETS[0], choices=METRIC_SETS, metavar="chosen|full",
        help="Nsight Compute counters after timing, in a pass of its own: the chosen list, which the pages show "
        "(about 2 s a cell), or all that ncu knows, to be opened in its own viewer (three times as long)",
    )  # fmt: skip
    sub.add_argument("--with-instruments", action="store_true", help="readings by do_bench and nvbench after timing")
    sub.add_argument(
        "--with-tuned", action="store_true",
        help="launch the lab's kernels as `lab tune` found best on this machine, not by their rules",
    )  # fmt: skip
    _add_case_options(sub)
    sub.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: cuda where there is one"
    )
    sub.add_argument(
        "--sweeps", type=int, metavar="K",
        help="fresh processes, 1 to 60 (default: 5, and up to 9 of what is compared with a compiler or is not precise "
        "enough); with fewer than 3 nothing is judged",
    )  # fmt: skip


def _add_case_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--cases", nargs="+", action="extend", metavar="all|first|PATTERN",
        help="which cases of each experiment to measure: every one, the first, or those whose names match a pattern "
        "such as 'rmsnorm-*-float16' (default: all but those that are only_with a flag)",
    )  # fmt: skip
    if project().is_the_labs_own:
        for flag, about in INCLUDES.items():
            sub.add_argument(
                f"--include-{flag}", dest="include", action="append_const", const=flag, help=f"{about} {OLDER_FORM}"
            )
    sub.add_argument(
        "--include", action="append", metavar="FLAG",
        help=f"measure the cases that are only_with this flag too; --include-FLAG says the same {OLDER_FORM}",
    )  # fmt: skip


def add_gpu_options(sub: argparse.ArgumentParser) -> None:
    """Of a run on several GPUs."""
    sub.add_argument(
        "--gpus", type=int, metavar="K",
        help="measure on K GPUs at once: each sweep is dealt to them in parts, whole cases each (default: one GPU of "
        "this host; with --executor ray every GPU of the cluster that is free)",
    )  # fmt: skip
    sub.add_argument(
        "--executor", choices=("local", "ray"), default="local",
        help="whose GPUs: of this host, or of a Ray cluster, for which the extra 'ray' is needed (default: local)",
    )  # fmt: skip
    sub.add_argument(
        "--ray-address", default="", metavar="ADDRESS",
        help="the cluster to join, as in HOST:6379, or auto (default: Ray is started on this host for this run)",
    )  # fmt: skip
    sub.add_argument(
        "--gpu-model", default="", metavar="NAME",
        help="use the GPUs with this in their name, as in H100: a run has GPUs of one model",
    )  # fmt: skip
    sub.add_argument(
        "--in-turn", action="store_true",
        help="let one GPU measure at a time, to see whether neighbours disturb one another",
    )  # fmt: skip


def add_host_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--host", metavar="[USER@]HOST[:FOLDER]",
        help="measure there: copy the tree by rsync over ssh, run, follow, bring the run back; a lost connection ends "
        "nothing, and the same command joins a run that goes on (FOLDER: default kernel-evidence-lab/PROJECT there)",
    )  # fmt: skip
    sub.add_argument(
        "--host-python", default="", metavar="PYTHON",
        help="the interpreter there that has what is needed, as LAB_PYTHON is here (default: the scripts install one)",
    )  # fmt: skip
    sub.add_argument("--up", default="", metavar="CMD", help="run CMD here first, to start a rented box")
    sub.add_argument(
        "--down", default="", metavar="CMD", help="run CMD here at the end, whatever happens, to stop a rented box"
    )
    sub.add_argument("--ssh", default="ssh", metavar="CMD", help="the ssh to use, as in 'ssh -p 2222'")


def without_host_options(arguments: Sequence[str]) -> list[str]:
    """The arguments of `benchmark` that a box is given."""
    hosts = argparse.ArgumentParser(add_help=False)
    add_host_options(hosts)
    hosts.add_argument("--dry-run", action="store_true")
    return hosts.parse_known_args(arguments)[1]


def with_include_flags(arguments: Sequence[str]) -> list[str]:
    """`--include-big` as `--include=big`: a project makes up flags of its own."""
    short = "--include-"
    return [f"--include={each.removeprefix(short)}" if each.startswith(short) else each for each in arguments]


def add_tune_options(sub: argparse.ArgumentParser) -> None:
    sub.description = TUNE
    sub.add_argument("operator", metavar="OPERATOR", help="one of experiments/tunables.py, such as rmsnorm")
    sub.add_argument(
        "--shape",
        required=True,
        action="append",
        type=_shape,
        metavar="MxN",
        help="in the form that the operator takes, for rope BxHxSxD; may be repeated",
    )
    add_dtype(sub, required=True)
    sub.add_argument("--scope", choices=SEARCHED_SCOPES, default=SEARCHED_SCOPES[0], help="default: %(default)s")
    sub.add_argument("--sweeps", type=int, default=5, metavar="K", help="default: 5; 3 gives a provisional winner")
    sub.add_argument("--budget-seconds", type=float, default=600.0, metavar="S", help="about; default: %(default)s")
    sub.add_argument("--run-id", metavar="X", help="default: made of the operator and the time")
    sub.add_argument("--dry-run", action="store_true", help="show what would be tried and stop; needs no GPU")


def add_zoo_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("operators", nargs="*", metavar="OPERATOR", help="of experiments/zoo.py (default: every one)")
    sub.add_argument("--sample", type=int, default=24, metavar="N", help="shapes of each; default: %(default)s")
    sub.add_argument(
        "--sweeps",
        type=int,
        default=1,
        metavar="K",
        help="fresh processes; default: 1, which screens and gives no verdicts",
    )
    sub.add_argument(
        "--decide", type=int, default=0, metavar="K",
        help="then measure the shapes that are close or lost in K sweeps, by the usual protocol, as run X-close",
    )  # fmt: skip
    sub.add_argument("--run-id", metavar="X", help="default: made of the time")
    sub.add_argument("--dry-run", action="store_true", help="show what would be measured and stop; needs no GPU")


def add_dtype(sub: argparse.ArgumentParser, **how: Any) -> None:
    """`--dtype`, by its full name or as people shorten it."""
    sub.add_argument(
        "--dtype",
        type=lambda text: SHORT_DTYPES.get(text, text),
        choices=tuple(ITEMSIZES),
        metavar="DTYPE",
        help=f"{', '.join(ITEMSIZES)}; {', '.join(SHORT_DTYPES)} for short",
        **how,
    )


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(size) for size in text.split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape; accepted are sizes from 1 joined by x, as in 4096x4096"
        )
    return shape
