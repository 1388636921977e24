"""The page of a search: every configuration against the rule, a chart of each case, and what won."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from factory import plan_of, records_of, write_run

from lab.definition.catalogue import choose_experiments
from lab.definition.search import RULE
from lab.verdict.results import judge_run
from lab.website.data.judged import judged_run
from lab.website.figure import Sentence
from lab.website.pages.experiment import experiment_page
from lab.website.pages.views import ExperimentPage
from lab.website.site import build_preview

(EXPERIMENT,) = choose_experiments(["configuration-search"])
CASES = [case.name for case in EXPERIMENT.cases]
TIMES = {
    (case.name, profile.name): case.shape[0] * case.shape[1] * 1.5e-12 + (place > 0) * 1e-6
    for case in EXPERIMENT.cases
    for place, profile in enumerate(EXPERIMENT.profiles)
    if case.operator.name in profile.implementations
}
WINS = {(CASES[0], "half-the-warps"): 20e-6}


def page_of(seconds: Mapping[Any, float], **how: Any) -> ExperimentPage:
    plan = plan_of(experiments=[EXPERIMENT])
    run = judge_run(plan, records_of(plan, seconds, noise=0.002, **how))
    return experiment_page(judged_run(run)[0], [])


def text(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def test_each_case_has_a_table_and_a_chart_with_a_lane_for_each_configuration() -> None:
    page = page_of(TIMES)
    assert [case.name for case in page.searches] == CASES
    for case in page.searches:
        assert case.chart is not None
        assert [lane.label for lane in case.chart.lanes] == [row.title for row in case.rows]
        assert all(row.ratio and row.interval and row.p50 and row.ahead and row.status for row in case.rows)
        assert len(case.chart.ticks) >= 1
    assert page.chart is None


def test_the_answer_names_the_winner_and_where_the_rule_stays() -> None:
    answer = text(page_of(TIMES | WINS).answer)
    assert "at RMSNorm 4096×4096 float16 half the warps ran 1.2" in answer
    assert answer.count("no configuration beat the rule by what its claim asks") == 1
    assert answer.count("nearest: ") == 2


def test_a_configuration_that_failed_stands_in_the_table() -> None:
    page = page_of(TIMES, outcomes={"half-the-warps": ("failed", "OutOfResources")})
    rows = {row.title: row for row in page.searches[0].rows}
    assert rows["half the warps"].ratio is None
    assert rows["half the warps"].status == "no-evidence"
    assert "OutOfResources" in rows["half the warps"].reason


def test_where_nothing_was_measured_the_answer_says_so() -> None:
    page = page_of({}, outcomes={RULE: ("failed", "no")})
    assert text(page.answer).count("nothing could be compared with the rule") == len(CASES)
    assert page.cards == ()


@pytest.mark.parametrize("seconds", [TIMES, TIMES | WINS, {}], ids=["the rule stays", "a winner", "nothing"])
def test_the_page_is_rendered(tmp_path: Path, seconds: Mapping[Any, float]) -> None:
    plan = plan_of(experiments=[EXPERIMENT])
    directory = write_run(tmp_path / "run", plan, records_of(plan, seconds))
    page = build_preview(directory).read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert all(f'id="search-{case}"' in page for case in CASES)
