"""The command line: a clear line and exit code 2 for what a user got wrong, and no traceback."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from factory import SWEEP_FLAG, measured_run, plan_of, records_of, write_run
from waiting import LIMIT_SECONDS

from lab.cli import main, parser
from lab.commands.plan_of_options import plan_of as plan_of_options
from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.evidence.source import ROOT
from lab.website.outputs import SiteContext

ONE = ["--run-id", "try", "--device", "cpu", "--experiment", "normalization-fusion"]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command gives."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_list_shows_every_case_profile_and_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "normalization-fusion: How much faster is a fused Triton" in output
    assert "rmsnorm-4096x8192-float16   (with --include-rmsnorm-shape-sweep)" in output
    assert "triton-fused-layernorm: One Triton kernel" in output
    assert "triton-rmsnorm-beats-torch-fused: Triton RMSNorm is at least 2 % faster than F.rms_norm." in output


def cells_of(*include: str) -> int:
    """How many profiles all included cases of the experiment have."""
    (experiment,) = plan_of(include=include).experiments
    return sum(len(experiment.profiles_of(case)) for case in experiment.included_cases)


def test_plan_shows_what_would_be_measured_and_measures_nothing(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    assert main(["plan", *ONE]) == 0
    output = capsys.readouterr().out
    assert "run try on the CPU" in output
    assert f"{cells_of()} cells x 5 sweeps" in output
    assert "not in this run: rmsnorm-1024x2048-float16," in output
    assert "(--include-rmsnorm-shape-sweep)" in output
    assert not runs.exists()


def test_plan_with_the_sweep_flag_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *ONE, "--include-rmsnorm-shape-sweep"]) == 0
    output = capsys.readouterr().out
    assert f"{cells_of(SWEEP_FLAG)} cells x 5 sweeps" in output
    assert cells_of(SWEEP_FLAG) > cells_of()
    assert "not in this run" not in output


def test_the_plan_of_a_gpu_run_lists_the_ceilings_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    arguments = ["plan", "--run-id", "try", "--experiment"]
    assert main([*arguments, "normalization-fusion"]) == 0
    output = capsys.readouterr().out
    assert output.count("gpu-ceilings  copy-1x262144-float32: torch-copy, triton-copy\n") == 1
    assert "gpu-ceilings  matmul-8192x8192x8192" not in output  # a norm multiplies too little to need it
    assert main([*arguments, "gpu-ceilings", "normalization-fusion"]) == 0
    output = capsys.readouterr().out
    assert output.count("gpu-ceilings  matmul-8192x8192x8192-float8-e4m3fn: cublas\n") == 1
    assert main([*arguments, "cheating-kernels"]) == 0
    assert "gpu-ceilings" not in capsys.readouterr().out


def test_a_dry_run_of_the_main_job_is_the_plan(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    main(["plan", *ONE])
    plan = capsys.readouterr().out
    assert main(["benchmark", *ONE, "--dry-run"]) == 0
    assert capsys.readouterr().out == plan
    assert not runs.exists()


@pytest.mark.parametrize("run_id", ["No Slug", "../up", "a/b", ""])
def test_a_run_id_that_is_no_slug(capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    line = refused(capsys, "plan", "--run-id", run_id, "--device", "cpu")
    assert line.startswith(f"lab: run id {run_id!r} is not a plain slug; accepted are up to 80 lower-case")


@pytest.mark.parametrize("run_id", ["con", "nul", "lpt1", "mlartifacts"])
def test_a_run_id_that_is_the_name_of_a_device_or_of_the_store(capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    line = refused(capsys, "plan", "--run-id", run_id, "--device", "cpu")
    assert line == f"lab: run id {run_id!r} is reserved for a device or a folder; choose another, such as {run_id}-1"


def test_a_plan_that_is_nested_without_end_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("[" * 100_000)
    assert "plan.json: not valid JSON (maximum recursion depth exceeded" in refused(capsys, "judge", str(tmp_path))


def test_what_a_journal_says_does_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcomes = {"torch-fused": ("failed", "\x1b[2Jgone\u202e")}
    directory = measured_run(tmp_path, {"torch-baseline": 2e-3}, outcomes=outcomes, device="cpu", sweeps=3)
    assert main(["judge", str(directory)]) == 0
    output = capsys.readouterr().out
    assert "\\x1b[2Jgone\\u202e" in output
    assert "\x1b" not in output


def test_an_unknown_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "plan", "--run-id", "try", "--device", "cpu", "--experiment", "nothing")
    assert line.startswith("lab: no experiment 'nothing'; accepted are 'all' and ['normalization-fusion'")


@pytest.mark.parametrize("sweeps", ["0", "61", "-1"])
def test_a_number_of_sweeps_out_of_range(capsys: pytest.CaptureFixture[str], sweeps: str) -> None:
    line = refused(capsys, "plan", "--run-id", "try", "--device", "cpu", f"--sweeps={sweeps}")
    assert line.startswith(f"lab: --sweeps {sweeps}: accepted are 1 to 60")


@pytest.mark.parametrize("command", ["plan", "run", "benchmark"])
def test_cuda_where_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, runs: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = refused(capsys, command, "--run-id", "try", "--device", "cuda")
    assert line.startswith("lab: --device cuda: torch sees no CUDA GPU here")
    assert not runs.exists()


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["run"], ["plan", "--run-id", "try", "--device", "tpu"], ["judge"]], ids=" ".join
)
def test_what_is_no_command_is_answered_with_a_sentence_and_where_more_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    sentence, more = capsys.readouterr().err.splitlines()
    assert sentence.startswith("lab")
    assert "'validity'" not in sentence  # nor any other of 23 commands
    assert more.endswith(" --help shows all options" if arguments not in ([], ["fly"]) else "the options of one")


def test_a_command_that_is_nearly_right_is_answered_with_that_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["chek"])
    assert capsys.readouterr().err.splitlines() == [
        "lab: no command 'chek'; did you mean 'check'?",
        "lab --help shows all commands, lab COMMAND --help the options of one",
    ]


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (["benchmrk"], "benchmark"),
        (["benchmark", "--run-id", "x", "--with-profilling"], "--with-profiling"),
        (["tune", "rmsnorm", "--shape", "8x8", "--dtype", "float61"], "float16"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], suggested: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert f"did you mean '{suggested}'?" in capsys.readouterr().err


def test_an_option_of_another_command_is_not_suggested_to_who_gave_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--device", "cuda"])
    error = capsys.readouterr().err
    assert "unrecognized arguments: --device" in error
    assert "did you mean" not in error


def test_an_experiment_that_is_nearly_right_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "plan", "--device", "cpu", "--experiment", "normalisation-fusion")
    assert "did you mean 'normalization-fusion'?" in line


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert re.match(r"kernel-evidence-lab[ ,]", capsys.readouterr().out)


def test_list_shows_one_experiment_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "softmax-fusion"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("softmax-fusion: ")
    assert "normalization-fusion" not in output


def test_a_plan_needs_no_run_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--device", "cpu", "--experiment", "normalization-fusion"]) == 0
    assert capsys.readouterr().out.startswith("run plan on the CPU")


def test_a_dtype_may_be_given_as_people_shorten_it() -> None:
    options = parser().parse_args(["tune", "rmsnorm", "--shape", "8x8", "--dtype", "bf16"])
    assert options.dtype == "bfloat16"


def test_a_run_that_is_not_there_is_answered_with_those_that_are(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    for name in ("first-look", "second-look"):
        (runs / name).mkdir(parents=True)
        (runs / name / "plan.json").touch()
    line = refused(capsys, "judge", "frist-look")
    assert line.endswith("runs there: second-look, first-look; did you mean 'first-look'?")


def test_a_run_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "judge", "never-measured")
    assert line.startswith("lab: no run 'never-measured' under ")


def test_judge_prints_each_cell_and_verdict_of_a_run_by_its_id(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    measured_run(
        runs, {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6},
        outcomes={"liger": ("skipped", "liger_kernel is not installed")},
    )  # fmt: skip
    assert main(["judge", "synthetic"]) == 0
    output = capsys.readouterr().out
    assert "run synthetic: NVIDIA H100 80GB HBM3" in output
    assert "(unfinished)" not in output
    assert "skipped: liger_kernel is not installed" in output
    assert "faster        Triton RMSNorm is at least 2 % faster than F.rms_norm." in output


def test_judge_tells_the_runs_ceilings_and_how_near_each_cell_comes(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    """The copy and the norm read and write 64 MiB; all of it takes 20.0 µs at the memory's peak."""
    plan = plan_of("near", experiments=choose_experiments(["normalization-fusion", CEILINGS]), sweeps=3)
    rmsnorm, product = "rmsnorm-4096x4096-float16", "matmul-8192x8192x8192-float16"
    seconds = {
        ("copy-32x262144-float32", "torch-copy"): 22e-6,
        ("copy-64x262144-float32", "torch-copy"): 44e-6,
        (product, "cublas"): 1.5e-3,
        (rmsnorm, "torch-fused"): 25e-6,
        (rmsnorm, "triton-fused-rmsnorm"): 19e-6,
    }
    write_run(runs / "near", plan, records_of(plan, seconds, noise=0.0))
    assert main(["judge", "near"]) == 0
    output = capsys.readouterr().out
    rates = "copy 3050 GB/s at 128 MiB, float16 733 TFLOP/s, launch floor 2.000 µs"
    assert f"  ceilings: {rates}\n" in output
    assert (
        "torch-fused              p50 25.00 µs, noise 1.00, 88.0 % of the memory ceiling, 3.00 µs from it\n" in output
    )
    near = "115.8 % of the memory ceiling, −3.00 µs from it, cache-resident, working set 67.1 MB"
    assert f"triton-fused-rmsnorm     p50 19.00 µs, noise 1.00, {near}\n" in output


