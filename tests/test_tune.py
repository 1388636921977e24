"""`lab tune`, with runs that never happened: what wins is kept where kernels look, and nothing else is."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import machine, plan_of, records_of, write_run

from lab import measured_once, tune
from lab.cli import main
from lab.definition.catalogue import choose_experiments, load_tunables
from lab.definition.plan import Plan
from lab.definition.search import RULE, candidates, configuration_name
from lab.errors import PlanError, RunError
from lab.evidence.machine import fingerprint, version
from lab.kernels.launch import Configuration
from lab.kernels.tuned import Key, keep, read_tuned

SHAPE, DTYPE = (4096, 4096), "float16"
TUNABLE = load_tunables()["rmsnorm"]
FOUND = candidates(TUNABLE, SHAPE, DTYPE)
NAMES = [configuration_name(configuration) for configuration in FOUND]
KEY = TUNABLE.tuning.key(SHAPE, DTYPE, tune.gpu_of(machine()))
SLOWER = {RULE: 23e-6} | dict.fromkeys(NAMES, 24e-6)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TUNED", str(tmp_path / "tuned.json"))
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Plan]]:
    """Makes runs be measured at once, with these times; the plans that were."""

    def prepare(seconds: Mapping[Any, float], **how: Any) -> list[Plan]:
        plans: list[Plan] = []

        def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
            assert os.environ["LAB_TUNED"] == "", "a search must not begin at what was found before"
            plans.append(plan)
            directory.parent.mkdir(exist_ok=True)
            write_run(directory, plan, records_of(plan, seconds, **how))

        monkeypatch.setattr(measured_once, "run", run)
        return plans

    return prepare


def request(**changes: Any) -> tune.SearchRequest:
    facts = {
        "operator": "rmsnorm", "shapes": (SHAPE,), "dtype": DTYPE, "scope": "device_cold", "sweeps": 5,
        "run_id": "search", "budget_seconds": 600.0,
    }  # fmt: skip
    return tune.SearchRequest(**(facts | changes))


def tuned(tmp_path: Path, **changes: Any) -> str:
    return "\n".join(tune.tune(request(**changes), tmp_path / "runs", lambda text: None))


def kept(tmp_path: Path) -> dict[Key, Configuration]:
    return {key: configuration for key, (configuration, _) in read_tuned(tmp_path / "tuned.json").items()}


def test_a_winner_is_kept_for_its_gpu_shapes_and_dtype(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    measure(SLOWER | {NAMES[1]: 21e-6, NAMES[2]: 20e-6})
    output = tuned(tmp_path)
    assert kept(tmp_path) == {KEY: FOUND[2]}
    assert KEY.gpu == "NVIDIA H100 80GB HBM3, 132 multiprocessors"
    assert f"winner: {NAMES[2]}, 1.1" in output
    assert "ahead of it in 5 of 5 sweeps, fastest of all in 5" in output
    assert "control: the rule under two names, " in output
    assert "kept for rmsnorm, 4096 columns, up to 4096 rows, float16 on NVIDIA H100" in output
    ((_, how),) = read_tuned(tmp_path / "tuned.json").values()
    assert (how["run_id"], how["sweeps"], how["scope"]) == ("search", 5, "device_cold")
    assert how["low"] < how["ratio"] < how["high"]


def test_within_noise_nothing_is_kept_and_what_no_longer_wins_goes(
    tmp_path: Path, measure: Callable[..., list[Plan]]
) -> None:
    keep(tmp_path / "tuned.json", KEY, FOUND[0], {})
    measure(SLOWER | {NAMES[0]: 22.9e-6})
    output = tuned(tmp_path)
    assert kept(tmp_path) == {}
    assert "no configuration is clearly faster among so many: the rule stays" in output
    assert "an entry that no longer wins was removed" in output


def test_what_could_not_be_judged_removes_nothing(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    keep(tmp_path / "tuned.json", KEY, FOUND[0], {})
    measure({RULE: 23e-6}, outcomes=dict.fromkeys(NAMES, ("failed", "out of shared memory")))
    assert "nothing was fit to be judged" in tuned(tmp_path)
    assert kept(tmp_path) == {KEY: FOUND[0]}


def test_a_configuration_that_does_not_compile_is_a_line_of_the_table(
    tmp_path: Path, measure: Callable[..., list[Plan]]
) -> None:
    measure(SLOWER, outcomes={NAMES[0]: ("failed", "OutOfResources: out of resource")})
    lines = [line for line in tuned(tmp_path).splitlines() if NAMES[0] in line.split()]
    assert lines == [f"  {NAMES[0]:34} failed: OutOfResources: out of resource"]


def test_three_sweeps_give_a_provisional_winner(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    plans = measure(SLOWER | {NAMES[1]: 20e-6})
    tuned(tmp_path, sweeps=3)
    assert [plan.protocol.sweeps for plan in plans] == [3]
    ((_, how),) = read_tuned(tmp_path / "tuned.json").values()
    assert how["mark"] == "provisional"


def test_beyond_the_budget_one_sweep_chooses_who_takes_part(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    times = SLOWER | {name: (20 + place) * 1e-6 for place, name in enumerate(reversed(NAMES))}
    plans = measure(times)
    tuned(tmp_path, budget_seconds=1.0)
    screen, search = plans
    assert (screen.run_id, screen.protocol.sweeps) == ("search-screen", 1)
    assert [p.name for p in screen.experiments[0].profiles] == [RULE, *NAMES]
    assert (search.run_id, search.protocol.sweeps) == ("search", 5)
    assert [p.name for p in search.experiments[0].profiles] == [RULE, *NAMES[-tune.FEWEST_FINALISTS :]]
    assert kept(tmp_path) == {KEY: FOUND[-1]}


def test_a_finished_search_is_not_measured_twice_and_can_still_be_kept(
    tmp_path: Path, measure: Callable[..., list[Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = measure(SLOWER | {NAMES[1]: 20e-6}, on=machine(triton=version("triton")))
    monkeypatch.setenv("LAB_TUNED", "")
    tuned(tmp_path, budget_seconds=1.0)
    assert [plan.run_id for plan in plans] == ["search-screen", "search"]
    monkeypatch.setenv("LAB_TUNED", str(tmp_path / "tuned.json"))
    tuned(tmp_path, budget_seconds=1.0)
    assert [plan.run_id for plan in plans] == ["search-screen", "search"]
    assert kept(tmp_path) == {KEY: FOUND[1]}


def test_an_interrupted_search_goes_on_with_the_finalists_that_were_chosen(
    tmp_path: Path, measure: Callable[..., list[Plan]]
) -> None:
    plans = measure(SLOWER, on=machine(triton=version("triton")))
    tuned(tmp_path, budget_seconds=1.0)
    shutil.rmtree(tmp_path / "runs" / "search")
    tuned(tmp_path, budget_seconds=1.0)
    assert [plan.run_id for plan in plans] == ["search-screen", "search", "search"]
    assert plans[1].digest == plans[2].digest


def test_what_was_measured_of_another_source_is_measured_anew(
    tmp_path: Path, measure: Callable[..., list[Plan]]
) -> None:
    plans = measure(SLOWER, source="0" * 64, on=machine(triton=version("triton")))
    tuned(tmp_path)
    with pytest.raises(FileExistsError):  # where a run refuses a finished one, this one cannot write over it
        tuned(tmp_path)
    assert len(plans) == 2


def test_where_no_rival_can_be_measured_the_search_ends(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    measure({RULE: 23e-6})
    with pytest.raises(RunError, match="no configuration but the rule's could be measured"):
        tuned(tmp_path, budget_seconds=1.0)


def test_several_shapes_are_one_run(tmp_path: Path, measure: Callable[..., list[Plan]]) -> None:
    other = (4096, 8192)
    second = [configuration_name(each) for each in candidates(TUNABLE, other, DTYPE)]
    plans = measure(SLOWER | dict.fromkeys(second, 24e-6) | {NAMES[1]: 20e-6, second[0]: 20e-6})
    tuned(tmp_path, shapes=(SHAPE, other))
    assert [len(plan.experiments) for plan in plans] == [2]
    assert [key.shapes for key in kept(tmp_path)] == ["4096 columns, up to 4096 rows", "8192 columns, up to 4096 rows"]


def test_a_damaged_file_is_reported_of_before_anything_is_measured(
    tmp_path: Path, measure: Callable[..., list[Plan]]
) -> None:
    (tmp_path / "tuned.json").write_text("{")
    plans = measure(SLOWER)
    with pytest.raises(RunError, match=r"tuned\.json: is no file of tuned configurations"):
        tuned(tmp_path)
    assert plans == []


def test_without_a_file_a_search_only_tells(
    tmp_path: Path, measure: Callable[..., list[Plan]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TUNED", "")
    measure(SLOWER | {NAMES[1]: 20e-6})
    assert "not kept: LAB_TUNED is set to no file" in tuned(tmp_path)


def test_an_operator_that_cannot_be_tuned() -> None:
    with pytest.raises(PlanError, match=r"no operator 'matmul' can be tuned; accepted are \['rmsnorm', 'layernorm'"):
        list(tune.describe_request(request(operator="matmul")))


ASK = ["tune", "rmsnorm", "--shape", "4096x4096", "--dtype", "float16"]


def test_a_dry_run_lists_the_candidates_and_measures_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*ASK, "--dry-run"]) == 0
    first, *others, last = capsys.readouterr().out.splitlines()
    assert first == f"tune-rmsnorm-4096x4096-float16: the rule and {len(NAMES)} others"
    assert [line.strip() for line in others] == NAMES
    assert last.startswith("about ")
    assert main([*ASK, "--dry-run", "--budget-seconds", "1"]) == 0
    assert "all in one sweep first" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_search_needs_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(ASK) == 2
    assert capsys.readouterr().err.startswith("lab: --device cuda: torch sees no CUDA GPU here")


@pytest.mark.parametrize("shape", ["", "0x4", "axb", "4x", "-1x2"])
def test_what_is_no_shape(capsys: pytest.CaptureFixture[str], shape: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["tune", "rmsnorm", f"--shape={shape}", "--dtype", "float16", "--dry-run"])
    assert end.value.code == 2
    assert f"{shape!r} is no shape; accepted are sizes from 1 joined by x" in capsys.readouterr().err


def test_a_shape_of_another_operators_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "rmsnorm", "--shape", "4096", "--dtype", "float16", "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert "rmsnorm of shape (4096,), float16: is no shape that its inputs can have; accepted is MxN" in message


def test_a_dry_run_of_heads_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["tune", "--dry-run", "rope", "--shape", "1x32x512x128", "--dtype", "bfloat16"]
    assert main(asked) == 0
    first, *others, _ = capsys.readouterr().out.splitlines()
    assert first == f"tune-rope-1x32x512x128-bfloat16: the rule and {len(others)} others"
    assert "  tokens-16-heads-4-warps-4" in others
    assert main([*asked, "--shape", "512x128"]) == 2
    assert "rope of shape (512, 128), bfloat16: is no shape that its inputs can have; accepted is BxHxSxD" in (
        capsys.readouterr().err
    )


def test_the_help_explains_what_wins_and_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    for words in ("A/A control", "within noise there is no winner, and the rule stays", "one sweep of all comes first"):
        assert words in help_text


@pytest.mark.parametrize(("flags", "seen"), [([], ""), (["--with-tuned"], "(set)")])
def test_a_run_measures_a_clean_checkout_unless_asked_otherwise(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], seen: str
) -> None:
    recorded = []

    def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
        recorded.append(fingerprint("cpu", {}).environment["LAB_TUNED"])

    monkeypatch.setattr("lab.supervisor.run.run", run)
    arguments = ["run", "--run-id", "try", "--device", "cpu", "--experiment", "normalization-fusion", *flags]
    assert main(arguments) == 0
    assert recorded == [seen]


def test_a_search_is_judged_like_any_other_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = plan_of("search", experiments=choose_experiments(["tune-rmsnorm-4096x4096-float16"]))
    write_run(tmp_path / "runs" / "search", plan, records_of(plan, SLOWER))
    assert main(["judge", "search"]) == 0
    assert "Launched with ROWS 1, BLOCK 4096" in capsys.readouterr().out
