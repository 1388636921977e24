"""`lab init`, `list`, `check` and `doctor`: a new project, what it defines, whether that is right."""

import argparse
import os
from pathlib import Path

from lab.commands.adding import Add
from lab.commands.runs import say, tell_lines
from lab.definition.experiment import Case, Experiment, Profile


def add_commands(add: Add) -> None:
    sub = add("init", init, "make a folder a project of the lab: settings, an example and two workflows")
    sub.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: this one")
    listing = add("list", show_experiments, "show the experiments, their cases, profiles and claims")
    listing.add_argument("experiments", nargs="*", metavar="NAME", help="experiments to show (default: every one)")
    checking = add("check", check, "run every profile on tiny shapes against its reference; on a GPU, or interpreted")
    checking.add_argument("experiments", nargs="*", metavar="NAME", help="experiments to check (default: every one)")
    add("doctor", doctor, "say what this machine can measure, and what it lacks")


def init(options: argparse.Namespace) -> None:
    from lab.starter import start_project

    for line in start_project(Path(options.folder)):
        say(line)


def show_experiments(options: argparse.Namespace) -> None:
    from lab.definition.catalogue import choose_experiments, load_experiments, sound_experiments
    from lab.overview import describe_experiment

    for experiment in choose_experiments(options.experiments) if options.experiments else sound_experiments():
        tell_lines(describe_experiment(experiment))
    if not options.experiments:
        load_experiments()  # which refuses what could not be shown


def check(options: argparse.Namespace) -> int:
    from lab.worker.device import choose_device

    device = choose_device("auto")
    if device == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # which Triton reads when an experiment first imports it
    from lab.check import check as check_all
    from lab.definition.catalogue import choose_experiments, file_of
    from lab.definition.mistakes import refuse_mistakes

    experiments = choose_experiments(options.experiments or ["all"])
    refuse_mistakes(experiments, file_of)
    wrong = 0

    def begin(experiment: Experiment, case: Case, profile: Profile) -> None:
        print(f"{experiment.name}  {case.name}  {profile.name:24} ", end="", flush=True)

    for result in check_all(experiments, device, begin):
        print(f"{result.outcome}: {result.message}", flush=True)
        wrong += result.outcome in ("wrong", "failed")
    return 1 if wrong else 0


def doctor(options: argparse.Namespace) -> None:
    from lab.doctor import examine

    tell_lines(examine())
