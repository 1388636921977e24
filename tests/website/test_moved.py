"""What a page says of claims about traffic, and of what the traffic explains."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace as View

import pytest
from counting import (
    FAST_MOVES_THE_LEAST,
    PLAIN_MOVES_TWICE,
    TIMES,
    allocating,
    counted_run,
    once,
    recounted,
    traffic_plan,
)
from factory import FAST_BEATS_PLAIN, LARGE, records_of, write_run
from page_parts import datum, figures, row_of, texts_of, words_of

from lab.definition.experiment import Claim
from lab.verdict.judge_traffic import TRAFFIC_MARGIN, TRAFFIC_RULES
from lab.verdict.results import RunResult
from lab.verdict.statistics import per_cent
from lab.website.data.judged import judged_run
from lab.website.figure import DataView
from lab.website.pages.experiment import experiment_page
from lab.website.pages.hardware import case_traffic
from lab.website.pages.policy import policy_page
from lab.website.site import build_preview
from lab.website.table import PageTable, VerdictChip, plain

BEATS = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))


def page_of(run: RunResult) -> View:
    return experiment_page(judged_run(run)[0], [])


def test_a_verdict_on_bytes_has_their_ratio_and_bounds_where_they_are_not_sure() -> None:
    page = page_of(counted_run(fast=once(1.0, 0.75)))
    least, twice = page.claims
    assert least.measure == twice.measure == "traffic"
    (row,) = twice.rows
    assert [plain(cell) for cell in row.cells[1:3]] == ["3.00× bytes that the other moved / its own", "–"]
    call = row.cells[3][0]
    assert isinstance(call, VerdictChip)
    assert (call.status, call.mark) == ("supported", "one pass")


def test_each_figure_points_at_its_datum() -> None:
    page = page_of(counted_run())
    (row,) = page.claims[1].rows
    of_row = [figure for cell in row.cells for figure in figures(cell)]
    assert len(of_row) == 1
    for figure in of_row:
        assert datum(page.item.data, figure) == figure.value


def test_what_several_kernels_leave_open_is_shown() -> None:
    (row,) = page_of(counted_run(plain=once(1.5, 1.5) * 2)).claims[1].rows
    assert plain(row.cells[2]) == "2.61× to 3.39×"


def test_without_counters_the_table_says_why() -> None:
    (row,) = page_of(counted_run(profiling=False)).claims[0].rows
    assert [plain(cell) for cell in row.cells[1:3]] == ["–"] * 2
    assert plain(row.cells[3]).startswith("not measured")
    assert "without profiling" in plain(row.cells[3])


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        (FAST_MOVES_THE_LEAST, "Of the bytes that fast moved, 100.0 % had to be (doubling 4096×4096 fp32)"),
        (PLAIN_MOVES_TWICE, "Plain moved 3.00× the bytes of fast (doubling 4096×4096 fp32)"),
    ],
)
def test_the_answer_speaks_of_traffic(claim: Claim, answer: str) -> None:
    where = "Measured on one NVIDIA H100 80GB HBM3, in DRAM traffic"
    assert words_of(page_of(counted_run(claim)).answer) == f"{answer}. {where}."


def test_the_answer_holds_both_kinds_of_claims() -> None:
    answer = words_of(page_of(counted_run(PLAIN_MOVES_TWICE, BEATS)).answer)
    assert "in DRAM traffic and in cold-cache GPU time" in answer
    assert "the bytes of fast (doubling 4096×4096 fp32)" in answer
    assert "fast ran 2.00× as fast as plain. " in answer, "at the case just named"


def test_an_answer_without_counters_says_so() -> None:
    assert "bytes that fast moves could not be judged" in words_of(page_of(counted_run(profiling=False)).answer)


def test_a_rejected_claim_is_called_so_in_the_answer() -> None:
    assert "claim about the bytes that fast moves was rejected" in words_of(page_of(counted_run(fast=once(0.5))).answer)


def test_the_boundary_says_how_the_bytes_were_counted() -> None:
    sentence = "Verdicts on traffic: DRAM bytes of one call"
    assert any(words_of(item).startswith(sentence) for item in page_of(counted_run()).boundary.measured)
    for run in (counted_run(profiling=False), counted_run(BEATS)):
        assert not any(words_of(item).startswith(sentence) for item in page_of(run).boundary.measured)


def test_eager_gains_are_reported_of_claims_on_time_alone() -> None:
    """Claims about traffic have no parts to split."""
    data = page_of(counted_run(PLAIN_MOVES_TWICE, BEATS)).item.data
    assert list(data["splits"][LARGE.name]) == [BEATS.name]


def test_the_page_of_an_experiment_speaks_of_memory() -> None:
    page = page_of(allocating(1, 3))
    assert words_of(page.answer) == (
        "Of the bytes that fast allocated, 100.0 % were its results (doubling 4096×4096 fp32), plain allocated 3.00× "
        "the bytes of fast. Measured on one NVIDIA H100 80GB HBM3, in peak memory."
    )
    assert any(words_of(item).startswith("Verdicts on memory: ") for item in page.boundary.measured)


def explained_of(run: RunResult) -> PageTable | None:
    """What the traffic explains, on the page of the case."""
    (item,) = judged_run(run)
    fold = case_traffic(item, item.plan.case(LARGE.name), DataView(item.data))
    return next((table for table in fold.tables if table.label == "What the traffic explains"), None) if fold else None


def test_what_the_traffic_explains_stands_beside_the_fastest() -> None:
    table = explained_of(counted_run(plain=once(2.0, 2.0)))
    assert table is not None
    assert "multiples of those of the fastest, fast." in plain(table.caption)
    assert texts_of(table, "plain") == ["2.00×", "2.00×", "yes"]
    assert figures(row_of(table, "plain").cells[2])[0].source == f"/explained/{LARGE.name}/plain/bytes_ratio"
    other = explained_of(counted_run())
    assert other is not None
    assert texts_of(other, "plain")[2] == "no: these counters do not say why"


def test_nothing_is_explained_without_counters() -> None:
    assert explained_of(counted_run(profiling=False)) is None


def test_the_page_is_rendered_with_its_tables(tmp_path: Path) -> None:
    plan = traffic_plan(PLAIN_MOVES_TWICE, FAST_MOVES_THE_LEAST, BEATS)
    records = recounted(records_of(plan, TIMES), {"fast": once(), "plain": once(2.0, 2.0)})
    page = build_preview(write_run(tmp_path / "run", plan, records))
    assert page.read_text(encoding="utf-8").count("Of the DRAM traffic of several kernels") == 1
    text = (page.parent / "cases" / LARGE.name / "index.html").read_text(encoding="utf-8")
    assert "What the traffic explains" in text
    assert "differ by at most 15 %" in text


def test_the_policy_page_prints_the_rules_and_the_margins_from_their_constants() -> None:
    page = policy_page()
    assert page["traffic_rules"] == tuple(TRAFFIC_RULES.items())
    constants = dict(page["constants"])
    assert constants["Margin around the threshold of a claim about traffic"] == per_cent(TRAFFIC_MARGIN) == "3 %"
    assert constants["Traffic that is in excess"] == "above 1.10× the least"
    assert constants["Traffic that must be explained"] == "below 0.95× the least"
    assert constants["Times explained by traffic"] == "within 15 % of the ratio of bytes"
