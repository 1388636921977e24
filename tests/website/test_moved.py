"""What a page says of claims about traffic, and of what the traffic explains."""

import dataclasses
from pathlib import Path

import pytest
from counting import FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE, TIMES, counted_run, once, recounted, traffic_plan
from factory import FAST_BEATS_PLAIN, LARGE, records_of, write_run

from lab.definition.experiment import Claim
from lab.verdict.judge_traffic import TRAFFIC_MARGIN, TRAFFIC_RULES
from lab.verdict.results import RunResult
from lab.verdict.statistics import per_cent
from lab.website.data.judged import judged_run
from lab.website.figure import Sentence
from lab.website.pages.experiment import experiment_page
from lab.website.pages.site import policy_page
from lab.website.pages.views import ExperimentPage
from lab.website.site import build_preview

BEATS = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))


def page_of(run: RunResult) -> ExperimentPage:
    return experiment_page(judged_run(run)[0], [])


def told(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def test_the_table_shows_the_bytes_of_each_side_and_no_time() -> None:
    least, twice = page_of(counted_run(fast=once(1.0, 0.75))).claims
    assert (least.measure, least.rows, least.baseline, least.threshold.text) == ("traffic", (), "the least", "0.909×")
    (row,) = twice.traffic_rows
    shown = [figure and figure.text for figure in (row.counted, row.subject, row.baseline, row.ratio, row.bounds)]
    assert shown == ["117", "134", "403", "3.00×", None]
    assert (row.status, row.mark, row.anchor) == ("supported", "one pass", LARGE.name)


def test_each_figure_points_at_its_datum() -> None:
    page = page_of(counted_run())
    (row,) = page.claims[1].traffic_rows
    for figure in (row.counted, row.subject, row.baseline, row.ratio):
        assert figure is not None
        node = page.data
        for name in figure.source.split("/")[1:]:
            node = node[name]
        assert node == figure.value


def test_what_several_kernels_leave_open_is_shown() -> None:
    (row,) = page_of(counted_run(plain=once(1.5, 1.5) * 2)).claims[1].traffic_rows
    assert row.bounds is not None
    assert row.bounds.text == "2.61× to 3.39×"


def test_without_counters_the_table_says_why() -> None:
    (row,) = page_of(counted_run(profiling=False)).claims[0].traffic_rows
    assert (row.counted, row.subject, row.baseline, row.ratio, row.bounds) == (None,) * 5
    assert row.status == "no-evidence"
    assert "without profiling" in row.reason


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        (FAST_MOVES_THE_LEAST, "of the bytes that fast moved, 100.0 % had to be (supported at 1 of 1 case)"),
        (PLAIN_MOVES_TWICE, "plain moved 3.00× the bytes of fast (supported at 1 of 1 case)"),
    ],
)
def test_the_answer_speaks_of_traffic(claim: Claim, answer: str) -> None:
    where = "On one NVIDIA H100 80GB HBM3, in DRAM traffic"
    assert told(page_of(counted_run(claim)).answer) == f"{where}: {answer}."


def test_the_answer_holds_both_kinds_of_claims() -> None:
    answer = told(page_of(counted_run(PLAIN_MOVES_TWICE, BEATS)).answer)
    assert "in DRAM traffic and in GPU time with nothing cached" in answer
    assert "the bytes of fast (supported" in answer
    assert "as fast as plain (supported at 1 of 1 case)" in answer


def test_an_answer_without_counters_says_so() -> None:
    assert "the bytes that fast moves could not be judged" in told(page_of(counted_run(profiling=False)).answer)


def test_a_rejected_claim_is_called_so_in_the_answer() -> None:
    assert "the claim about the bytes that fast moves was rejected" in told(page_of(counted_run(fast=once(0.5))).answer)


