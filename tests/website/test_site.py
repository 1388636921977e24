"""The built site: complete, reproducible, traceable, self-contained, and harmless whatever the text."""

import dataclasses
import html.parser
import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from factory import ceiling_seconds, measured_run, plan_of, publish, records_of, small_experiment, write_run

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.errors import DefinitionError
from lab.evidence import journal
from lab.evidence.record import Counters, FlushCheck, RunFinish
from lab.evidence.source import ROOT
from lab.website.data.judged_cache import judged
from lab.website.data.promoted import load_evidence
from lab.website.site import build_preview, build_site
from lab.website.verification.figures import resolved

EXPERIMENT = "experiments/normalization-fusion/index.html"
TIMES = {
    "torch-baseline": 230e-6, "torch-fused": 30e-6, "torch-compile": 23e-6,
    "triton-fused-rmsnorm": 22e-6, "triton-fused-layernorm": 23e-6,
}  # fmt: skip

PREVIEWED = ("normalization-fusion", "rope-fusion", "swiglu-fusion", "gated-mlp", CEILINGS)
VOID = ("br", "img", "input", "link", "meta")

pytestmark = pytest.mark.usefixtures("few_experiments")


class Page(html.parser.HTMLParser):
    """What a test asks of a page: its ids, links, figures, tags and visible text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.figures: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[tuple[str, str]] = []  # (tag, the beginning of the pointers inside)
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += list(attributes.items())
        self.ids += [attributes["id"]] if "id" in attributes else []
        at = resolved(self._open[-1][1] if self._open else "", attributes.get("data-at", ""))
        self.links += [attributes[name] for name in ("href", "src", "data-script") if name in attributes]
        if "data-src" in attributes:
            self.figures.append((attributes["value"], resolved(at, attributes["data-src"])))
        if tag not in VOID:
            self._open.append((tag, at))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        self.text += data


@cache
def page_at(path: Path) -> Page:
    return Page(path)


@cache
def data_at(path: Path) -> object:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def preview(tmp_path_factory) -> Path:
    """A profiled run with the ceilings of its GPU."""
    plan = plan_of(experiments=choose_experiments(PREVIEWED), profiling=True)
    records = records_of(plan, TIMES | ceiling_seconds())
    directory = write_run(tmp_path_factory.mktemp("runs") / "synthetic", plan, records)
    build_preview(directory)
    return directory / "preview"


def test_two_builds_of_the_same_evidence_are_equal_byte_for_byte(tmp_path):
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    publish(evidence, measured_run(tmp_path, TIMES))
    decisions.mkdir()
    for name in ("one", "two"):
        build_site(tmp_path / name, decisions, evidence)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert Path(EXPERIMENT) in files
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_the_committed_site_holds_no_python():
    assert not list((ROOT / "site").rglob("*.py"))


def test_an_experiment_without_evidence_says_so_and_lists_every_claim(tmp_path):
    (tmp_path / "decisions").mkdir()
    build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "none")
    page = Page(tmp_path / "site" / EXPERIMENT)
    assert "No run of this experiment has been published yet." in page.text
    (asked,) = plan_of().experiments
    assert asked.headlines
    assert {f"claim-{claim.name}" for claim in asked.claims} <= set(page.ids)


def test_every_part_of_the_page_is_there(preview):
    page = Page(preview / EXPERIMENT)
    anchors = (
        "contest cases claims boundary decisions reproduce provenance why explanation limits correctness downloads"
    )
    for anchor in anchors.split():
        assert anchor in page.ids, anchor
    (asked,) = plan_of().experiments
    for word in (asked.question, asked.title, "--include-rmsnorm-shape-sweep", "benchmark-norms --backend all",
                 "The claims do not show", "81.5"):  # fmt: skip
        assert word in page.text, word


def test_every_figure_equals_the_datum_that_it_points_at(preview):
    pages = list(preview.rglob("index.html"))
    count = 0
    for path in pages:
        for value, source in Page(path).figures:
            file, _, pointer = source.partition("#")
            node = data_at(path.parent / file)
            for name in pointer.split("/")[1:]:
                node = node[int(name)] if isinstance(node, list) else node[name]
            assert str(node) == value, (path, pointer)
            count += 1
    assert count > 200


def test_no_number_with_a_unit_stands_without_a_pointer(preview):
    text = (preview / EXPERIMENT).read_text()
    sections = (("contest", "boundary"), ("more", "downloads"))
    shown = "".join(text[text.index(f'id="{one}"') : text.index(f'id="{other}"')] for one, other in sections)
    visible = re.sub(r"<(data|script|svg)\b.*?</\1>", "", shown, flags=re.DOTALL)
    visible = re.sub(r"<[^>]+>", " ", visible)
    assert not re.findall(r"\d[\d.]*\s*(?:µs|[GT]B/s|TFLOP/s|MB|×(?!\d))", visible)


def test_every_table_can_be_scrolled_by_keyboard_and_says_what_its_headers_head(preview):
    for path in preview.rglob("*.html"):
        text = path.read_text()
        assert len(re.findall(r'role="region" tabindex="0" aria-label="[^"]+">\s*<table', text)) == text.count("<table")
        assert not re.findall(r"<th(?![^>]*scope=)[ >]", text), path


def test_the_ceilings_have_a_page_of_their_own_to_which_others_link(preview):
    page = Page(preview / "experiments" / "gpu-ceilings" / "index.html")
    assert {"ladder-table", "ceilings"} <= set(page.ids)
    assert "limits" not in page.ids
    for word in ("L2, 52.4 MB", "datasheet, 3.35 TB/s", "dense, never sparse", "Dense float8 matmuls"):
        assert word in page.text, word
    assert "../gpu-ceilings/index.html" in Page(preview / EXPERIMENT).links


def test_what_a_run_did_not_measure_its_page_says_instead_of_showing_nothing(tmp_path):
    directory = measured_run(tmp_path, TIMES, sweeps=3)
    build_preview(directory)
    page = Page(directory / "preview" / EXPERIMENT)
    assert not {"limits", "traffic"} & set(page.ids)
    assert "the run has no gpu-ceilings beside it" in page.text
    assert "the profiler counted none in this run, which had no --with-profiling." in page.text


def test_a_run_that_ended_before_its_counters_is_not_said_to_have_lacked_the_option(tmp_path):
    plan = plan_of(sweeps=3, profiling=True)
    records = [record for record in records_of(plan, TIMES) if not isinstance(record, Counters | FlushCheck)]
    directory = write_run(tmp_path / plan.run_id, plan, records)
    build_preview(directory)
    page = Page(directory / "preview" / EXPERIMENT)
    assert "traffic" not in page.ids
    assert "the profiler counted none in this run." in page.text


def test_links_fragments_and_assets_resolve(preview):
    for path in preview.rglob("*.html"):
        page = Page(path)
        assert len(page.ids) == len(set(page.ids)), path
        for link in page.links:
            target = urlsplit(link)
            assert not target.scheme, f"{path}: {link} leaves the site"
            file = (path.parent / unquote(target.path)) if target.path else path
            assert file.is_file(), f"{path}: {link}"
            if target.fragment and file.suffix == ".html":
                assert target.fragment in page_at(file.resolve()).ids, f"{path}: {link}"


def test_pages_are_complete_without_scripts_and_admit_none_but_their_own(preview):
    for path in preview.rglob("*.html"):
        text = path.read_text()
        assert "unsafe-" not in text
        assert "default-src 'none'" in text
        for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL):
            assert "src=" in attributes or "application/json" in attributes
            assert "src=" not in attributes or not body
        assert not re.search(r"\son\w+=", text)


def test_a_preview_says_that_it_is_not_published(preview):
    assert "not published" in Page(preview / EXPERIMENT).text


def test_a_preview_judges_published_runs_of_its_own_experiments_alone(tmp_path, monkeypatch):
    """In a new clone nothing is kept of them, and judging all would take longer than the first run itself."""
    evidence, asked = tmp_path / "evidence", []
    publish(evidence, measured_run(tmp_path, TIMES, run_id="same"))
    other = plan_of("other", experiments=[small_experiment()], include=())
    publish(evidence, write_run(tmp_path / "other", other, records_of(other, {"plain": 60e-6, "fast": 40e-6})))
    monkeypatch.setattr("lab.website.site.load_evidence", lambda: load_evidence(evidence))
    monkeypatch.setattr(
        "lab.website.site.judged", lambda item, kept: asked.append(item) or judged(item, tmp_path / "kept")
    )
    directory = measured_run(tmp_path, TIMES, run_id="new")
    build_preview(directory)
    assert [item.directory.name for item in asked] == ["same"]
    assert "same" in Page(directory / "preview" / EXPERIMENT).text, "in the history"


def test_cpu_evidence_is_labelled_on_every_experiment_page(tmp_path):
    skipped = dict.fromkeys(
        ("triton-fused-rmsnorm", "triton-fused-layernorm", "liger"),
        ("skipped", "needs a CUDA GPU, and this run measures the CPU"),
    )
    times = {"torch-baseline": 60e-3, "torch-fused": 90e-3, "torch-compile": 12e-3}
    directory = measured_run(tmp_path, times, device="cpu", sweeps=3, outcomes=skipped)
    build_preview(directory)
    page = Page(directory / "preview" / EXPERIMENT)
    assert "CPU evidence." in page.text
    assert "needs a CUDA GPU" in page.text
    for path in (directory / "preview").rglob("*.html"):
        assert "CPU evidence" in Page(path).text, path
    assert page.text.count("CPU evidence") >= 10


def test_a_failed_and_a_wrong_cell_stay_on_the_page_with_their_reason(tmp_path):
    outcomes = {"torch-compile": ("failed", "RuntimeError: it broke"), "liger": ("wrong", "NaN where 1 was due")}
    directory = measured_run(tmp_path, TIMES, outcomes=outcomes)
    build_preview(directory)
    text = Page(directory / "preview" / EXPERIMENT).text
    assert "RuntimeError: it broke" in text
    assert "NaN where 1 was due" in text
    assert "wrong result" in text


def test_hostile_text_in_evidence_is_shown_and_never_run(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{ 7*7 }}"
    plan = plan_of("hostile")
    outcomes = {"torch-compile": ("failed", evil), "liger": ("skipped", evil)}
    directory = write_run(tmp_path / "hostile", plan, records_of(plan, TIMES, outcomes=outcomes))
    build_preview(directory)
    page = Page(directory / "preview" / EXPERIMENT)
    assert evil in page.text
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_an_unknown_claim_in_a_decision_fails_the_build_and_keeps_the_old_site(tmp_path):
    decisions, out = tmp_path / "decisions", tmp_path / "site"
    decisions.mkdir()
    build_site(out, decisions, tmp_path / "none")
    before = (out / "index.html").read_bytes()
    (decisions / "0001-x.md").write_text(
        "---\ntitle: t\nstatus: accepted\ndate: 2026-01-01\nreview_by: 2027-01-01\n"
        "rests_on:\n  - {claim: normalization-fusion/none-such, expects: supported}\n---\nx\n"
    )
    with pytest.raises(DefinitionError, match="none-such"):
        build_site(out, decisions, tmp_path / "none")
    assert (out / "index.html").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decisions", "site"]


def test_the_newest_gpu_evidence_is_shown_and_the_others_are_listed(tmp_path):
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    decisions.mkdir()
    publish(evidence, measured_run(tmp_path, TIMES, run_id="gpu-run"))
    publish(
        evidence, measured_run(tmp_path, {"torch-baseline": 1e-2, "torch-fused": 2e-2}, run_id="cpu-run", device="cpu")
    )
    build_site(tmp_path / "site", decisions, evidence)
    data = json.loads((tmp_path / "site" / EXPERIMENT).with_name("data.json").read_text())
    assert data["evidence"]["run_id"] == "gpu-run"
    assert "cpu-run" in Page(tmp_path / "site" / EXPERIMENT).text


def test_a_newer_run_that_refutes_stands_before_an_older_one_that_was_profiled(tmp_path):
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    decisions.mkdir()
    slow = TIMES | {"triton-fused-rmsnorm": 60e-6}
    for run_id, times, profiling, day in (("older", TIMES, True, "2026-11-20"), ("newer", slow, False, "2026-11-21")):
        plan = plan_of(run_id, profiling=profiling)
        records = records_of(plan, times)
        dated = [
            dataclasses.replace(record, finished_utc=f"{day}T12:00:00Z") if isinstance(record, RunFinish) else record
            for record in records
        ]
        publish(evidence, write_run(tmp_path / run_id, plan, dated))
    build_site(tmp_path / "site", decisions, evidence)
    data = json.loads((tmp_path / "site" / EXPERIMENT).with_name("data.json").read_text())
    assert data["evidence"]["run_id"] == "newer"
    assert data["claims"]["triton-rmsnorm-beats-torch-fused"]["status"] == "refuted"


def test_damaged_journal_lines_are_named_on_the_page(tmp_path):
    directory = measured_run(tmp_path, TIMES)
    path = directory / journal.NAME
    lines = path.read_text().splitlines()
    lines[6] = "0" * 16 + lines[6][16:]
    path.write_text("\n".join(lines) + "\n")
    build_preview(directory)
    assert "Journal line 7" in Page(directory / "preview" / EXPERIMENT).text
