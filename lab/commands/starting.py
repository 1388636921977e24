"""`lab init`, `list`, `check` and `doctor`: a new project, what it defines, whether that is right."""

import argparse
import math
from pathlib import Path

from lab.commands.adding import Add
from lab.commands.runs import say, tell, tell_lines
from lab.terminal import printable

USUAL_SECONDS = 300.0  # of a profile in `lab check`: enough for a compiler that tries many configurations
MOST_SECONDS = 86_400


def add_commands(add: Add) -> None:
    sub = add("init", init, "make a folder a project of the lab: settings, an example and two workflows")
    sub.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: this one")
    listing = add("list", show_experiments, "show the experiments, their cases, profiles and claims")
    listing.add_argument("experiments", nargs="*", metavar="NAME", help="experiments to show (default: every one)")
    checking = add("check", check, "run every profile on tiny shapes against its reference; on a GPU, or interpreted")
    checking.add_argument("experiments", nargs="*", metavar="NAME", help="experiments to check (default: every one)")
    checking.add_argument(
        "--seconds", type=_seconds, default=USUAL_SECONDS, metavar="S",
        help="the longest that a profile may take, its compilation included; then it is stopped, and has failed "
        "(default: %(default)g)",
    )  # fmt: skip
    add("doctor", doctor, "say what this machine can measure, and what it lacks")


def init(options: argparse.Namespace) -> None:
    from lab.starter import start_project

    for line in start_project(Path(options.folder)):
        say(line)


def show_experiments(options: argparse.Namespace) -> None:
    from lab.definition.catalogue import choose_experiments, load_experiments, refuse_none, sound_experiments
    from lab.overview import describe_experiment

    for experiment in choose_experiments(options.experiments) if options.experiments else sound_experiments():
        tell_lines(describe_experiment(experiment))
    if not options.experiments:
        refuse_none(load_experiments())  # what could not be shown is refused


def check(options: argparse.Namespace) -> int:
    from lab.check_supervisor import Cell, check_apart

    def begin(cell: Cell) -> None:
        experiment, case, profile = map(printable, cell)
        print(f"{experiment}  {case}  {profile:24} ", end="", flush=True)

    wrong = 0
    for checked in check_apart(options.experiments or ["all"], options.seconds, begin, _show):
        tell(f"{checked.outcome}: {checked.message}")
        tell_lines(f"    it printed: {line}" for line in checked.printed.splitlines())
        wrong += checked.outcome in ("wrong", "failed")
    return 1 if wrong else 0


def _show(printed: str) -> None:
    if printed:
        say(printed.rstrip("\n"))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted is a number above 0, and at most {MOST_SECONDS:,}")
    return seconds


def doctor(options: argparse.Namespace) -> None:
    from lab.doctor import examine

    tell_lines(examine())