def test_the_cards_show_ratio_and_bytes() -> None:
    least, twice = page_of(counted_run(fast=once(1.25, 1.0), plain=once(3, 3))).cards[:2]
    assert (least.label, least.value.text) == ("Bytes that fast had to move, smallest share", "88.9 %")
    assert told(least.context).endswith(" 4096×4096 float32: 134 MB against 151 MB")
    assert (twice.label, twice.value.text) == ("Bytes of plain, largest over fast", "2.67×")
    assert told(twice.context).endswith(" 4096×4096 float32: 403 MB against 151 MB")


def test_no_card_is_made_of_what_was_not_weighed() -> None:
    assert page_of(counted_run(profiling=False)).cards == ()


def test_the_chart_is_of_the_first_claim_about_time() -> None:
    assert page_of(counted_run()).chart is None
    page = page_of(counted_run(PLAIN_MOVES_TWICE, BEATS))
    assert page.chart is not None
    assert page.chart_baseline == "plain"


def test_the_boundary_says_how_the_bytes_were_counted() -> None:
    sentence = "Verdicts on traffic: DRAM bytes of one call"
    assert any(told(item).startswith(sentence) for item in page_of(counted_run()).boundary.holds_for)
    for run in (counted_run(profiling=False), counted_run(BEATS)):
        assert not any(told(item).startswith(sentence) for item in page_of(run).boundary.holds_for)


def test_eager_gains_are_told_of_claims_on_time_alone() -> None:
    """Claims about traffic have no parts to split."""
    data = page_of(counted_run(PLAIN_MOVES_TWICE, BEATS)).data
    assert list(data["splits"][LARGE.name]) == [BEATS.name]


def test_what_the_traffic_explains_stands_beside_the_fastest() -> None:
    ((row,),) = page_of(counted_run(plain=once(2.0, 2.0))).explained
    assert (row.case, row.profile, row.fastest) == ("doubling 4096×4096 float32", "plain", "fast")
    assert row.time_ratio is not None
    assert row.bytes_ratio is not None
    assert (row.time_ratio.text, row.bytes_ratio.text, row.explained) == ("2.00×", "2.00×", True)
    assert row.bytes_ratio.source == f"/explained/{LARGE.name}/plain/bytes_ratio"
    ((other,),) = page_of(counted_run()).explained
    assert (other.explained, other.others) == (False, "these counters do not say why")


def test_nothing_is_explained_without_counters() -> None:
    assert page_of(counted_run(profiling=False)).explained == ()


def test_the_page_is_rendered_with_its_tables(tmp_path: Path) -> None:
    plan = traffic_plan(PLAIN_MOVES_TWICE, FAST_MOVES_THE_LEAST, BEATS)
    records = recounted(records_of(plan, TIMES), {"fast": once(), "plain": once(2.0, 2.0)})
    text = build_preview(write_run(tmp_path / "run", plan, records)).read_text(encoding="utf-8")
    assert text.count("Bytes that one call moves to and from DRAM") == 2
    assert "plain over fast; the claim asks for at least" in text
    assert "What the traffic explains" in text
    assert "differ by at most 15 %" in text


def test_a_page_without_counters_has_no_section_on_what_they_explain(tmp_path: Path) -> None:
    plan = traffic_plan(BEATS, profiling=False)
    text = build_preview(write_run(tmp_path / "run", plan, records_of(plan, TIMES))).read_text(encoding="utf-8")
    assert "What the traffic explains" not in text


def test_the_policy_page_prints_the_rules_and_the_margins_from_their_constants() -> None:
    page = policy_page()
    assert page.traffic_rules == tuple(TRAFFIC_RULES.items())
    constants = dict(page.constants)
    assert constants["Margin around the threshold of a claim about traffic"] == per_cent(TRAFFIC_MARGIN) == "3 %"
    assert constants["Traffic that is in excess"] == "above 1.10× the least"
    assert constants["Traffic that must be explained"] == "below 0.95× the least"
    assert constants["Times explained by traffic"] == "within 15 % of the ratio of bytes"
