"""The table of what kernels should save in a whole model: each figure with its datum, and none without times."""

import json
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run
from test_site import Page

from experiments.breakdowns import PROMPT
from lab.definition.catalogue import choose_experiments
from lab.definition.plan import planned
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
    assert [row["calls"] for row in data["rows"]] == [row.calls for row in PROMPT.rows]
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


def test_a_run_without_the_parts_has_no_such_table(tmp_path: Path) -> None:
    path = preview(tmp_path, {place: seconds for place, seconds in TIMES.items() if place[0] == PROMPT.case})
    assert 'id="breakdown"' not in path.read_text()
    assert "breakdown" not in json.loads(path.with_name("data.json").read_text())


def test_the_whole_model_and_its_parts_are_cases_of_the_experiment() -> None:
    (experiment,) = choose_experiments(["qwen-prefill"])
    names = {case.name for case in planned(experiment, EVERYTHING).included_cases}
    assert {PROMPT.case, *(row.case for row in PROMPT.rows)} <= names
