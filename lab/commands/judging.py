"""`lab judge`, `compare`, `alarms`, `validity`, `simulate`: verdicts, a gate, alarms, and how far to trust them."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.commands.adding import RUN, Add
from lab.commands.runs import all_runs, directory_of, say, tell_lines
from lab.errors import LabError, RunError
from lab.project import is_checkout

if TYPE_CHECKING:
    from lab.verdict.results import RunResult

VERDICTS = ("supported", "not-refuted", "not-rejected")  # that can be required: lab/verdict/required.py
PAIRS = 4000  # of runs, or series of nights, that are simulated of each kind


def add_commands(add: Add) -> None:
    sub = add("judge", judge, "print the verdicts of run directories")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    sub.add_argument(
        "--require", choices=VERDICTS, metavar="VERDICT",
        help=f"exit with 1 unless every headline claim has it: {' or '.join(VERDICTS)}",
    )  # fmt: skip
    gate = add("compare", compare, "say whether a newer run is slower than an older one, beyond what both can tell")
    gate.add_argument("older", metavar="OLD", help=RUN)
    gate.add_argument("newer", metavar="NEW", help=RUN)
    gate.add_argument(
        "--fail-if-slower", type=_share, default=0.03, metavar="SHARE", help="such as 3%% or 0.03; default: 3%%"
    )
    gate.add_argument("--markdown", metavar="FILE", help="append a pull request's summary to this file; - prints it")
    gate.epilog = "Exit status: 0 no regression, 1 a regression, 3 the runs cannot tell, 2 they cannot be compared."
    nightly = add("alarms", alarms, "say which cases became faster or slower, each against its own past on its board")
    nightly.add_argument(
        "runs", nargs="*", metavar="RUN", help=f"{RUN}; default: every published run and every finished one in runs/"
    )
    nightly.epilog = "Exit status: 1 where the newest run of a case on a board confirmed that it became slower, else 0."
    sub = add("validity", validity, "print the lab's own error rates, from runs that test it and from repeated runs")
    sub.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    sub.add_argument("--one-code", action="store_true", help="take the runs for repeats although their sources differ")
    sub = add("simulate", simulate, "count how often the rules err, on simulated runs whose truth is known")
    sub.add_argument(
        "--runs", type=int,
        help="comparisons of each kind and truth (default 12000); with --gate or --alarms pairs of runs or series of "
        "nights (default 4000)",
    )  # fmt: skip
    sub.add_argument("--seed", type=int, default=2026, help="the same seed gives the same table (default 2026)")
    one = sub.add_mutually_exclusive_group()
    one.add_argument("--gate", action="store_true", help="simulate `lab compare` instead of verdicts")
    one.add_argument("--alarms", action="store_true", help="simulate `lab alarms` over months of nightly runs")
    one.add_argument("--keep", action="store_true", help="write the table that the policy page shows")


def judge(options: argparse.Namespace) -> int:
    from lab.verdict.judge_run import load_run
    from lab.verdict.required import lacking_verdicts

    lacking = []
    for name in options.runs:
        run = load_run(directory_of(name))
        tell_verdicts(run)
        if options.require:
            lacking += list(lacking_verdicts(run, options.require))
    for line in lacking:
        say(line)
    return 1 if lacking else 0


def compare(options: argparse.Namespace) -> int:
    from lab.gate_report import EXIT_STATUS, describe_gate, markdown
    from lab.verdict.gate import compare_runs, outcome_of
    from lab.verdict.judge_run import load_run

    older, newer = (load_run(directory_of(name)) for name in (options.older, options.newer))
    limit = options.fail_if_slower
    changes = compare_runs(older, newer, limit)
    if options.markdown == "-":
        print(markdown(older, newer, changes, limit), end="")
    else:
        tell_lines(describe_gate(older, newer, changes, limit))
    if options.markdown not in (None, "-"):
        try:
            with Path(options.markdown).open("a", encoding="utf-8") as file:
                file.write(markdown(older, newer, changes, limit))
        except OSError as refusal:
            raise LabError(f"{options.markdown}: cannot be written: {refusal.strerror}") from None
    return EXIT_STATUS[outcome_of(changes)]


def _share(text: str) -> float:
    """'3%' and '0.03' are three per cent."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; accepted are 3%, 0.5% or 0.03, above 0 and below 100%")
    return share


def tell_verdicts(run: "RunResult") -> None:
    from lab.overview import describe_verdicts

    tell_lines(describe_verdicts(run))


def alarms(options: argparse.Namespace) -> int:
    from lab.alarm_report import describe_alarms, newest_is_slower
    from lab.verdict.alarm import Night, Series, follow, nights_of
    from lab.verdict.judge_run import load_run

    measured: dict[tuple[str, str], list[tuple[Series, Night]]] = {}  # a published run may lie in runs/ too
    for directory in [directory_of(name) for name in options.runs] or all_runs():
        try:
            run = load_run(directory)  # one at a time, because months of samples do not fit into memory
        except RunError as problem:
            if options.runs:
                raise
            say(f"left out: {problem}")  # one that has just begun, say
            continue
        if run.finished_utc:
            measured[run.start.started_utc, run.plan.run_id] = list(nights_of(run))
    if not measured:
        raise RunError("none of these runs has ended, and alarms rest on whole runs; finish one first")
    followed = follow(night for _, nights in sorted(measured.items(), key=lambda item: item[0]) for night in nights)
    tell_lines(describe_alarms(followed, [run_id for _, run_id in sorted(measured)]))
    return 1 if newest_is_slower(followed) else 0


def validity(options: argparse.Namespace) -> None:
    from lab.validity_report import describe_runs
    from lab.verdict.judge_run import load_run

    runs = [load_run(directory_of(name)) for name in options.runs]
    for run in runs:
        if run.machine.device != "cuda":
            say(f"{run.plan.run_id}: left out, it was measured on the CPU")
    if all(run.machine.device != "cuda" for run in runs):
        raise RunError("no run of a GPU among them; docs/verdicts.md says how the lab is tested on one")
    tell_lines(describe_runs(runs, options.one_code))


def simulate(options: argparse.Namespace) -> int:
    from lab.alarm_report import describe_alarm_row
    from lab.gate_report import describe_gate_row
    from lab.verdict.alarm_simulation import simulate_alarms
    from lab.verdict.gate_simulation import simulate_gate

    if options.runs is not None and options.runs < 1:
        raise LabError(f"--runs is {options.runs}; accepted is 1 or more")
    if options.gate:
        return _tell_rows(simulate_gate(options.runs or PAIRS, options.seed), describe_gate_row)
    if options.alarms:
        return _tell_rows(simulate_alarms(options.runs or PAIRS, options.seed), describe_alarm_row)
    return _simulate_verdicts(options)


def _tell_rows(rows: Iterable[Any], describe: Callable[[Any], str]) -> int:
    """Each row of a simulation as soon as it is counted; 1 where one misses its goal."""
    missed = False
    for row in rows:
        missed = missed or row.missed_goal
        print(describe(row), flush=True)
    return int(missed)


def _simulate_verdicts(options: argparse.Namespace) -> int:
    from lab.validity_report import describe_simulation
    from lab.verdict.simulated import COMPARISONS, PATH, missed, save, simulated

    if options.keep and not is_checkout():
        raise LabError("--keep: the table belongs to the lab's own repository, and this lab is an installed package")
    table = simulated(options.runs or COMPARISONS, options.seed)
    tell_lines(describe_simulation(table))
    if options.keep:
        save(table)
        say(f"kept: {PATH}")
    return 1 if missed(table.rows) else 0
