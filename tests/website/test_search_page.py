"""The page of a search: every configuration against the rule, a chart of each case, and what won."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace as View
from typing import Any

import pytest
from factory import plan_of, records_of, write_run
from page_parts import texts_of

from lab.definition.catalogue import choose_experiments
from lab.definition.search import RULE
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import judged_run
from lab.website.pages.experiment import experiment_page
from lab.website.site import build_preview
from lab.website.table import plain

(EXPERIMENT,) = choose_experiments(["configuration-search"])
CASES = [case.name for case in EXPERIMENT.cases]
TIMES = {
    (case.name, profile.name): case.shape[0] * case.shape[1] * 1.5e-12 + (place > 0) * 1e-6
    for case in EXPERIMENT.cases
    for place, profile in enumerate(EXPERIMENT.profiles)
    if case.operator.name in profile.implementations
}
WINS = {(CASES[0], "half-the-warps"): 20e-6}


def page_of(seconds: Mapping[Any, float], **how: Any) -> View:
    plan = plan_of(experiments=[EXPERIMENT])
    run = judge_run(plan, records_of(plan, seconds, noise=0.002, **how))
    return experiment_page(judged_run(run)[0], [])


def test_each_case_has_a_table_and_a_chart_with_a_lane_for_each_configuration() -> None:
    page = page_of(TIMES)
    assert [case.name for case in page.searches] == CASES
    for case in page.searches:
        rule, *rows = case.table.rows
        assert plain(rule.cells[0]) == "the rule"
        assert str(case.chart).count('class="value"') == len(rows)
        for row in rows:
            assert "–" not in [plain(cell) for cell in (*row.cells[1:5], row.cells[7])]
    assert page.contest is None


def test_the_answer_names_the_winner_and_where_the_rule_stays() -> None:
    answer = plain(page_of(TIMES | WINS).answer)
    assert "t RMSNorm 4096×4096 fp16 half the warps ran 1.2" in answer
    assert answer.count("no configuration beat the rule by what its claim asks") == 1
    assert answer.count("nearest: ") == 2


def test_a_configuration_that_failed_stands_in_the_table() -> None:
    page = page_of(TIMES, outcomes={"half-the-warps": ("failed", "OutOfResources")})
    texts = texts_of(page.searches[0].table, "half the warps")
    assert texts[1] == "–"
    assert texts[-1].startswith("no-evidence")
    assert "OutOfResources" in texts[-1]


def test_where_nothing_was_measured_the_answer_says_so() -> None:
    page = page_of({}, outcomes={RULE: ("failed", "no")})
    assert plain(page.answer).count("nothing could be compared with the rule") == len(CASES)


@pytest.mark.parametrize("seconds", [TIMES, TIMES | WINS, {}], ids=["the rule stays", "a winner", "nothing"])
def test_the_page_is_rendered(tmp_path: Path, seconds: Mapping[Any, float]) -> None:
    plan = plan_of(experiments=[EXPERIMENT])
    directory = write_run(tmp_path / "run", plan, records_of(plan, seconds))
    page = build_preview(directory).read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert all(f'id="search-{case}"' in page for case in CASES)
