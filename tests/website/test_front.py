"""Front page, decisions, glossary and search of one small published site."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from factory import plan_of, records_of, write_run
from test_site import Page, publish

from lab.definition.experiment import SCOPES
from lab.evidence.record import RunFinish
from lab.verdict.judge import NOISY_RATIO, READING_ORDER
from lab.verdict.results import judge_run
from lab.website.charts.verdicts import verdict_bar
from lab.website.data.judged import Judged, judged_run
from lab.website.decisions import Freshness
from lab.website.outputs import Gathered
from lab.website.pages.decisions import decision_rows
from lab.website.pages.established import MOST_FAILED, MOST_FIRST, established
from lab.website.pages.outline import outline
from lab.website.pages.rivals import by_rival, kind_of
from lab.website.site import build_site

TIMES = {
    "torch-baseline": 230e-6, "torch-fused": 30e-6, "torch-compile": 23e-6, "liger": 22.5e-6,
    "triton-fused-rmsnorm": 22e-6, "triton-fused-layernorm": 23e-6,
}  # fmt: skip
SLOWER = TIMES | {"triton-fused-layernorm": 31e-6}
CLAIM = "normalization-fusion/large-triton-rmsnorm-beats-torch-fused"
FELL = "normalization-fusion/triton-layernorm-beats-torch-fused"


def record(title: str, status: str, rests_on: str, more: str = "", body: str = "") -> str:
    head = f"title: {title}\nstatus: {status}\ndate: 2026-01-01\nreview_by: 2027-01-01\n{more}"
    return f"---\n{head}rests_on:\n{rests_on}---\n{body or 'So be it.'}\n"


BODY = """## Context

It is slow.

## Decision

Use <b>it</b>.

## Options considered

- None.

## Something else

