"""The section on published speed-ups: on a page with evidence and without, each figure with its datum."""

import json
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run
from test_site import Page

from lab.definition.catalogue import choose_experiments
from lab.website.site import build_preview, build_site

pytestmark = pytest.mark.usefixtures("few_experiments")

PAGE = "experiments/headline-tables/index.html"
TIMES = {"torch-baseline": 180e-6, "torch-compile": 25e-6, "triton": 24e-6}


def preview(folder: Path, device: str = "cuda", **how: object) -> Path:
    plan = plan_of(experiments=choose_experiments(["headline-tables"]), device=device, profiling=device == "cuda")
    directory = write_run(folder / "synthetic", plan, records_of(plan, TIMES, **how))  # type: ignore[arg-type]
    build_preview(directory)
    return directory / "preview" / PAGE


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return preview(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("built")
    (root / "decisions").mkdir()
    build_site(root / "site", root / "decisions", root / "none")
    return root / "site"


def section(path: Path) -> str:
    html = path.read_text()
    return html[html.index('id="replication"') : html.index('id="downloads"')]


def test_every_published_speedup_stands_beside_what_was_measured(page) -> None:
    shown_page = Page(page)
    assert "replication" in shown_page.ids
    data = json.loads(page.with_name("data.json").read_text())["replication"]
    assert section(page).count('<td class="why') == sum(map(len, data["tables"].values())) == 31
    for word in ("77.87× = ", "RTX 5090", "1792 GB/s", "3352 GB/s"):
        assert word in shown_page.text, word


def test_every_figure_of_the_section_equals_its_datum_and_none_stands_without(page) -> None:
    data = json.loads(page.with_name("data.json").read_text())
    count = 0
    for value, source in Page(page).figures:
        if "/replication/" not in source:
            continue
        node = data
        for name in source.partition("#")[2].split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            node = node[int(name)] if isinstance(node, list) else node[name]
        assert str(node) == value, source
        count += 1
    full = section(page).count('class="why') - section(page).count("as under “")
    assert full < 31, "each case is measured once, and stands in one table or in two"
    assert count > 31 * 8 + full * 8


def test_factors_multiply_to_the_published_one(page) -> None:
    data = json.loads(page.with_name("data.json").read_text())["replication"]
    for cases in data["tables"].values():
        for case in cases.values():
            product = 1.0
            for factor in case["factors"].values():
                product *= factor
            assert product == pytest.approx(case["printed"]["ratio"], rel=1e-5)


def test_no_two_factors_only_take_each_other_back(page) -> None:
    """What a host's clock adds is an estimate; the remainder beside it would undo its error, and explain nothing."""
    data = json.loads(page.with_name("data.json").read_text())["replication"]
    names = {name for cases in data["tables"].values() for case in cases.values() for name in case["factors"]}
    assert names == {"rival", "formula", "warmth", "clock"}


def test_the_answer_is_what_is_left_against_the_fastest_other_profile(page) -> None:
    html = page.read_text()
    answer = html[html.index('<p class="lede">') :].partition("</p>")[0]
    assert " as fast as the fastest other implementation (" in " ".join(answer.split())
    assert "/replication/measured/" in answer
    assert "/claims/" not in answer


def test_without_evidence_the_published_figures_stand_alone(empty) -> None:
    assert section(empty / PAGE).count("not measured yet") == 31
    cases = [path.read_text() for path in (empty / PAGE).parent.glob("cases/*/index.html")]
    assert all('id="published"' in html for html in cases)
    assert sum(" ".join(html.split()).count("that the memory of the RTX 5090 needs") for html in cases) > 1


def test_why_a_published_figure_differs_stands_on_the_cases_page(page) -> None:
    case = Page(page.parent / "cases" / "swiglu-2048x18944-float16" / "index.html")
    assert "published" in case.ids
    assert "../../index.html#replication" in case.links
    pointers = {source.partition("#")[2] for _, source in case.figures}
    assert any(pointer.startswith("/replication/tables/") and "/reasons/" in pointer for pointer in pointers)


def test_the_page_on_the_guard_links_to_it(empty) -> None:
    methods = empty / "methods" / "index.html"
    assert "../experiments/headline-tables/index.html#replication" in Page(methods).links
    assert "../../methods/index.html#cuda-kernels" in Page(empty / PAGE).links


def test_what_a_cpu_cannot_run_is_said_in_its_place(tmp_path) -> None:
    skipped = {"triton": ("skipped", "needs a CUDA GPU, and this run measures the CPU")}
    path = preview(tmp_path, device="cpu", outcomes=skipped)
    assert section(path).count("skipped: needs a CUDA GPU") == 31
    assert "published" not in Page(path).ids


def test_other_experiments_have_no_such_section(empty) -> None:
    assert "replication" not in Page(empty / "experiments" / "normalization-fusion" / "index.html").ids
