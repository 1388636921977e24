"""Every question about a whole site, asked of a made-up site and of the committed one; and that each would complain."""

import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import html5lib
import pytest
import whole_site
from factory import SWEEP_FLAG, machine, measured_run, plan_of, publish, records_of, take_stock, write_run
from plain_html import plain_tree
from whole_site import QUESTIONS, Whole

from lab.definition.catalogue import choose_experiments
from lab.evidence.source import ROOT
from lab.website.site import build_preview, build_site
from lab.website.verification.files import check_manifest

FAST = {
    "torch-baseline": 230e-6, "torch-fused": 30e-6, "torch-compile": 23e-6,
    "triton-fused-rmsnorm": 22e-6, "triton-fused-layernorm": 31e-6,
}  # fmt: skip
SLOW = FAST | {"triton-fused-rmsnorm": 33e-6}
ON_CPU = {"torch-baseline": 60e-3, "torch-fused": 90e-3, "torch-compile": 12e-3}
PAGE = "experiments/normalization-fusion/index.html"
CELLS = "experiments/normalization-fusion/cells.csv"
LINKS, NAMES, HTML = "links_that_lead_nowhere", "names_that_are_not_one", "html_that_is_not_valid"
DATA, FEED = "data_that_no_schema_allows", "feed_that_is_no_atom"
TABLES = "tables_that_are_not_as_shown"
CHALLENGED = """---
title: Use the kernel
status: accepted
date: 2026-01-01
review_by: 2027-01-01
acknowledged: It is measured again next week.
rests_on:
  - {claim: normalization-fusion/triton-rmsnorm-beats-torch-fused, expects: refuted, acknowledged: supported}
---
We use it.
"""
ELSEWHERE = """---
title: Use the kernel there
status: accepted
date: 2026-01-01
review_by: 2027-01-01
rests_on:
  - claim: normalization-fusion/triton-rmsnorm-beats-torch-fused
    expects: supported
    evidence: EVIDENCE
---
We use it on that model.
"""