More.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Two runs, in the second of which a claim falls; records on what holds, what fell, and nothing, and an old one."""
    folder = tmp_path_factory.mktemp("published")
    for run_id, times, day in (("a-first", TIMES, "2026-01-02"), ("b-second", SLOWER, "2026-01-03")):
        plan = plan_of(run_id)
        finish = RunFinish(finished_utc=f"{day}T04:00:00Z")
        records = [*records_of(plan, times, finished=False), finish]
        publish(folder / "evidence", write_run(folder / run_id, plan, records))
    first = json.loads((folder / "evidence" / "a-first" / "evidence.json").read_text())["digest"]
    pinned = f"  - {{claim: {{}}, expects: supported, evidence: {first[:12]}}}\n"
    records = {
        "0001-old": record("The old way", "superseded", f"  - {{claim: {CLAIM}, expects: refuted}}\n"),
        "0002-new": record(
            "The new way", "accepted", pinned.replace("{}", CLAIM),
            "supersedes: 0001-old\nacknowledged: It fell.\n", BODY,
        ),
        "0003-fallen": record(
            "The layer norm", "accepted",
            pinned.replace("{}", FELL).replace("evidence", "acknowledged: refuted, evidence"),
            "acknowledged: It is being looked at.\n",
        ),
        "0004-gone": record(
            "Nothing", "accepted",
            "  - {claim: normalization-fusion/gone, expects: supported, acknowledged: orphaned}\n",
            "acknowledged: The claim was dropped.\ndeciders: [Ada, Bob]\n",
        ),
    }  # fmt: skip
    (folder / "decisions").mkdir()
    for slug, text in records.items():
        (folder / "decisions" / f"{slug}.md").write_text(text)
    build_site(folder / "site", folder / "decisions", folder / "evidence")
    return folder / "site"


def test_the_front_page_says_what_is_established_where_and_what_is_refuted(site):
    page = Page(site / "index.html")
    text = " ".join(page.text.split())
    assert re.search(r"On one NVIDIA \S.*, measured 2026-01-03", text)
    said = "supportedTriton RMSNorm is at least 2 % faster than F.rms_norm."
    assert re.match(
        r" ?\d\.\d\d× to \d\.\d\d× as fast, in GPU time with nothing cached, at 5 shapes of RMSNorm, "
        r"from 512×1024 float16 to 4096×8192 float16; for an eager caller, launch included, \d",
        text[text.index(said) + len(said) :],
    )
    assert re.search(r"slowerTriton LayerNorm is at least 2 % faster than F\.layer_norm\. ?0\.\d\d×", text)


def test_verdicts_are_counted_as_text_and_drawn_as_a_bar_that_says_the_same(site):
    data = json.loads((site / "data.json").read_text())
    claims = json.loads((site / "experiments/normalization-fusion/data.json").read_text())["claims"].values()
    refuted = sum(claim["status"] == "refuted" for claim in claims)
    assert data["verdicts"]["refuted"] == refuted > 0
    html = (site / "index.html").read_text()
    (about,) = re.findall(r'<desc id="verdict-bar-about">(.*?)</desc>', html)
    assert f"{refuted} refuted" in about
    assert f'data-src="data.json#/verdicts/refuted">{refuted}</data>' in html


def test_only_the_claims_that_got_another_verdict_are_news(site):
    html = (site / "index.html").read_text()
    news = html[html.index('id="news"') : html.index('id="attention"')]
    assert "b-second" in news
    assert "Triton LayerNorm is at least 2 % faster than F.layer_norm." in news
    assert "The fused Triton RMSNorm is faster than F.rms_norm." not in news


def test_decisions_that_need_attention_are_on_the_front_page_the_worst_first(site):
    html = (site / "index.html").read_text()
    shown = html[html.index('id="attention"') : html.index('id="experiments"')]
    assert re.findall(r"decisions/(\d{4})-", shown) == ["0004", "0003"]
    assert "It is being looked at." in shown


def test_tests_of_the_lab_stand_apart_from_experiments(site):
    html = (site / "index.html").read_text()
    kernels, tests = html[html.index('id="experiments"') :].split('id="self-tests"')
    assert "experiments/softmax-fusion/" in kernels
    assert "experiments/cheating-kernels/" in tests
    assert "experiments/cheating-kernels/" not in kernels


def test_a_decision_shows_its_evidence_then_beside_now(site):
    page = Page(site / "decisions/0003-fallen/index.html")
    sources = [source for _, source in page.figures]
    then = [source for source in sources if source.startswith("../../runs/")]
    now = [source for source in sources if source.startswith("../../experiments/normalization-fusion/data.json#")]
    assert len(then) == len(now) == 6, "smallest and largest, then ratio and interval of two cases"
    pointers = [{source.partition("#")[2] for source in held} for held in (then, now)]
    assert pointers[0] == pointers[1]
    assert "is refuted, not supported" in page.text
    for value, source in page.figures:
        file, _, pointer = source.partition("#")
        node = json.loads((site / "decisions/0003-fallen" / file).read_text())
        for name in pointer.split("/")[1:]:
            node = node[name]
        assert str(node) == value


def test_a_record_is_shown_in_the_order_of_the_page_with_all_that_it_says_and_does_not_say(site):
    html = (site / "decisions/0002-new/index.html").read_text()
    headings = re.findall(r'<h2 id="([\w-]+)">', html)
    assert headings == ["outcome", "reversal", "evidence", "context", "options", "consequences", "more-1"]
    assert html.count("The record does not say.") == 2
    assert "Use &lt;b&gt;it&lt;/b&gt;." in html


def test_an_acknowledgement_is_shown_only_while_there_is_something_to_acknowledge(site):
    assert "It is being looked at." in (site / "decisions/0003-fallen/index.html").read_text()
    assert "It fell." not in (site / "decisions/0002-new/index.html").read_text()


def test_records_link_to_what_they_replace_and_to_what_replaced_them(site):
    assert "../0001-old/index.html" in Page(site / "decisions/0002-new/index.html").links
    old = Page(site / "decisions/0001-old/index.html")
    assert "../0002-new/index.html" in old.links
    assert "challenged" in old.text


def test_an_orphan_is_shown_without_a_link_to_what_is_gone(site):
    page = Page(site / "decisions/0004-gone/index.html")
    assert "orphaned" in page.text
    assert "Ada, Bob" in page.text
    assert not any("claim-gone" in link for link in page.links)


def test_the_index_of_decisions_has_a_closed_one_last(site):
    rows = re.findall(r'<th scope="row"><a href="(\d{4})', (site / "decisions/index.html").read_text())
    assert rows == ["0004", "0003", "0002", "0001"]


def test_the_glossary_has_every_scope_verdict_and_freshness_and_the_constants_of_the_code(site):
    page = Page(site / "glossary/index.html")
    assert {*SCOPES, *map(str, READING_ORDER), *map(str, Freshness)} <= set(page.ids)
    assert f"from {NOISY_RATIO:.2f} on verdicts on a cell are marked" in page.text


@pytest.mark.parametrize(
    ("path", "marked"),
    [
        ("index.html", "index.html"), ("search/index.html", "../search/index.html"),
        ("decisions/0002-new/index.html", "../../decisions/index.html"), ("policy/index.html", "../policy/index.html"),
        ("experiments/softmax-fusion/index.html", "../../index.html#experiments"),
    ],
)  # fmt: skip
def test_the_navigation_marks_where_one_is(site, path, marked):
    html = (site / path).read_text()
    assert re.findall(r'href="([^"]+)" aria-current="\w+"', html) == [marked]


def test_what_search_finds_stands_in_plain_lists_too(site):
    script = (site / "search/index.js").read_text()
    held = json.loads(script.removeprefix("window.kernelEvidenceIndex = ").removesuffix(";\n"))
    listed = {
        re.sub(r"^(\.\./)+", "", link) for path in site.glob("search/**/index.html") for link in Page(path).links
    }  # fmt: skip
    for line in held["experiments"]:
        slug, _, _, form = line.split("\t")
        found = held["forms"][int(form)]
        assert f"experiments/{slug}/index.html" in listed
        assert {f"experiments/{slug}/index.html#claim-{c.partition('	')[0]}" for c in found["claims"]} <= listed
        assert {f"experiments/{slug}/cases/{c.partition('	')[0]}/index.html" for c in found["cases"]} <= listed
    for kind in ("profiles", "decisions", "words"):
        assert {line.partition("\t")[0] for line in held[kind]} <= listed


def test_links_from_these_pages_lead_somewhere(site):
    for path in (site / "index.html", *site.glob("decisions/**/*.html"), *site.glob("search/**/*.html"),
                 *site.glob("glossary/*.html")):  # fmt: skip
        for link in Page(path).links:
            file, _, fragment = link.partition("#")
            target = (path.parent / file) if file else path
            assert target.is_file(), f"{path}: {link}"
            assert not fragment or fragment in Page(target).ids, f"{path}: {link}"


def test_the_policy_says_how_often_its_rules_err_and_what_changed_in_them(site):
    page = Page(site / "policy/index.html")
    assert {"errors", "versions"} <= set(page.ids)
    assert "in the controls of all other runs, 0 were supported" in page.text
    assert ("2.0 %" in page.text) or re.search(r"at most \d+\.\d % of such claims", page.text)


def measured(times: dict[str, float], finished: str = "") -> Judged:
    plan = plan_of()
    (found,) = judged_run(judge_run(plan, records_of(plan, times)), digest="ab" * 32)
    return found


def on_cpu(item: Judged) -> Judged:
    return replace(item, data={**item.data, "machine": {**item.machine, "device": "cpu"}})


def test_a_cpu_or_a_test_of_the_lab_establishes_nothing_about_kernels():
    item = measured(TIMES)
    assert established([outline(item)])
    assert not established([outline(on_cpu(item))])
    assert not established([outline(replace(item, plan=replace(item.plan, self_test=True)))])


def test_a_preview_of_a_cpus_run_leads_with_what_that_run_found():
    (first, *_) = established([outline(on_cpu(measured(TIMES)))], on_cpu=True)
    assert first.groups[0].findings[0].status == "supported"


def test_the_first_headline_of_each_experiment_is_on_the_front_page_whatever_came_of_it():
    """A reader looks for the flagship claim also where it is refuted or too noisy to call."""
    fallen = TIMES | {"triton-fused-rmsnorm": 45e-6}
    for times in (TIMES, fallen):
        item = measured(times)
        (first, *_) = established([outline(item)])
        (finding,) = first.groups[0].findings
        assert finding.href.endswith(f"#claim-{item.plan.headlines[0]}")
        assert first.rule.endswith("whatever came of it.")


def test_however_many_experiments_there_are_a_few_findings_stand_on_the_front_page():
    item = outline(measured(SLOWER))
    items = [replace(item, name=f"x-{n}") for n in range(50)]
    counts = [len(group.findings) for each in established(items) for group in each.groups]
    assert counts == [MOST_FIRST, MOST_FAILED]


def test_claims_are_told_apart_by_their_rival():
    """What beats the formula written out is not counted with what beats a kernel that people use."""
    item = measured(TIMES)
    counts = by_rival(item)
    kinds = {claim.name: kind_of(claim) for claim in item.plan.claims}
    assert kinds["triton-rmsnorm-beats-decomposed"] == "written-out"
    assert kinds["triton-rmsnorm-beats-compile"] == kinds["triton-rmsnorm-beats-torch-fused"] == "faster"
    assert kinds["triton-rmsnorm-keeps-up-with-quack"] == "keeps-up"
    assert sum(sum(outcomes.values()) for outcomes in counts.values()) == len(item.plan.claims)


def test_no_part_of_the_bar_is_too_narrow_to_be_seen_and_all_fit():
    bar = verdict_bar({"supported": 9999, "refuted": 1})
    assert bar is not None
    assert min(part.width for part in bar.parts) >= 2.9
    assert bar.parts[-1].x + bar.parts[-1].width == pytest.approx(bar.width, abs=0.1)
    assert verdict_bar({}) is None


def test_nothing_is_said_to_need_attention_where_there_are_no_decisions():
    assert decision_rows(Gathered(label="", current=(), published=(), decisions=(), files=())) == ()
