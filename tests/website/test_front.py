"""Front page, decisions, glossary and search of one small published site."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as View
from typing import Any

import pytest
from factory import SWEEP_FLAG, plan_of, records_of, write_run
from test_site import Page, publish

from lab.definition.experiment import SCOPES
from lab.evidence.record import RunFinish
from lab.verdict.judge import NOISY_RATIO, READING_ORDER
from lab.verdict.judge_run import judge_run
from lab.verdict.plain_words import STATUS_WORDS
from lab.website.data.judged import Judged, judged_run
from lab.website.data.standing_words import StandingWord, standing_word_of, word_of_fastest
from lab.website.data.winners import grid, winners
from lab.website.figure import DataView
from lab.website.outputs import SiteContext
from lab.website.pages.decisions import decision_rows
from lab.website.pages.grid import _cell
from lab.website.pages.news import news
from lab.website.pages.policy import CHAPTERS
from lab.website.pages.search_answers import Answer
from lab.website.pages.zoo_answers import Tried
from lab.website.site import build_site
from lab.website.sources import TEMPLATES
from lab.website.verdict_words import FRESHNESS

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

pytestmark = pytest.mark.usefixtures("few_experiments")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Two runs, in the second of which a claim falls; records on what holds, what fell, and nothing, and an old one."""
    folder = tmp_path_factory.mktemp("published")
    for run_id, times, day in (("a-first", TIMES, "2026-01-02"), ("b-second", SLOWER, "2026-01-03")):
        plan = plan_of(run_id, include=[SWEEP_FLAG])
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


def test_the_grid_has_every_shape_in_every_call_mode_with_the_times_behind_it(site):
    """Of the newest run, with the fastest, the level ones and the others by their ratio to the fastest."""
    data = json.loads((site / "data.json").read_text())["shapes"]["H100"]
    cases = json.loads((site / "experiments/normalization-fusion/data.json").read_text())["cases"]
    assert set(data["graph"]) == {name for name, case in cases.items() if case["included"]}
    html = (site / "index.html").read_text()
    for mode in ("device_cold", "graph", "eager"):
        for case, row in data[mode].items():
            assert html.count(f'data-at="/shapes/H100/{mode}/{case}/cells/"') == 1
            cells = row["cells"]
            assert row["best"] == min(cells, key=lambda family: cells[family]["p50_seconds"])
            others = {cell["call"] for family, cell in cells.items() if family != row["best"]}
            assert others <= {"tie", "slower", "unproven"}
            if "tie" in others:
                assert cells[row["best"]]["call"] == "tie"
            elif "unproven" in others:
                assert cells[row["best"]]["call"] == "best?"
            else:
                assert cells[row["best"]]["call"] == "best"
            slower = [cell for cell in cells.values() if cell["call"] == "slower"]
            assert all(cell["times_fastest"] > 1 for cell in slower)
    assert data["device_cold"]["rmsnorm-4096x4096-float16"]["cells"]["eager"]["call"] == "slower"


def test_the_grid_names_implementations_as_readers_do_and_links_each_shape_to_its_case(site):
    html = (site / "index.html").read_text().replace("<wbr>", "")
    headings = re.findall(r'<th scope="col">(.*?)</th>', html[html.index('class="grid"') :].partition("</thead>")[0])
    assert headings == [
        "Operator", "Shape", "lab (Triton)", "torch.compile", "Liger", "PyTorch, one call", "PyTorch, several calls",
    ]  # fmt: skip
    assert "experiments/normalization-fusion/cases/rmsnorm-4096x4096-float16/index.html" in html
    assert '<th scope="row">RMSNorm <small>rows×columns</small></th>' in html
    case = (site / "experiments/normalization-fusion/cases/rmsnorm-4096x4096-float16/index.html").read_text()
    assert "Shape: rows×columns." in case
    assert "# x: (4096, 4096), weight: (4096,)\n" in case
    assert "Shapes: rows×columns." in (site / "experiments/normalization-fusion/index.html").read_text()