pytestmark = pytest.mark.usefixtures("few_experiments")


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a GPU between which a verdict changed, one on another GPU model, one on a CPU; a decision that is
    challenged, and one that rests on the other model."""
    root = tmp_path_factory.mktemp("whole")
    every = (SWEEP_FLAG,)
    on = machine(gpu="NVIDIA H200", gpu_id="ba9876543210")
    other = publish(
        root / "evidence", measured_run(root / "runs", FAST, run_id="a-another-model", on=on, include=every)
    )
    publish(root / "evidence", measured_run(root / "runs", SLOW, run_id="a-first-look", include=every))
    publish(root / "evidence", measured_run(root / "runs", FAST, run_id="a-second-look", seed=2, include=every))
    publish(
        root / "evidence", measured_run(root / "runs", FAST, run_id="b-with-counters", profiling=True, include=every)
    )
    plan = plan_of("on-a-cpu", experiments=choose_experiments(["softmax-fusion"]), device="cpu", sweeps=3)
    publish(root / "evidence", write_run(root / "runs" / "on-a-cpu", plan, records_of(plan, ON_CPU)))
    (root / "decisions").mkdir()
    (root / "decisions" / "0001-use-it.md").write_text(CHALLENGED)
    (root / "decisions" / "0002-on-another-model.md").write_text(ELSEWHERE.replace("EVIDENCE", other[:12]))
    build_site(root / "site", root / "decisions", root / "evidence")
    return root / "site"


@pytest.fixture(scope="module")
def sound(made_up: Path) -> Whole:
    return Whole(made_up)


@pytest.fixture(scope="module", params=["made-up", "committed"])
def whole(request: pytest.FixtureRequest) -> Whole:
    return Whole(ROOT / "site") if request.param == "committed" else request.getfixturevalue("sound")


def test_pages_keep_gpu_models_apart_and_take_runs_of_one_model_together(made_up: Path) -> None:
    experiment = (made_up / PAGE).read_text(encoding="utf-8")
    assert "Also measured on" in experiment
    assert "neither confirm nor contradict" in experiment
    assert "A newer run says otherwise" not in experiment
    assert re.search(r">3</data> runs on <data [^>]*>1</data> board: ", experiment)
    decision = (made_up / "decisions/0002-on-another-model/index.html").read_text(encoding="utf-8")
    assert "The fullest new evidence is of another GPU model and does not count here" in decision
    assert "on NVIDIA H100 80GB HBM3" in decision
    (notice,) = [text for path in made_up.glob("runs/*/normalization-fusion/index.html")
                 if "Another GPU is shown now" in (text := path.read_text(encoding="utf-8"))]  # fmt: skip
    assert "These verdicts hold for NVIDIA H200" in notice
    trust = (made_up / "trust/index.html").read_text(encoding="utf-8")
    assert re.search(r"Goals missed:.*<li[^>]*>[^<]* on H100 80GB HBM3: ", trust, re.DOTALL)
    pair = next(path for path in made_up.glob("compare/*/index.html") if "Different models." in path.read_text())
    assert "Changed." not in pair.read_text(encoding="utf-8")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_nothing_is_to_be_said_against_a_site(whole: Whole, question: Callable[[Whole], Iterator[str]]) -> None:
    complaints = list(question(whole))
    assert not complaints, f"{len(complaints)}: " + "\n".join(complaints[:20])


def test_what_is_read_as_plain_html_is_what_a_parser_of_html_reads(sound: Whole) -> None:
    """Of the largest pages; of the others the C parser is taken at its word."""
    largest = sorted(sound.pages.values(), key=lambda page: len(page.text))[-12:]
    assert sum(plain_tree(page.text) is not None for page in largest) > 10
    for page in largest:
        parser = html5lib.HTMLParser(namespaceHTMLElements=False)
        assert outline(parser.parse(page.text)) == outline(page.tree), page.name
        assert not parser.errors


def outline(tree: ET.Element) -> list[tuple[str, list[str], int]]:
    return [(str(element.tag), sorted(set(element.keys()) - {"xmlns"}), len(element)) for element in tree.iter()]


@pytest.mark.parametrize(
    "inside",
    [
        "<p><ul><li>x</li></ul></p>", "<p><span><div>x</div></span></p>", "<ul><li>x<li>y</ul>", "<p>x", "<b>x</p></b>",
        "<table><tr><td>x</td></tr></table>", "<table><tbody>x</tbody></table>", "<div/>",
        '<a href="x"><b><a href="y">x</a></b></a>', "<h2><h3>x</h3></h2>", "<br></br>", "a & b", "a &shy; b", "a < b",
        '<p id="a" id="b">x</p>', "<svg><p>x</p></svg>", "<!-- x -->", "<script>x</script>", "<P>x</P>", "<li>x</li>",
        "<table>&nbsp;<tbody></tbody></table>",
    ],
)  # fmt: skip
def test_what_only_a_parser_of_html_can_read_is_left_to_it(inside: str) -> None:
    page = "<!doctype html>\n<html><head></head><body>{}</body></html>"
    assert plain_tree(page.format('<p id="a">x<br>y&nbsp;z</p><input checked>')) is not None
    assert plain_tree(page.format(inside)) is None


def test_a_preview_holds_the_tables_and_schemas(tmp_path: Path) -> None:
    directory = measured_run(tmp_path, FAST, sweeps=3)
    build_preview(directory)
    preview = Whole(directory / "preview")
    assert not list(whole_site.data_that_no_schema_allows(preview))
    assert not list(whole_site.tables_that_are_not_as_shown(preview))
    assert not list(whole_site.links_that_lead_nowhere(preview))
    assert preview.named("cells.csv")
    assert "feed.atom" not in preview.files


# What is broken: file, text in it, what stands there instead; and who has to notice.
END = "</main>"
BREAKS = {
    "a link to a page that is gone": (PAGE, END, f'<a href="../../polity/index.html">x</a>{END}', LINKS),
    "a fragment that nothing is called": (PAGE, END, f'<a href="#nothing">x</a>{END}', LINKS),
    "a link out of the site": (PAGE, END, f'<a href="../../../x">x</a>{END}', LINKS),
    "a link to who knows where": (PAGE, END, f'<a href="https://example.org/">x</a>{END}', LINKS),
    "a script from elsewhere": (PAGE, END, f'<script src="https://github.com/x.js"></script>{END}', LINKS),
    "a picture that is not there": (PAGE, END, f'<img src="x.png" alt="">{END}', LINKS),
    "a style that loads": ("assets/style.css", "body {", "@import url(x.css); body {", "styles_that_ask_elsewhere"),
    "an id twice": (PAGE, 'id="boundary"', 'id="cases"', "ids_that_are_not_one"),
    "a label of nothing": (PAGE, END, f'<p aria-labelledby="nothing">x</p>{END}', "ids_that_are_not_one"),
    "a title twice": ("policy/index.html", "<title>How verdicts are made", "<title>Decisions", NAMES),
    "no description": (PAGE, '<meta name="description"', '<meta name="descriptor"', NAMES),
    "a section that is not closed": (PAGE, END, f"<section>{END}", HTML),
    "a list in a paragraph": (PAGE, END, f"<p><ul></ul></p>{END}", HTML),
    "a block in a mark": (PAGE, END, f"<h2><div>x</div></h2>{END}", HTML),
    "an item of no list": (PAGE, END, f"<li>x</li>{END}", HTML),
    "a link in a link": (PAGE, END, f'<a href="#content"><button>x</button></a>{END}', HTML),
    "two titles of a page": (PAGE, END, f"<h1>x</h1>{END}", HTML),
    "an attribute twice": (PAGE, END, f'<p class="a" class="b">x</p>{END}', HTML),
    "a policy that lets forms out": (PAGE, "form-action 'none'; ", "", "pages_without_a_policy"),
    "a style of one element": (PAGE, END, f'<p style="color: red">x</p>{END}', "pages_without_a_policy"),
    "a script of one element": (PAGE, END, f'<p onclick="x()">x</p>{END}', "pages_without_a_policy"),
    "a page that the sitemap lacks": (
        "sitemap.xml", "<loc>policy/index.html</loc>", "<loc>policy/none.html</loc>", "pages_that_the_sitemap_lacks"
    ),
    "a changed file": (PAGE, END, f"x{END}", "files_that_the_manifest_denies"),
    "an unknown datum": ("data.json", '"claims"', '"claim_count": 1, "claims"', DATA),
    "data without a schema": ("data.json", "schemas/overview.json", "overview.json", DATA),
    "a feed that is older than its news": ("feed.atom", "<updated>2026-01-02", "<updated>2025-01-02", FEED),
    "an id of the feed that is an address": (
        "feed.atom", "<id>tag:kernel-evidence-lab.invalid,2026:", "<id>https://x/", FEED
    ),
    "a table with another number": (CELLS, ",20,", ",21,", TABLES),
    "a table with a row less": (CELLS, "torch-compile", "torch-fused", TABLES),
    "a table of which there is no file": (
        "glossary/index.html", END, f"<table><tr><td>x</td></tr></table>{END}", "tables_that_are_only_shown"
    ),
    "a table for one system only": (CELLS, "\r\n", "\n", "tables_that_no_reader_reads"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "question"), BREAKS.values(), ids=BREAKS)
def test_what_is_broken_is_noticed(sound: Whole, tmp_path: Path, name: str, old: str, new: str, question: str) -> None:
    broken = tmp_path / "site"
    shutil.copytree(sound.folder, broken, copy_function=os.link)
    text = (broken / name).read_bytes().decode()
    assert old in text, "nothing was broken"
    (broken / name).unlink()
    (broken / name).write_bytes(text.replace(old, new, 1).encode())
    assert list(getattr(whole_site, question)(Whole(broken, like=sound)))


def test_a_file_that_was_added_is_noticed_and_a_new_inventory_takes_it_in(sound: Whole, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(sound.folder, site, copy_function=shutil.copyfile)
    (site / "more.txt").write_text("more")
    assert [mismatch.place for mismatch in check_manifest(site)] == ["more.txt"]
    (site / "policy" / "index.html").unlink()
    assert [mismatch.place for mismatch in check_manifest(site)] == ["more.txt", "policy/index.html"]
    take_stock(site)
    assert not list(check_manifest(site))
    assert json.loads((site / "manifest.json").read_text())["files"]["more.txt"]["bytes"] == 4
