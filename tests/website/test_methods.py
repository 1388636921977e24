"""The page on the guard: every rule, every finding, each figure with its datum, each table in a region of its own."""

import json
import re
from pathlib import Path

import pytest
from test_site import Page

from experiments.audits import AUDITS
from lab.verdict.audit.rules import RULES, audit
from lab.website.format import amount
from lab.website.pages.methods import guarded, methods_page
from lab.website.refusal import words_text
from lab.website.site import build_site
from lab.website.table import plain

pytestmark = pytest.mark.usefixtures("few_experiments")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (13.308e-6, "seconds", "13.31 µs"), (0.14342, "seconds", "143.4 ms"), (84_417_536, "bytes", "84.42 MB"),
        (7168, "bytes", "7.168 kB"), (600e9, "bytes_per_second", "600 GB/s"),
        (4.93e12, "bytes_per_second", "4930 GB/s"), (2.147483648e9, "flops", "2.147 GFLOP"),
        (1.979e15, "flops_per_second", "1979 TFLOP/s"), (9.4, "ratio", "9.4×"), (1.222, "number", "1.222"),
        (0.2664, "share", "26.64 %"), (11008, "count", "11,008"), (1000, "ratio", "1000×"),
    ],
)  # fmt: skip
def test_an_amount_shows_its_unit_and_no_idle_zeros(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("built")
    (root / "decisions").mkdir()
    build_site(root / "site", root / "decisions", root / "none")
    return root / "site"


@pytest.fixture(scope="module")
def text(site) -> str:
    return " ".join(Page(site / "methods" / "index.html").text.split())


def test_every_rule_and_its_count_is_on_the_page(site, text) -> None:
    data = json.loads((site / "methods" / "data.json").read_text())
    for rule in RULES:
        assert rule.statement in text, rule.name
        assert rule.principle in text
        assert data["rules"][rule.name] == sum(len(audit(each).get(rule.name, ())) for each in AUDITS)


def test_every_finding_is_on_the_page_with_its_sentence(text) -> None:
    for publication in AUDITS:
        assert publication.title in text
        for findings in audit(publication).values():
            for finding in findings:
                assert finding.row in text
                assert " ".join(words_text(finding.words).split()) in text, finding.row


def test_every_figure_equals_the_datum_that_it_points_at(site) -> None:
    page = Page(site / "methods" / "index.html")
    data = json.loads((site / "methods" / "data.json").read_text())
    assert len(page.figures) > 800
    for value, source in page.figures:
        node = data
        for name in source.partition("#")[2].split("/")[1:]:
            node = node[int(name) if isinstance(node, list) else name.replace("~1", "/").replace("~0", "~")]
        assert str(node) == value, source


def test_the_counts_add_up(site) -> None:
    data = json.loads((site / "methods" / "data.json").read_text())
    assert data["findings"] == sum(data["rules"].values()) == sum(p["findings"] for p in data["publications"].values())
    assert data["own"]["rows"] == 0, "nothing has been published here"


def test_each_table_scrolls_in_a_region_that_has_a_name(site) -> None:
    html = (site / "methods" / "index.html").read_text()
    assert html.count("<table") == len(re.findall(r'<div class="scroll" role="region" tabindex="0" aria-label', html))


def test_every_page_of_the_site_links_to_it(site) -> None:
    for path in site.rglob("index.html"):
        assert any(link.endswith("methods/index.html") for link in Page(path).links), path


def test_the_page_counts_what_this_site_publishes_itself() -> None:
    page = methods_page(AUDITS, [guarded(each, audit(each)) for each in AUDITS[2:]])
    assert page.data["own"]["rows"] == sum(len(table.rows) for each in AUDITS[2:] for table in each.tables)


def test_the_limits_are_of_the_sites_own_gpus_too_and_each_stands_once() -> None:
    names = [
        plain(row.cells[0]) for row in methods_page(AUDITS, [], gpus=["NVIDIA H100 80GB HBM3", "Unknown"]).limits.rows
    ]
    audited = [plain(row.cells[0]) for row in methods_page(AUDITS, []).limits.rows]
    assert names == ["NVIDIA H100 80GB HBM3", *audited]
    again = [plain(row.cells[0]) for row in methods_page(AUDITS, [], gpus=["NVIDIA H200"]).limits.rows]
    assert again == ["NVIDIA H200", *(name for name in audited if name != "H200")]


def test_a_project_that_audits_nothing_has_the_rules_without_counts() -> None:
    page = methods_page([], [])
    assert plain(page.lede).endswith("whether it contradicts itself.")
    assert [head.text for head in page.rules.heads] == ["Rule", "A finding is", "Here it"]
    assert page.limits.rows == []