def test_above_the_grid_every_family_has_a_row_whose_figures_are_of_the_data(site):
    tallies = json.loads((site / "data.json").read_text())["tallies"]["H100"]["device_cold"]
    html = (site / "index.html").read_text()
    board = html[html.index('class="board g0 m0"') : html.index('class="board g0 m1"')]
    told = board[board.index('<details class="standing">') : board.index("</details>")]
    assert set(re.findall(r'data-at="/tallies/H100/device_cold/([\w-]+)/"', told)) == set(tallies)
    assert set(tallies) == {"lab-triton", "compile", "liger", "fused", "eager"}
    times = json.loads((site / "data.json").read_text())["shapes"]["H100"]["device_cold"].values()
    both = [row["cells"] for row in times if {"compile", "lab-triton"} <= row["cells"].keys()]
    ratios = [cells["compile"]["p50_seconds"] / cells["lab-triton"]["p50_seconds"] for cells in both]
    assert tallies["compile"]["over_lab"]["shapes"] == len(ratios)
    assert tallies["compile"]["over_lab"]["most"] == pytest.approx(max(ratios), rel=1e-6)
    assert re.search(r"median and range: torch\.compile <data [^>]+/compile/over_lab/median", board)


def test_each_mark_of_the_grid_has_a_line_of_its_own_in_the_legend(site):
    legend = (site / "index.html").read_text().partition('legend marks"')[2].partition("</ul>")[0]
    assert re.findall(r"<li><strong[^>]*>(.*?)</strong>", legend) == [
        "best", "tie", "best?", "1.08×", "1.01× ?", "level ?",
    ]  # fmt: skip


def test_an_answer_has_margin_range_and_the_import_line_of_the_fastest(site):
    script = (site / "assets/winners.js").read_text()
    answers = json.loads(script.removeprefix("window.kernelEvidenceWinners = ").removesuffix(";\n"))
    rows = [dict(zip(answers["columns"], row, strict=True)) for row in answers["rows"]]
    (row,) = [row for row in rows if (row["mode"], row["case"]) == ("graph", "rmsnorm-4096x4096-float16")]
    assert [row[name] for name in ("title", "shape", "dtype", "best")] == ["RMSNorm", "4096×4096", "fp16", "lab-triton"]
    assert re.fullmatch(r"\d\.\d+×", row["ratio"])
    assert re.fullmatch(r"\[\d\.\d+, \d\.\d+\]", row["interval"])
    least, p50, most = (float(row[name].removesuffix(" µs")) for name in ("least", "p50", "most"))
    assert least <= p50 <= most
    assert "from lab.kernels.rmsnorm import rmsnorm" in answers["snippets"][row["snippet"]][1]
    assert answers["sizes"][row["sizes"]] == "# x: (4096, 4096), weight: (4096,)"
    assert answers["axes"][row["title"]] == "rows×columns"


def test_the_finder_reads_the_columns_of_an_answer_and_no_others() -> None:
    script = (TEMPLATES / "search.js").read_text()
    assert set(re.findall(r"\brow\.(\w+)", script)) == set(Answer._fields)
    assert set(re.findall(r"\b(?:shot|row)\.(\w+)", script)) == {*Answer._fields, *Tried._fields}
    assert not re.search(r"\brow\[\d", script)


def test_verdicts_are_counted_as_text_from_the_data(site):
    data = json.loads((site / "data.json").read_text())
    claims = json.loads((site / "experiments/normalization-fusion/data.json").read_text())["claims"].values()
    refuted = sum(claim["status"] == "refuted" for claim in claims)
    assert data["verdicts"]["refuted"] == refuted > 0
    assert f'data-src="/verdicts/refuted">{refuted}</data>' in (site / "index.html").read_text()


def test_only_the_claims_that_got_another_verdict_are_news(site):
    html = (site / "index.html").read_text()
    news = html[html.index('id="news"') : html.index('id="attention"')]
    assert "b-second" in news
    assert "Triton LayerNorm is at least 2 % faster than F.layer_norm." in news
    assert "The fused Triton RMSNorm is faster than F.rms_norm." not in news


def test_news_of_a_run_that_no_page_shows_names_the_run_that_is_shown_instead() -> None:
    fields = ("machine_name", "finished_utc", "cut_short", "turned", "name", "title", "digest", "run_id")
    turned = [dict.fromkeys(("was", "now", "text"), "")]
    published = [
        View(
            **dict(
                zip(fields, ("NVIDIA H200", "2026-01-01T00:00:00Z", each[-1] == "small", turned, *each), strict=True)
            )
        )
        for each in (("a", "A", "1", "full"), ("a", "A", "2", "small"), ("b", "B", "2", "small"))
    ]
    told = news(published, {"a": "1", "b": "2"})
    assert told
    assert [change.fuller for change in told.changed] == ["full", ""]
    assert told.cut_short


