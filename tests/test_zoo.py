"""The zoo of shapes, the experiments made of it, and `lab zoo`, with runs that never happened."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import machine, records_of, write_run

from experiments.zoo import (
    LAYOUTS,
    MODELS,
    MOST_BYTES,
    MOST_FLOPS,
    ODD_WIDTHS,
    linear_sizes,
    norm_widths,
    operators,
    product_bytes,
    visits,
    vocabularies,
)
from experiments.zoo_screening import FEWEST_BYTES, ODD_IN, sample
from lab import measured_once, zoo
from lab.cli import main
from lab.definition.catalogue import Zoo, choose_experiments, load_tunables
from lab.definition.dtypes import ITEMSIZES
from lab.definition.plan import Plan
from lab.definition.planning import LONGEST_RUN_ID
from lab.errors import PlanError
from lab.evidence.machine import version
from lab.evidence.record import Cell
from lab.kernels.rows import MAXIMUM_COLUMNS
from lab.verdict.judge_run import load_run
from lab.verdict.standing import spread, standings, unmeasured

EXPERIMENT = "zoo-softmax-8"
(SAMPLED,) = choose_experiments([EXPERIMENT])
CASES = [case.name for case in SAMPLED.cases]
SECONDS = {"lab": 20e-6, "torch-fused": 30e-6, "torch-compile": 25e-6, "liger": 22e-6, "quack": 21e-6}


def test_at_least_25_public_models_call_each_kind_of_operator() -> None:
    assert len({model.source for model in MODELS}) == len(MODELS) >= 25
    for called in (norm_widths("rmsnorm") | norm_widths("layernorm"), vocabularies()):
        assert len({source for sources in called.values() for source in sources}) >= 25
    for model in MODELS:
        assert model.heads % model.kv_heads == 0, model.source
        assert model.rotary <= model.head_dim, model.source
        assert max(model.hidden, model.vocabulary) <= MAXIMUM_COLUMNS, model.source


@pytest.mark.parametrize("operator", operators())
def test_the_zoo_holds_each_call_once_and_none_too_large(operator: str) -> None:
    calls = list(visits(operator))
    assert len({visit.name for visit in calls}) == len(calls) > 200
    of_float32 = {"float32"} if operator in load_tunables() else set()  # PyTorch's products keep all digits
    assert {visit.dtype for visit in calls} == {"float16", "bfloat16"} | of_float32
    for visit in calls:
        if len(visit.shape) == 2:
            assert visit.shape[0] * visit.shape[1] * ITEMSIZES[visit.dtype] <= MOST_BYTES


def test_norms_before_a_rotation_have_the_models_that_call_them_and_odd_sizes() -> None:
    heads = {visit.shape: visit.callers for visit in visits("qk-norm-rope")}
    assert heads[1, 32, 8, 2048, 128] == ("Qwen/Qwen3-4B", "Qwen/Qwen3-8B")
    assert heads[1, 4, 1, 2048, 256] == ("google/gemma-3-1b-pt",)
    assert (1, 28, 4, 2048, 128) not in heads  # of Qwen2.5 7B, which has no such norm
    rows = {visit.shape: visit.callers for visit in visits("rmsnorm-rope")}
    assert {callers for callers in rows.values() if callers} == {("allenai/OLMo-2-1124-7B",)}
    assert rows[1, 2048, 32, 128]
    for sizes in (heads, rows):
        assert () in sizes.values()
        assert all(shape[-1] % 2 == 0 for shape in sizes)  # else a head has no halves to turn


def test_products_are_those_of_linear_layers() -> None:
    sizes = linear_sizes()
    of_llama = {size for size, callers in sizes.items() if "meta-llama/Llama-3.1-8B" in callers}
    assert of_llama == {(4096, 4096), (1024, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (128256, 4096)}
    of_deepseek = {size for size, callers in sizes.items() if "deepseek-ai/DeepSeek-V2-Lite" in callers}
    assert (3072, 2048) not in of_deepseek  # its queries, keys and values have projections of other widths
    assert {(10944, 2048), (1408, 2048), (2048, 1408), (102400, 2048)} <= of_deepseek


def test_products_have_few_and_many_rows_of_any_alignment_and_none_takes_long() -> None:
    calls = list(visits("matmul"))
    assert {1, 16, 128, 1000, 3001, 4096} <= {visit.shape[0] for visit in calls if visit.callers}
    depths = {2 * visit.shape[2] for visit in calls if not visit.callers}
    assert any(depth % 16 for depth in depths)
    assert any(depth % 128 and not depth % 16 for depth in depths)
    assert any(not depth % 128 for depth in depths)
    for visit in calls:
        M, N, K = visit.shape
        assert 2 * M * N * K <= MOST_FLOPS
        assert product_bytes(visit.shape, 2) <= MOST_BYTES
    assert product_bytes((2, 3, 5), 2) == 2 * (10 + 15 + 6)
    assert all(product_bytes(visit.shape, 2) >= FEWEST_BYTES for visit in sample("matmul", 40))


def test_rows_are_one_to_65_536_and_of_odd_sizes_and_layouts_too() -> None:
    calls = list(visits("rmsnorm"))
    assert {1, 65_536} <= {visit.shape[0] for visit in calls}
    assert {visit.shape[1] for visit in calls} >= set(ODD_WIDTHS)
    assert {visit.layout for visit in calls} == set(LAYOUTS)


def test_a_sample_is_the_same_wherever_it_is_made_and_a_part_of_a_larger_one() -> None:
    small, large = sample("layernorm", 8), sample("layernorm", 40)
    assert len(small) == 8
    assert len(large) == 40
    assert set(small) <= set(large)
    assert sum(not visit.callers for visit in large) == 40 // ODD_IN


@pytest.mark.parametrize("operator", operators())
def test_every_operator_makes_an_experiment_of_the_labs_kernel_and_its_rivals(operator: str) -> None:
    (experiment,) = choose_experiments([f"zoo-{operator}-6"])
    assert experiment.name == f"zoo-{operator}-6"
    assert experiment.profiles[0].name == "lab"
    assert len(experiment.profiles) >= 2
    level, within = (0.9, "ten per cent") if operator == "matmul" else (0.98, "two per cent")
    assert f"within {within} of the best" in experiment.question
    assert within in experiment.profiles[0].hypothesis
    for claim in experiment.claims:
        assert claim.threshold == level
        assert f"at least {level} times as fast as {claim.baseline.title}" in claim.text


def test_a_product_is_held_against_cublas_alone() -> None:
    (experiment,) = choose_experiments(["zoo-matmul-6"])
    assert [profile.name for profile in experiment.profiles] == ["lab", "torch-matmul"]
    assert [(claim.scope, claim.baseline.title) for claim in experiment.claims] == [
        ("device_cold", "cuBLAS"), ("graph", "cuBLAS"),
    ]  # fmt: skip
    assert all("large" not in edge for case in experiment.cases for edge in case.operator.edges)


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[Mapping[Any, float]], Any]:
    def measure(seconds: Mapping[Any, float]) -> Any:
        plan = zoo._screening(zoo.Tour(operators=("softmax",), sample=8, sweeps=5, run_id="trip"), [EXPERIMENT])
        write_run(tmp_path / "trip", plan, records_of(plan, seconds))
        return load_run(tmp_path / "trip").experiments[0]

    return measure


def test_a_standing_is_against_the_best_rival_the_worst_first(measured: Callable[[Mapping[Any, float]], Any]) -> None:
    slow = {(case, profile): seconds * 1e3 for case in CASES[:2] for profile, seconds in SECONDS.items()}
    slow |= {(CASES[0], "lab"): 42e-3, (CASES[1], "quack"): 10e-3}
    ranked = standings(measured(SECONDS | slow), "device_cold")
    assert len(ranked) == len(CASES)
    assert {ranked[0].case, ranked[1].case} == {CASES[0], CASES[1]}
    assert [round(standing.ratio, 2) for standing in ranked[:3]] == [0.5, 0.5, 1.05]
    assert {standing.rival for standing in ranked} == {"quack"}
    summary = spread(ranked)
    assert summary.cases == 8
    assert summary.smallest == pytest.approx(0.5, rel=0.02)
    assert summary.median == pytest.approx(1.05, rel=0.02)
    assert summary.level_share == summary.bar_share == summary.ahead_share == 6 / 8


def test_a_rival_is_compared_over_the_sweeps_that_measured_both(tmp_path: Path) -> None:
    """QuACK is left out of the last three sweeps, in which the lab's kernel takes twice its time. Liger, which is
    faster, shares no sweep with it."""
    plan = zoo._screening(zoo.Tour(operators=("softmax",), sample=8, sweeps=5, run_id="trip"), [EXPERIMENT])
    early, late = (records_of(plan, {"lab": own, "quack": 21e-6, "liger": 5e-6}) for own in (20e-6, 40e-6))
    sweeps = {"lab": {0, 1, 2, 3}, "quack": {0, 1}, "liger": {4}}
    records = [
        each
        for pair in zip(early, late, strict=True)
        for each in [pair[getattr(pair[0], "sweep", 0) >= 2]]
        if not isinstance(each, Cell) or each.sweep in sweeps.get(each.profile, ())
    ]
    write_run(tmp_path / "trip", plan, records)
    ranked = standings(load_run(tmp_path / "trip").experiments[0], "graph")
    assert len(ranked) == len(CASES)
    assert {standing.rival for standing in ranked} == {"quack"}
    assert [standing.ratio for standing in ranked] == pytest.approx([1.05] * len(CASES), rel=0.02)


def test_a_rival_in_place_stands_against_the_kernel_in_place(tmp_path: Path) -> None:
    plan = zoo._screening(zoo.Tour(operators=("rope-qk",), sample=4, sweeps=5, run_id="turn"), ["zoo-rope-qk-4"])
    times = {"lab": 10e-6, "torch-compile": 11e-6, "lab-in-place": 6e-6, "liger": 9e-6}
    (turning,) = choose_experiments(["zoo-rope-qk-4"])
    seconds = {(case.name, name): taken for case in turning.cases for name, taken in times.items()}
    write_run(tmp_path / "turn", plan, records_of(plan, seconds, noise=0.0001))
    for scope in ("device_cold", "graph"):
        ranked = standings(load_run(tmp_path / "turn").experiments[0], scope)
        assert [(each.rival, round(each.ratio, 1)) for each in ranked] == [("torch-compile", 1.1)] * 4


def test_what_was_not_measured_is_reported_apart(
    measured: Callable[[Mapping[Any, float]], Any], tmp_path: Path
) -> None:
    result = measured(SECONDS)
    assert unmeasured(result, "device_cold") == ()
    plan = zoo._screening(zoo.Tour(operators=("softmax",), sample=8, sweeps=5, run_id="less"), [EXPERIMENT])
    records = [each for each in records_of(plan, SECONDS) if getattr(each, "profile", "") != "lab"]
    write_run(tmp_path / "less", plan, records)
    assert unmeasured(load_run(tmp_path / "less").experiments[0], "graph") == tuple(CASES)
    with pytest.raises(ValueError, match="no case was measured with a rival"):
        spread(())


def test_the_command_measures_and_prints_the_distribution_and_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
        directory.parent.mkdir(exist_ok=True)
        write_run(directory, plan, records_of(plan, SECONDS))

    monkeypatch.setenv("LAB_TUNED", "")
    monkeypatch.setattr(measured_once, "run", run)
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert main(["zoo", "softmax", "--sample", "8", "--run-id", "trip"]) == 0
    output = capsys.readouterr().out
    assert "zoo-softmax-8, device_cold\n" in output
    assert "at 8 shapes: smallest 1.05" in output
    assert "100% at 0.98 or above, 100% ahead" in output
    assert re.search(r"^  1\.02 to 1\.1 +8 █{40}$", output, re.MULTILINE)
    assert re.search(r"^  1\.0\d\d  softmax-.*: 2\d\.\d\d µs, quack 2\d\.\d\d µs$", output, re.MULTILINE)


def test_shapes_that_are_lost_or_close_are_decided_by_a_second_run_of_the_usual_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[Plan] = []

    def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
        plans.append(plan)
        directory.parent.mkdir(exist_ok=True)
        close = {(case, profile): seconds for case in CASES[:2] for profile, seconds in SECONDS.items()}
        close |= {(CASES[0], "lab"): 23e-6, (CASES[1], "lab"): 20.8e-6}
        write_run(directory, plan, records_of(plan, SECONDS | close, on=machine(triton=version("triton"))))

    monkeypatch.setenv("LAB_TUNED", "")
    monkeypatch.setattr(measured_once, "run", run)
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert main(["zoo", "softmax", "--sample", "8", "--run-id", "trip", "--decide", "3"]) == 0
    screening, deciding = plans
    assert deciding.run_id == "trip-close"
    assert {case.name for case in deciding.experiments[0].included_cases} == set(CASES[:2])
    assert deciding.protocol.sweeps == 3
    assert screening.protocol.rounds * screening.protocol.block < deciding.protocol.rounds * deciding.protocol.block / 2
    assert "close: 2 shapes, in 3 sweeps" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "runs" / "trip-close")  # as where the second run was not begun
    assert main(["zoo", "softmax", "--sample", "8", "--run-id", "trip", "--decide", "3"]) == 0
    assert [plan.run_id for plan in plans] == ["trip", "trip-close", "trip-close"]
    assert plans[1].digest == plans[2].digest


@pytest.mark.parametrize(
    ("ratio", "level", "close"), [(0.86, "0%", 6), (0.92, "100%", 6), (0.97, "100%", 0)], ids=["lost", "near", "level"]
)
def test_a_product_counts_as_level_from_its_own_level_on(ratio: float, level: str, close: int, tmp_path: Path) -> None:
    tour = zoo.Tour(operators=("matmul",), sample=6, sweeps=5, run_id="tour")
    plan = zoo._screening(tour, ["zoo-matmul-6"])
    seconds = {"lab": 20e-3, "torch-matmul": ratio * 20e-3}
    write_run(tmp_path / "tour", plan, records_of(plan, seconds, noise=0.0001))
    (measured, *_) = load_run(tmp_path / "tour").experiments
    assert f"{level} at 0.9 or above" in "\n".join(zoo.describe_standing(measured))
    assert len(zoo.close_cases(measured)) == close


def test_a_second_run_that_could_not_be_begun_is_refused_before_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_TUNED", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(measured_once, "run", lambda *_: pytest.fail("it was measured"))
    name = "x" * LONGEST_RUN_ID
    assert main(["zoo", "softmax", "--sample", "1", "--run-id", name, "--decide", "3"]) == 2
    assert f"run id '{name}-close' is not a plain slug" in capsys.readouterr().err


def test_a_dry_run_lists_shapes_and_who_calls_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "--dry-run", "rope-qk", "--sample", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("zoo-rope-qk-4: 4 shapes by lab, ")
    assert len(lines) == 5
    assert main(["zoo", "--dry-run", "rope-qk", "--sample", "4", "--decide", "5"]) == 0
    then = "then those that are close or lost, in 5 sweeps by the usual protocol"
    assert capsys.readouterr().out.splitlines() == [*lines, then]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no operator 'nothing' is in the zoo; accepted are"),
        (["--sample", "0"], "--sample is 0; accepted"),
        (["--sweeps", "0"], "--sweeps 0: accepted are 1 to 60"),
        (["--run-id", "a/b"], "run id 'a/b' is not a plain slug"),
        (["--decide", "-1"], "--decide is -1; accepted are 0 to 60"),
        (["--decide", "61"], "--decide is 61; accepted are 0 to 60"),
    ],
)
def test_what_it_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "--dry-run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_project_without_a_zoo_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "load_zoo", lambda: Zoo((), lambda name: None, lambda operators, sample: []))
    assert main(["zoo", "--dry-run", "rmsnrm"]) == 2
    assert "this project has no zoo" in capsys.readouterr().err


def test_a_name_of_no_sample_is_no_experiment() -> None:
    for name in ("zoo-nothing-5", "zoo-softmax-0", "zoo-softmax"):
        with pytest.raises(PlanError, match=f"no experiment '{name}'"):
            choose_experiments([name])
