"""The gate: slower, not slower, or not to be told; and how often it errs."""

import dataclasses
from pathlib import Path

import pytest
from factory import machine, measured_run

from lab.cli import main
from lab.errors import RunError
from lab.gate_report import describe_gate, markdown
from lab.verdict.gate import Outcome, change_between, compare_runs, outcome_of
from lab.verdict.gate_simulation import FALSE_ALARMS, FOUND, PUBLISHED, gate_row
from lab.verdict.judge_run import load_run
from lab.verdict.results import RunResult
from lab.verdict.scatter import PROCESSES
from lab.verdict.statistics import over_sweeps
from lab.verdict.widening import SESSION_FLOOR, widened

TIMES = {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}
FIXED = next(process for process in PROCESSES if process.name == PUBLISHED)


def run_of(folder: Path, run_id: str, slower: float = 1.0, seed: int = 1, **how: object) -> RunResult:
    times = TIMES | {"triton-fused-rmsnorm": slower * TIMES["triton-fused-rmsnorm"]}
    return load_run(measured_run(folder, times, run_id=run_id, include=(), seed=seed, **how))  # type: ignore[arg-type]


def of_subject(older: RunResult, newer: RunResult) -> list[Outcome]:
    changes = compare_runs(older, newer, 0.03)
    return [each.outcome for each in changes if each.change and each.subject == "triton-fused-rmsnorm"]


@pytest.mark.parametrize(
    ("spread", "slower", "outcome"),
    [
        (0.001, 1.0, Outcome.FINE),
        (0.001, 1.01, Outcome.FINE),
        (0.001, 1.03, Outcome.REGRESSION),
        (0.001, 0.95, Outcome.FINE),
        (0.05, 1.0, Outcome.CANNOT_TELL),
        (0.05, 1.03, Outcome.CANNOT_TELL),
        (0.05, 1.5, Outcome.REGRESSION),
    ],
)
def test_what_the_rule_says(spread: float, slower: float, outcome: Outcome) -> None:
    sweeps = [[spread * (sweep - 2)] * 6 for sweep in range(5)]
    older = over_sweeps([[0.2 + value for value in rounds] for rounds in sweeps], 0.001)
    assert older
    newer = over_sweeps([[0.2 + value for value in rounds] for rounds in sweeps], 0.001)
    assert newer
    slowed = widened(newer, SESSION_FLOOR).ratio / slower
    change = change_between(
        widened(older, SESSION_FLOOR), widened(type(newer)(
            ratio=slowed, low=newer.low / slower, high=newer.high / slower,
            sweep_ratios=tuple(ratio / slower for ratio in newer.sweep_ratios),
        ), SESSION_FLOOR), 0.03,
    )  # fmt: skip
    assert change.outcome == outcome
    assert change.low < change.slowdown < change.high
    assert change.slowdown == pytest.approx(slower - 1)


def test_a_kernel_that_became_slower_is_found_and_the_others_are_not_accused(tmp_path: Path) -> None:
    older, newer = run_of(tmp_path, "old"), run_of(tmp_path, "new", slower=1.05, seed=2)
    changes = compare_runs(older, newer, 0.03)
    assert outcome_of(changes) is Outcome.REGRESSION
    accused = {each.subject for each in changes if each.outcome is Outcome.REGRESSION}
    assert accused == {"triton-fused-rmsnorm"}


def test_a_kernel_that_is_no_longer_right_is_a_regression(tmp_path: Path) -> None:
    newer = run_of(tmp_path, "new", outcomes={"triton-fused-rmsnorm": ("wrong", "off by one")})
    changes = compare_runs(run_of(tmp_path, "old"), newer, 0.03)
    reasons = {each.reason for each in changes if each.outcome is Outcome.REGRESSION}
    assert reasons == {"wrong result of the subject: off by one"}