def test_decisions_that_need_attention_are_on_the_front_page_the_worst_first(site):
    html = (site / "index.html").read_text()
    shown = html[html.index('id="attention"') : html.index('id="experiments"')]
    assert re.findall(r"decisions/(\d{4})-", shown) == ["0004", "0003"]


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
    assert (len(then), len(now)) == (6, 8), (
        "smallest and largest, ratio and interval of two cases, and of the challenge"
    )
    pointers = [{source.partition("#")[2] for source in of_run} for of_run in (then, now)]
    assert pointers[0] == pointers[1]
    assert re.search(r"now “(tie|slower|does not hold|not faster|mixed)”, expected “holds”", page.text)
    for value, source in page.figures:
        file, _, pointer = source.partition("#")
        node = json.loads((site / "decisions/0003-fallen" / file).read_text())
        for name in pointer.split("/")[1:]:
            node = node[name]
        assert str(node) == value


def test_a_record_is_shown_in_the_order_of_the_page_with_all_that_it_says_and_does_not_say(site):
    html = (site / "decisions/0002-new/index.html").read_text()
    headings = re.findall(r'<h2 id="([\w-]+)">', html)
    assert headings == ["outcome", "evidence", "reversal", "reviews", "context", "options", "consequences", "more-1"]
    assert html.count("The record does not say.") == 2
    assert "Use &lt;b&gt;it&lt;/b&gt;." in html


def test_an_acknowledgement_is_shown_only_while_there_is_something_to_acknowledge(site):
    assert "It is being looked at." in (site / "decisions/0003-fallen/index.html").read_text()
    assert "It fell." not in (site / "decisions/0002-new/index.html").read_text()


def test_records_link_to_what_they_replace_and_to_what_replaced_them(site):
    assert "../0001-old/index.html" in Page(site / "decisions/0002-new/index.html").links
    old = Page(site / "decisions/0001-old/index.html")
    assert "../0002-new/index.html" in old.links
    assert "challenged" not in old.text, "nobody follows it any more"


def test_an_orphan_is_shown_without_a_link_to_what_is_gone(site):
    page = Page(site / "decisions/0004-gone/index.html")
    assert "claim removed" in page.text
    assert "Ada, Bob" in page.text
    assert not any("claim-gone" in link for link in page.links)


def test_the_index_of_decisions_has_a_closed_one_last(site):
    rows = re.findall(r'<th scope="row"><a href="(\d{4})', (site / "decisions/index.html").read_text())
    assert rows == ["0004", "0003", "0002", "0001"]


def test_the_glossary_is_short_and_has_every_scope_and_the_constants_of_the_code(site):
    page = Page(site / "glossary/index.html")
    assert {*SCOPES, "profile", "claim", "interval", "verdict", "freshness"} <= set(page.ids)
    assert sum(map(len, CHAPTERS.values())) <= 28
    assert f"p95 is {NOISY_RATIO:.2f} times p50" in page.text


def test_every_verdict_and_every_freshness_has_a_plain_word_where_it_is_explained(site):
    rules, decisions = (Page(site / path).text for path in ("policy/index.html", "decisions/index.html"))
    assert all(STATUS_WORDS[status] in rules for status in READING_ORDER)
    assert all(word in decisions for word in FRESHNESS.values())


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
    index_data = json.loads(script.removeprefix("window.kernelEvidenceIndex = ").removesuffix(";\n"))
    listed = {
        re.sub(r"^(\.\./)+", "", link) for path in site.glob("search/**/index.html") for link in Page(path).links
    }  # fmt: skip
    for line in index_data["experiments"]:
        slug, _, _, form, _ = line.split("\t")
        form_data = index_data["forms"][int(form)]
        assert f"experiments/{slug}/index.html" in listed
        assert {f"experiments/{slug}/index.html#claim-{c.partition('	')[0]}" for c in form_data["claims"]} <= listed
        assert {f"experiments/{slug}/cases/{c.partition('	')[0]}/index.html" for c in form_data["cases"]} <= listed
    for kind in ("decisions", "words"):
        assert {line.partition("\t")[0] for line in index_data[kind]} <= listed


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
    assert {"timing", "errors", "versions"} <= set(page.ids)
    assert "p50 is the median of the sweeps' medians" in Page(site / "glossary/index.html").text
    assert "policy/index.html#timing" in Page(site / "index.html").links
    for scope in ("Cold cache", "Dirty cache", "Warm cache", "In a CUDA graph", "Eager"):
        assert re.search(rf"How a call is timed.*{scope}.*Where a speed-up", page.text, re.DOTALL)
    assert "in the controls of other runs, 0 were called faster" in page.text
    assert re.search(r"a rate of at most \d+\.\d % with 95 % confidence", page.text)


