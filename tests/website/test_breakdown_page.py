"""The table of what kernels should save in a whole model: each figure with its datum, and none without times."""

import json
import re
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run
from test_site import Page

from experiments.breakdowns import PROMPT, TOKEN
from lab.definition.catalogue import choose_experiments
from lab.definition.planning import planned
from lab.website.site import build_preview

PAGE = "experiments/qwen-prefill/index.html"
EVERYTHING = frozenset({"all-shapes"})
TIMES = {(PROMPT.case, "sdpa"): 46e-3, (PROMPT.case, "patched"): 43e-3} | {
    (row.case, name): seconds for row in PROMPT.rows for name, seconds in (("sdpa", 2e-3), (row.profile, 1.95e-3))
}


def preview(folder: Path, times: dict[tuple[str, str], float]) -> Path:
    plan = plan_of(experiments=choose_experiments(["qwen-prefill"]), include=EVERYTHING)
    directory = write_run(folder / "synthetic", plan, records_of(plan, times))
    build_preview(directory)
    return directory / "preview" / PAGE


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preview(tmp_path_factory.mktemp("runs"), TIMES)


def test_every_kernel_has_a_row_with_what_was_predicted(page: Path) -> None:
    html = page.read_text()
    section = html[html.index('id="breakdown"') :]
    for row in PROMPT.rows:
        assert row.title in section, row.title
    data = json.loads(page.with_name("data.json").read_text())["breakdown"]
    assert [row["row"]["calls"] for row in data["rows"]] == [row.calls for row in PROMPT.rows]
    assert data["predicted"]["seconds"] == pytest.approx(3 * 28 * 50e-6, rel=0.1)
    assert data["measured"]["seconds"] == pytest.approx(3e-3, rel=0.1)


def test_every_figure_of_the_table_equals_its_datum(page: Path) -> None:
    data = json.loads(page.with_name("data.json").read_text())
    count = 0
    for value, source in Page(page).figures:
        path = source.partition("#")[2].split("/")[1:]
        if path[:1] == ["breakdown"]:
            node = data
            for name in path:
                node = node[int(name)] if isinstance(node, list) else node[name]
            assert str(node) == value
            count += 1
    assert count > 6 * len(PROMPT.rows)


def test_each_cause_of_the_difference_is_weighed_or_said_not_to_be_measured(page: Path) -> None:
    html = page.read_text()
    section = re.sub(r"<[^>]*>", "", html[html.index('id="breakdown"') :])
    assert "Saved minus predicted: " in section
    assert "by both intervals from " in section
    assert "The clock: by spins between the calls it was 1930 MHz in the model, and 1930 MHz where" in section
    assert "How much that makes was not measured, for the parts that are added are not all of the model." in section
    assert "The cache: a part finds its inputs just written" in section


def test_parts_of_a_token_are_all_of_it(tmp_path: Path) -> None:
    times = {(TOKEN.case, "cuda-graph"): 11e-3, (TOKEN.case, "patched-graph"): 6e-3}
    for row, before, after in zip(TOKEN.rows, (390e-6, 450e-6), (205e-6, 400e-6), strict=True):
        times |= {(row.case, "cuda-graph"): before, (row.case, row.profile): after}
    plan = plan_of(experiments=choose_experiments(["decode-step"]), include=EVERYTHING)
    directory = write_run(tmp_path / "synthetic", plan, records_of(plan, times, noise=0.0005))
    build_preview(directory)
    page = directory / "preview/experiments/decode-step/index.html"
    data = json.loads(page.with_name("data.json").read_text())["breakdown"]
    assert data["excess_before_seconds"] == pytest.approx(370e-6, rel=0.1)
    assert data["excess_after_seconds"] == pytest.approx(140e-6, rel=0.2)
    assert "Copies and gaps: alone, the parts together take " in page.read_text()


def test_a_run_without_the_parts_has_no_such_table(tmp_path: Path) -> None:
    path = preview(tmp_path, {place: seconds for place, seconds in TIMES.items() if place[0] == PROMPT.case})
    assert 'id="breakdown"' not in path.read_text()
    assert "breakdown" not in json.loads(path.with_name("data.json").read_text())


def test_the_whole_model_and_its_parts_are_cases_of_the_experiment() -> None:
    (experiment,) = choose_experiments(["qwen-prefill"])
    names = {case.name for case in planned(experiment, EVERYTHING).included_cases}
    assert {PROMPT.case, *(row.case for row in PROMPT.rows)} <= names
