"""Tokens a second of models: of each time, with its datum, and computed again by verification."""

import copy
import json
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run
from test_site import Page

from experiments import EXPERIMENTS, decode_step, qwen_prefill
from experiments.tokens import TOKENS
from lab.definition.catalogue import choose_experiments
from lab.definition.tokens import Tokens
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.website.data.judged import judged_run
from lab.website.site import build_preview
from lab.website.verification.again import recomputed

CASE, BATCH = "qwen-decode-16x1024-bfloat16", 16
TIMES = {(CASE, "cuda-graph"): 16e-3, (CASE, "patched-graph"): 5e-3}
FOLDER = f"experiments/decode-step/cases/{CASE}"


@pytest.fixture(scope="module")
def run() -> RunResult:
    plan = plan_of(experiments=choose_experiments(["decode-step"]), include=frozenset({"all-shapes"}))
    return judge_run(plan, records_of(plan, TIMES))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, run: RunResult) -> Path:
    directory = write_run(tmp_path_factory.mktemp("runs") / "synthetic", run.plan, run.records)
    build_preview(directory)
    return directory / "preview"


def test_tokens_are_the_product_of_the_axes() -> None:
    assert Tokens(operator="prompt", axes=(0, 1)).of((4, 2048)) == 8192
    assert Tokens(operator="step", axes=(0,)).of((16, 1024)) == 16


def test_the_operators_that_have_tokens_are_those_of_whole_models() -> None:
    shapes = {case.operator.name: case.shape for experiment in EXPERIMENTS for case in experiment.cases}
    counts = {each.operator: each.of(shapes[each.operator]) for each in TOKENS}
    assert counts["qwen-prefill-ways"] == 2048
    assert counts["qwen-decode-ways"] == 1
    parts = {case.operator.name for case in decode_step.PART_CASES} | {part.name for part in qwen_prefill.PARTS}
    whole = {case.operator.name for module in (decode_step, qwen_prefill) for case in module.CASES} - parts
    assert set(counts) == whole


def test_a_rate_is_the_tokens_of_a_call_over_its_median(run: RunResult) -> None:
    (item,) = judged_run(run)
    assert item.data["cases"][CASE]["tokens"] == BATCH
    scopes = item.data["cells"][CASE]["patched-graph"]["scopes"]
    assert set(scopes) >= {"device_cold", "eager"}
    for times in scopes.values():
        assert times["tokens_per_second"] == pytest.approx(BATCH / times["p50_seconds"], rel=1e-6)
    part = "qwen-decode-layer-1x1024-bfloat16"
    assert "tokens" not in item.data["cases"][part]


def test_verification_computes_it_again(run: RunResult) -> None:
    (item,) = judged_run(run)
    (result,) = run.experiments
    assert not list(recomputed(result, item.data, "data.json"))
    changed = copy.deepcopy(item.data)
    changed["cells"][CASE]["cuda-graph"]["scopes"]["eager"]["tokens_per_second"] *= 1.01
    (mismatch,) = recomputed(result, changed, "data.json")
    assert mismatch.place.endswith(f"#/cells/{CASE}/cuda-graph/scopes/eager/tokens_per_second")


@pytest.mark.parametrize("page", [f"{FOLDER}/index.html", "experiments/decode-step/index.html"])
def test_pages_show_it_with_its_datum(site: Path, page: str) -> None:
    html = (site / page).read_text()
    assert "tokens/s" in html.lower()
    data = json.loads((site / "experiments/decode-step/data.json").read_text())
    shown = [
        (value, source.partition("#")[2].split("/")[1:])
        for value, source in Page(site / page).figures
        if source.endswith("tokens_per_second")
    ]
    assert {path[2] for _, path in shown} == {"cuda-graph", "patched-graph"}
    for value, path in shown:
        node = data
        for name in path:
            node = node[name]
        assert float(value) == node


def test_tables_for_programs_have_it(site: Path) -> None:
    lines = (site / "experiments/decode-step/cells.csv").read_text().splitlines()
    assert "device_cold_tokens_per_second" in lines[0].split(",")