def measured(times: dict[str, float], finished: str = "") -> Judged:
    plan = plan_of()
    (item,) = judged_run(judge_run(plan, records_of(plan, times)), digest="ab" * 32)
    return item


def on_cpu(item: Judged) -> Judged:
    return replace(item, data={**item.data, "machine": {**item.machine, "device": "cpu"}})


def test_a_test_of_the_lab_is_not_in_the_grid_and_a_cpus_times_only_where_there_are_no_others():
    item = measured(TIMES)
    assert {row["gpu"] for row in winners(item, [item])} == {"H100"}
    assert {row["gpu"] for row in winners(item, [on_cpu(item), item])} == {"H100"}
    assert {row["gpu"] for row in winners(on_cpu(item), [])} == {"CPU"}
    assert not winners(replace(item, plan=replace(item.plan, self_test=True)), [item])


def test_of_experiments_with_the_same_shape_the_grid_has_the_one_with_the_most_implementations():
    few, many = measured({name: TIMES[name] for name in ("torch-fused", "triton-fused-rmsnorm")}), measured(TIMES)
    rows = [*winners(many, []), *winners(few, [])]
    shown = grid(rows)["H100"]["graph"]["rmsnorm-4096x4096-float16"]
    assert set(shown["cells"]) == {"lab-triton", "compile", "liger", "fused", "eager"}


def test_profiles_that_stand_for_themselves_are_in_the_grid_only_where_there_is_nothing_else():
    known = winners(measured(TIMES), [])
    mine = [
        row | {"case": f"mine-{row['case']}", "best": "profile b", "cells": {"profile a": {}, "profile b": {}}}
        for row in known
    ]
    assert set(grid(mine)["H100"]["graph"]) == {row["case"] for row in mine if row["mode"] == "graph"}
    assert grid([*mine, *known]) == grid(known)


def test_repeated_runs_of_the_same_source_give_the_range_and_one_run_its_sweeps():
    item = measured(TIMES)
    slower = measured({name: seconds * 1.5 for name, seconds in TIMES.items()})
    alone, repeated = winners(item, [item])[0]["range"], winners(item, [slower, item])[0]["range"]
    assert alone["sweeps"] >= 3
    assert repeated["runs"] == 2
    assert repeated["most_seconds"] > 1.1 * repeated["least_seconds"]


def test_nothing_is_said_to_need_attention_where_there_are_no_decisions():
    assert decision_rows(SiteContext(label="", current=(), published=(), decisions=(), files=())) == ()


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ({"proven": True, "level": True, "times_fastest": 1.015}, "tie"),
        ({"proven": True, "level": True, "times_fastest": 1.01, "low": 0.99, "high": 1.019}, "tie"),
        ({"proven": True, "level": True, "times_fastest": 1.01, "low": 0.97, "high": 1.04}, "unproven"),
        ({"proven": True, "level": False, "times_fastest": 1.5}, "slower"),
        ({"proven": False, "level": False, "times_fastest": 1.5}, "unproven"),
    ],
)
def test_a_tie_is_near_the_fastest(place: dict[str, Any], word: str) -> None:
    assert standing_word_of(place) == word


def test_a_ratio_that_the_two_times_contradict_has_their_quotient_beside_it() -> None:
    """A ratio is of rounds, and the times are medians over all of them."""
    item = measured(TIMES)
    case, by_scope = next(iter(item.data["contest"].items()))
    uneven = [place | {"ratio": place["times_fastest"] * 1.2} for place in by_scope["device_cold"]]
    contest = item.data["contest"] | {case: by_scope | {"device_cold": uneven}}
    (row, even, *_) = winners(replace(item, data=item.data | {"contest": contest}), ())
    behind = [cell for family, cell in row["cells"].items() if family != row["best"]]
    assert all(cell["times_fastest"] > 1.19 * cell["quotient_of_medians"] for cell in behind)
    assert "quotient_of_medians" not in row["cells"][row["best"]]
    assert not any("quotient_of_medians" in cell for cell in even["cells"].values())
    view = _cell(behind[-1], DataView(behind[-1]))
    assert view is not None
    assert view.medians.value == behind[-1]["quotient_of_medians"]


@pytest.mark.parametrize(
    ("others", "word"),
    [([], "best"), (["slower"], "best"), (["slower", "unproven"], "best?"), (["unproven", "tie"], "tie")],
)
def test_the_fastest_is_called_by_who_may_be_as_fast(others: list[StandingWord], word: str) -> None:
    assert word_of_fastest(others) == word