def test_judge_takes_the_path_of_a_run_directory_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    directory = measured_run(tmp_path / "copied", {"torch-fused": 30e-6}, finished=False)
    assert main(["judge", str(directory)]) == 0
    assert "(unfinished)" in capsys.readouterr().out


def test_judge_says_which_line_of_a_journal_was_not_used(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    directory = measured_run(runs, {"torch-fused": 30e-6})
    with (directory / "journal.jsonl").open("a") as file:
        file.write("gossip\n")
    assert main(["judge", "synthetic"]) == 0
    assert "not used: checksum does not match" in capsys.readouterr().out


def test_a_stage_whose_package_is_missing_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "mlflow" else object())
    assert refused(capsys, "track", "try").startswith("lab: mlflow not installed here")


def test_planning_and_judging_load_nothing_that_a_gpu_box_may_lack_nor_torchs_compiler(tmp_path: Path) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 30e-6})
    program = f"""
        import sys
        from lab.cli import main
        assert main(["plan", *{ONE!r}]) == 0
        assert main(["judge", {str(directory)!r}]) == 0
        absent = {{"mlflow", "plotly", "jinja2", "pandas", "yaml", "markdown_it", "torch._dynamo"}}
        print("loaded:", sorted(absent & set(sys.modules)), file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "loaded: []"


def test_a_reader_that_has_read_enough_is_no_error() -> None:
    command = f"{sys.executable} -m lab.cli list | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode in (0, 141)  # 0 where all was written before the reader left


@pytest.mark.parametrize("keep", ["keep.txt", "index.html"])
def test_a_folder_that_is_no_site_is_never_replaced_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: str
) -> None:
    (tmp_path / keep).write_text("mine")
    assert main(["build", "--out", str(tmp_path)]) == 2
    assert "is not a generated site" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [keep]
    assert (tmp_path / keep).read_text() == "mine"


def test_a_file_or_a_place_that_cannot_be_written_is_no_folder_for_a_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert main(["build", "--out", str(file)]) == 2
    assert file.read_text() == "mine"
    monkeypatch.setattr(
        "lab.website.site.gather", lambda *_, **__: SiteContext(label="", current=(), published=(), decisions=())
    )
    assert main(["build", "--out", "/proc/site"]) == 2
    assert "/proc/site: the site cannot be written there" in capsys.readouterr().err


def test_only_the_main_job_has_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--run-id", "x", "--dry-run"])
    assert "unrecognized arguments: --dry-run" in capsys.readouterr().err


def test_a_run_that_is_nowhere_is_named_with_where_it_was_looked_for(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    assert main(["judge", "nosuch"]) == 2
    assert f"no run 'nosuch' under {runs}" in capsys.readouterr().err


def test_a_plan_refuses_what_its_run_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--gpus 4: this run measures the CPU" in refused(capsys, "plan", *ONE, "--gpus", "4")


def test_a_folder_that_is_deleted_while_it_is_written_is_not_called_kept(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = runs / "try" / "logs" / "sweep-1.log"
    monkeypatch.setattr("lab.supervisor.run.run", lambda *_, **__: log.open("w"))
    said = refused(capsys, "run", *ONE)
    assert f"{log}: No such file or directory; was it moved or deleted meanwhile?" in said
    assert "is kept" not in said


def test_the_labs_error_rates_are_not_asked_of_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 1e-3, "torch-baseline": 2e-3}, device="cpu", sweeps=3)
    assert main(["validity", str(directory)]) == 2
    assert "left out, it was measured on the CPU" in capsys.readouterr().err


def test_a_journal_that_is_missing_or_unreadable_is_not_called_unmeasured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 1e-3})
    journal = directory / "journal.jsonl"
    journal.write_bytes(b"\x00rubbish\nmore\n")
    assert main(["judge", str(directory)]) == 2
    assert "journal.jsonl: 2 lines cannot be used" in capsys.readouterr().err
    journal.unlink()
    assert main(["judge", str(directory)]) == 2
    assert "no journal.jsonl beside its plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "profiling", "metric_set"),
    [
        ([], False, "chosen"),
        (["--with-profiling"], True, "chosen"),
        (["--with-profiling", "chosen"], True, "chosen"),
        (["--with-profiling", "full"], True, "full"),
        (["--with-profiling", "--with-instruments"], True, "chosen"),
    ],
)
def test_the_profilers_set_of_metrics_is_registered(given: list[str], profiling: bool, metric_set: str) -> None:
    plan = plan_of_options(parser().parse_args(["plan", *ONE, *given]))
    assert (plan.profiling, plan.metric_set) == (profiling, metric_set)


def test_another_set_of_metrics_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", *ONE, "--with-profiling", "detailed"])
    message = capsys.readouterr().err
    assert all(word in message for word in ("--with-profiling", "'detailed'", "chosen", "full"))
