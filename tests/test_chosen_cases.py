"""`--cases`: which cases of each experiment a run measures, through the command line."""

from pathlib import Path

import pytest
import torch
from factory import LARGE, SMALL, plan_of, records_of, small_experiment

from lab.cli import main, parser
from lab.commands.plan_of_options import plan_of as plan_of_options
from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.supervisor.resume import open_run
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import judged_run
from lab.website.pages.measure_again import live_command, run_command

NORMS, SOFTMAX = "normalization-fusion", "softmax-fusion"
CPU = ["--run-id", "try", "--device", "cpu", "--experiment"]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def chosen(*arguments: str) -> dict[str, list[str]]:
    """Names of the cases that a run with these options would measure, by experiment."""
    plan = plan_of_options(parser().parse_args(["plan", "--run-id", "try", *arguments]))
    return {each.name: [case.name for case in each.included_cases] for each in plan.experiments}


def names_of(experiment: str) -> list[str]:
    (chosen_one,) = choose_experiments([experiment])
    return [case.name for case in chosen_one.cases]


def test_all_is_every_case_and_first_is_one_of_each_experiment() -> None:
    every = {name: names_of(name) for name in (NORMS, SOFTMAX)}
    asked = ("--device", "cpu", "--experiment", NORMS, SOFTMAX, "--cases")
    assert chosen(*asked, "all") == every
    assert chosen(*asked, "first") == {name: names[:1] for name, names in every.items()}


def test_patterns_choose_by_name_also_what_a_flag_would_include_and_leave_other_experiments_out() -> None:
    arguments = (
        "--device",
        "cpu",
        "--experiment",
        NORMS,
        SOFTMAX,
        "--cases",
        "rmsnorm-4096x*",
        "--cases",
        "layernorm*",
    )
    assert chosen(*arguments) == {
        NORMS: [name for name in names_of(NORMS) if name.startswith(("rmsnorm-4096x", "layernorm"))]
    }
    assert "rmsnorm-4096x8192-float16" in chosen(*arguments)[NORMS]


def test_the_older_flags_still_choose_what_they_did(capsys: pytest.CaptureFixture[str]) -> None:
    flag = chosen("--device", "cpu", "--experiment", NORMS, "--include-rmsnorm-shape-sweep")
    assert flag == chosen("--device", "cpu", "--experiment", NORMS, "--cases", "all")
    with pytest.raises(SystemExit):
        main(["benchmark", "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert output.count("(the older form of --cases)") == 4


def test_of_a_gpus_ceilings_only_those_come_along_that_a_run_is_compared_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    copies = [f"copy-{rows}x262144-float32" for rows in (16, 32, 64)]  # 32, 64 and 128 MiB
    assert chosen("--experiment", NORMS, "--cases", "rmsnorm-[24]*x4096-*")[CEILINGS] == copies
    assert chosen("--experiment", "matmul-tiling")[CEILINGS][-4:] == names_of(CEILINGS)[-4:]  # products
    assert chosen("--experiment", NORMS, CEILINGS)[CEILINGS] == names_of(CEILINGS)
    assert chosen("--experiment", CEILINGS, "--cases", "first")[CEILINGS] == names_of(CEILINGS)[:1]
    assert main(["plan", "--experiment", NORMS, "--cases", "first"]) == 0
    assert "matmul-tf32-8192x8192x8192-float32 (--experiment gpu-ceilings)" in capsys.readouterr().out


def test_the_plan_shows_the_chosen_cases_and_how_the_others_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *CPU, NORMS, "--cases", "first"]) == 0
    output = capsys.readouterr().out
    assert f"  {NORMS}  {names_of(NORMS)[0]}: " in output
    assert f"{names_of(NORMS)[1]}: " not in output
    assert "(--cases all, --include-rmsnorm-shape-sweep)" in output


@pytest.mark.parametrize("command", ["plan", "run", "benchmark"])
def test_a_pattern_without_a_case_lists_the_nearest_names(
    command: str, capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    assert main([command, *CPU, NORMS, "--cases", "first", "rmsnorm-4096x819-float16"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "lab: --cases rmsnorm-4096x819-float16: no case of this run's experiments matches; "
        "the nearest are rmsnorm-4096x8192-float16, "
    )
    assert not runs.exists()


def test_cases_and_a_flag_cannot_both_choose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *CPU, NORMS, "--cases", "first", "--include-rmsnorm-shape-sweep"]) == 2
    assert "--include-rmsnorm-shape-sweep chooses cases too; give --cases alone" in capsys.readouterr().err


def test_a_run_is_resumed_with_the_same_cases_only(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    begun = parser().parse_args(["run", *CPU, NORMS, "--cases", "first"])
    directory = runs / "try"
    directory.mkdir(parents=True)
    open_run(plan_of_options(begun), directory)
    assert open_run(plan_of_options(begun), directory).cells == {}
    assert main(["run", *CPU, NORMS, "--cases", "rmsnorm-1024*"]) == 2
    message = capsys.readouterr().err
    assert "the plan differs from the one that this unfinished run began with; changed: " in message
    assert "cases[0].included (True → False)" in message


def test_a_case_that_was_not_chosen_says_how_it_is_measured_and_pages_give_the_choice_again() -> None:
    experiment = small_experiment()
    plan = plan_of("again", experiments=[experiment], include=(), cases={experiment.name: [LARGE.name]})
    (planned,) = plan.experiments
    assert planned.cases_chosen_by_name
    run = judge_run(plan, records_of(plan, {(LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): 40e-6}))
    left = run.experiments[0].cells[SMALL.name, "plain"]
    assert (left.outcome, left.reason) == ("not-planned", "needs --cases all")
    item = judged_run(run, digest="d" * 64)[0]
    for command in (live_command(item), run_command([item])):
        options = parser().parse_args(["benchmark", *command.replace("<run-id>", "again").split()[1:]])
        assert (options.cases, options.include) == ([LARGE.name], None)