@pytest.mark.parametrize("outcome", ["wrong", "failed"])
def test_what_is_wrong_where_the_older_run_measured_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: str
) -> None:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    run_of(tmp_path, "old", outcomes={"triton-fused-rmsnorm": ("skipped", "not installed")})
    run_of(tmp_path, "new", outcomes={"triton-fused-rmsnorm": (outcome, "off by one")})
    assert main(["compare", "old", "new"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("old → new: a regression")
    assert any("triton-fused-rmsnorm against torch-fused" in line and ": wrong  " in line for line in lines)


def test_what_is_wrong_at_a_claim_that_the_older_run_lacks_is_named_and_what_was_wrong_before_is_not(
    tmp_path: Path,
) -> None:
    wrong = run_of(tmp_path, "new", outcomes={"triton-fused-rmsnorm": ("wrong", "off by one")})
    (experiment,) = wrong.experiments
    lacks = [claim for claim in experiment.claims if claim.claim.subject != "triton-fused-rmsnorm"]
    older = dataclasses.replace(wrong, experiments=(dataclasses.replace(experiment, claims=tuple(lacks)),))
    changes = compare_runs(older, wrong, 0.03)
    assert {each.reason for each in changes if each.change is None} == {"wrong result of the subject: off by one"}
    assert outcome_of(changes) is Outcome.REGRESSION
    assert outcome_of(compare_runs(wrong, wrong, 0.03)) is not Outcome.REGRESSION
    renamed = [
        dataclasses.replace(each, claim=dataclasses.replace(each.claim, name=f"new-{each.claim.name}"))
        for each in experiment.claims
    ]
    newer = dataclasses.replace(wrong, experiments=(dataclasses.replace(experiment, claims=tuple(renamed)),))
    assert outcome_of(compare_runs(wrong, newer, 0.03)) is not Outcome.REGRESSION  # it was wrong under another name


def test_what_the_newer_run_left_out_is_undecided(tmp_path: Path) -> None:
    newer = run_of(tmp_path, "new", outcomes={"triton-fused-rmsnorm": ("skipped", "not installed")})
    changes = compare_runs(run_of(tmp_path, "old"), newer, 0.03)
    assert outcome_of(changes) is Outcome.CANNOT_TELL
    assert "not installed" in next(each.reason for each in changes if each.subject == "triton-fused-rmsnorm")


def test_a_run_without_a_speed_up_to_compare_with_says_why(tmp_path: Path) -> None:
    older = run_of(tmp_path, "old", outcomes=dict.fromkeys(TIMES, ("skipped", "not installed")))
    newer = run_of(tmp_path, "new")
    changes = compare_runs(older, newer, 0.03)
    assert outcome_of(changes) is Outcome.CANNOT_TELL
    for lines in (list(describe_gate(older, newer, changes, 0.03)), markdown(older, newer, changes, 0.03).split("\n")):
        assert any("no speed-up of old can be compared with" in line for line in lines)
        assert any("skipped: not installed" in line for line in lines)


def test_runs_of_different_machines_are_not_held_against_each_other(tmp_path: Path) -> None:
    other = run_of(tmp_path, "new", on=machine("cuda", gpu="NVIDIA A100"))
    with pytest.raises(RunError, match=r"NVIDIA H100.* and new on NVIDIA A100"):
        compare_runs(run_of(tmp_path, "old"), other, 0.03)


@pytest.mark.parametrize("slowdown", [0.0, 0.03])
def test_the_published_noise_seldom_alarms_and_seldom_hides_a_slowdown(slowdown: float) -> None:
    """The first of the pairs that `lab simulate --gate` counts; its goals leave room for so few."""
    row = gate_row(FIXED, slowdown, 9, 400, 2026)
    if slowdown:
        assert row.regressions >= (FOUND - 0.03) * row.pairs
    else:
        assert row.regressions <= (FALSE_ALARMS + 0.01) * row.pairs


@pytest.mark.parametrize(("slower", "share", "status"), [(1.0, "3%", 0), (1.05, "3%", 1), (1.05, "0.2", 0)], ids=str)
def test_the_exit_status_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], slower: float, share: str,
    status: int,
) -> None:  # fmt: skip
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    for name, factor, seed in (("old", 1.0, 1), ("new", slower, 2)):
        times = {"torch-fused": 30e-6, "triton-fused-rmsnorm": factor * 20e-6}
        measured_run(tmp_path, times, run_id=name, include=(), seed=seed)
    exit_status = main(["compare", "old", "new", "--fail-if-slower", share, "--markdown", str(tmp_path / "summary.md")])
    output = capsys.readouterr().out
    assert exit_status == status
    assert (": slower  +5" in output) == (status == 1)
    assert f"old → new: {'a' if status else 'no'} regression, asked for" in output
    summary = (tmp_path / "summary.md").read_text()
    assert "| case | subject | before | now | change | answer |" in summary
    assert ("### Kernel evidence: a regression" in summary) == (status == 1)


def test_a_summary_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    measured_run(tmp_path, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}, run_id="old", include=())
    summary = tmp_path / "nowhere" / "summary.md"
    assert main(["compare", "old", "old", "--markdown", str(summary)]) == 2
    assert capsys.readouterr().err == f"lab: {summary}: cannot be written: No such file or directory\n"


@pytest.mark.parametrize("share", ["0", "three", "100%", "-3%"])
def test_a_share_that_is_none(capsys: pytest.CaptureFixture[str], share: str) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "a", "b", f"--fail-if-slower={share}"])
    assert "is no share; accepted are 3%" in capsys.readouterr().err


def test_a_verdict_can_be_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    run_of(tmp_path, "slow", slower=3.0)
    run_of(tmp_path, "wrong", outcomes={"triton-fused-rmsnorm": ("wrong", "off by one")})
    for run, status in (("slow", "refuted"), ("wrong", "rejected")):
        assert main(["judge", run]) == 0
        assert main(["judge", run, "--require", "not-refuted"]) == 1
        assert f"is {status}, and not-refuted is required" in capsys.readouterr().err
    assert [main(["judge", run, "--require", "not-rejected"]) for run in ("slow", "wrong")] == [0, 1]
