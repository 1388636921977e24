"""The command that a page gives to measure a run again: the options that the run was given, and no other."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from factory import LARGE, SMALL, machine, plan_of, records_of, small_experiment

from lab.cli import parser
from lab.definition.experiment import Case
from lab.kernels.tuned import VARIABLE
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.pages.measure_again import TUNED, live_command, run_command

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}


HUGE = dataclasses.replace(LARGE, shape=(8192, 8192), only_with="huge-sweep")


def item_of(on: Any = None, further: tuple[Case, ...] = (), **asked: Any) -> Judged:
    experiment = small_experiment(cases=(SMALL, LARGE, *further))
    plan = plan_of("again", experiments=[experiment], **{"include": (), **asked})
    return judged_run(judge_run(plan, records_of(plan, TIMES, on=on)), digest="d" * 64)[0]


def test_a_plain_run_is_asked_for_nothing_more() -> None:
    assert live_command(item_of()) == "./scripts/benchmark --run-id <run-id> --experiment doubling --sweeps 5"


def test_elsewhere_it_is_what_an_installed_lab_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    item = item_of(include=("large-sweep",), further=(HUGE,))
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    told = "lab benchmark --run-id <run-id> --experiment doubling --sweeps 5 --include large-sweep"
    assert live_command(item) == told


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({"profiling": True}, "--with-profiling"),
        ({"instruments": True}, "--with-instruments"),
        ({"include": ("large-sweep",)}, "--cases all"),
        ({"include": ("large-sweep",), "further": (HUGE,)}, "--include-large-sweep"),
        ({"sweeps": 9}, "--sweeps 9"),
        ({"device": "cpu"}, "--device cpu"),
        ({"on": machine(environment={TUNED: "(set)"})}, "--with-tuned"),
    ],
)
def test_an_option_stands_where_the_run_had_it_and_nowhere_else(asked: dict[str, Any], option: str) -> None:
    assert option in live_command(item_of(**asked))
    assert option not in live_command(item_of())


def test_the_command_of_a_run_names_its_experiments() -> None:
    assert " --experiment doubling --sweeps 5" in run_command([item_of()])


def test_what_was_never_measured_is_asked_for_by_name_alone() -> None:
    plan = plan_of("again", experiments=[small_experiment()], include=())
    assert live_command(not_measured(plan.experiments[0])).endswith("--experiment doubling")


def test_the_variable_of_tuned_launches_is_that_of_the_kernels() -> None:
    assert TUNED == VARIABLE


def test_the_command_line_takes_what_is_printed() -> None:
    item = item_of(profiling=True, instruments=True, sweeps=7)
    arguments = live_command(item).replace("<run-id>", "again").split()[1:]
    options = parser().parse_args(["benchmark", *arguments])
    assert (options.sweeps, options.with_profiling, options.with_instruments) == (7, "chosen", True)
    assert options.experiment == ["doubling"]
