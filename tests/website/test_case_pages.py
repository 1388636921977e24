"""The page of a case: everything about it, in words and figures, and what other runs measured."""

import dataclasses

from factory import FAST, LARGE, PLAIN, SMALL, machine, plan_of, profile, records_of, small_experiment

from lab.evidence.record import Cell
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import Sentence
from lab.website.outputs import Gathered
from lab.website.pages.case import CasePage, case_pages

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6, (LARGE.name, "plain"): 60e-6}
THIRD = profile("third")


def item_of(times: dict[tuple[str, str], float], run_id: str = "synthetic", sweeps: int = 5, **how: object) -> Judged:
    """The small experiment with three profiles, as a published run has it."""
    plan = plan_of(run_id, experiments=[small_experiment(profiles=(PLAIN, FAST, THIRD))], include=(), sweeps=sweeps)
    records = records_of(plan, times, noise=0.001, **how)  # type: ignore[arg-type]
    return judged_run(judge_run(plan, records), digest=run_id.encode().hex().ljust(64, "0"))[0]


def page_of(item: Judged, *published: Judged, case: str = SMALL.name, label: str = "") -> CasePage:
    gathered = Gathered(label=label, current=(item,), published=published, decisions=(), files=())
    pages = {document.path: document.view["page"] for document in case_pages(gathered)}
    page = pages[f"experiments/doubling/cases/{case}/index.html"]
    assert isinstance(page, CasePage)
    return page


def told(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def test_its_answer_names_the_fastest_and_its_lead_over_the_next() -> None:
    page = page_of(item_of(TIMES | {(SMALL.name, "third"): 50e-6}))
    answer = told(page.answer)
    assert answer.startswith(("Fast was the fastest, with 39.9", "Fast was the fastest, with 40.0"))
    assert answer.endswith("] as fast as third, the next.")


def test_its_answer_shares_the_first_place_where_nothing_tells_two_apart() -> None:
    answer = told(page_of(item_of(TIMES | {(SMALL.name, "third"): 40.1e-6})).answer)
    assert "shared the first place with " in answer
    assert "as fast as plain, the next." in answer


def test_its_answer_does_not_say_faster_of_too_few_sweeps() -> None:
    assert "by too few sweeps to say that it is faster" in told(page_of(item_of(TIMES, sweeps=1)).answer)


def test_its_answer_says_where_there_was_nothing_to_compare_with_or_nothing_at_all() -> None:
    alone = {(SMALL.name, "plain"): 60e-6}
    assert told(page_of(item_of(alone)).answer).startswith("Plain, the only profile that was measured, took ")
    assert told(page_of(item_of(TIMES), case=LARGE.name).answer).startswith("Not measured in the run")


def test_every_pair_stands_with_ratio_and_interval_and_none_against_itself() -> None:
    rows = page_of(item_of(TIMES | {(SMALL.name, "third"): 50e-6})).pairs
    assert [row.title for row in rows] == ["plain", "fast", "third"]
    for number, row in enumerate(rows):
        assert [other is None for other in row.ratios] == [place == number for place in range(3)]
    over = rows[1].ratios[0]
    assert over is not None
    assert over[0] is not None
    assert over[0].source == f"/against/{SMALL.name}/fast/plain/ratio"
    assert abs(float(over[0].value) - 1.5) < 0.01


def test_each_sweep_is_a_dot_and_a_figure_with_the_same_time() -> None:
    found = page_of(item_of(TIMES)).distribution
    assert found is not None
    assert found.sweeps == (1, 2, 3, 4, 5)
    for lane, (title, times) in zip(found.chart.lanes, found.rows, strict=True):
        assert lane.label == title
        for number, (dot, time) in enumerate(zip(lane.dots, times, strict=True), start=1):
            assert time is not None
            assert dot.title == f"{title}, sweep {number}: {time.text} µs"


def test_a_sweep_that_was_slower_lies_right_of_the_middle() -> None:
    found = page_of(item_of(TIMES)).distribution
    assert found is not None
    for lane, (_, times) in zip(found.chart.lanes, found.rows, strict=True):
        order = sorted(range(5), key=lambda number: float(times[number].value))  # type: ignore[union-attr]
        assert [lane.dots[number].x for number in order] == sorted(dot.x for dot in lane.dots)
        assert all(found.chart.left <= dot.x <= found.chart.right for dot in lane.dots)
        assert lane.dots[order[0]].x < found.chart.middle < lane.dots[order[-1]].x


def test_a_cell_without_a_time_keeps_its_reason() -> None:
    page = page_of(item_of(TIMES, outcomes={"third": ("failed", "RuntimeError: no")}))
    (cell,) = (cell for cell in page.cells if cell.profile == "third")
    assert (cell.outcome, cell.reason, cell.p50) == ("failed", "RuntimeError: no", None)


def test_its_claims_link_back_with_their_verdicts_here() -> None:
    (claim,) = page_of(item_of(TIMES)).claims
    assert (claim.name, claim.status) == ("fast-beats-plain", "supported")
    assert claim.ratio is not None
    assert claim.ratio.source == f"/claims/fast-beats-plain/cases/{SMALL.name}/ratio"


def test_correctness_shows_errors_checks_and_every_edge_input() -> None:
    page = page_of(item_of(TIMES))
    assert page.edges == ("zeros",)
    row = page.correctness[0]
    assert [figure and figure.text for figure in (row.error, row.tolerance, row.checks)] == ["0.0010", "0.20", "20"]
    assert row.edges == ("passed",)


def test_its_history_compares_runs_on_one_model_of_gpu_only() -> None:
    here, before = item_of(TIMES, "now"), item_of(TIMES, "before", on=machine(torch="2.10.0"))
    other = item_of(TIMES, "other", on=machine(gpu="NVIDIA H200"))
    history = page_of(here, before, other, here).history
    assert history is not None
    assert [(row.run_id, row.current, row.changed) for row in history.rows] == [
        ("now", True, True), ("before", False, False)
    ]  # fmt: skip
    assert [(run.run_id, run.machine) for run in history.elsewhere] == [("other", "NVIDIA H200")]
    assert history.profiles == ("plain", "fast")
    assert history.rows[1].data == f"../../../../runs/{before.digest[:12]}/doubling/data.json"
    assert history.rows[1].times[0] is not None
    assert history.rows[1].times[0].source == f"/cells/{SMALL.name}/plain/p50_seconds"


def test_a_preview_leads_to_no_published_run() -> None:
    here = item_of(TIMES, "now")
    assert page_of(here, here, label="Preview").history is None


def test_a_case_that_no_run_measured_says_what_it_would_take() -> None:
    page = page_of(item_of(TIMES), case=LARGE.name)
    assert (page.included, page.only_with, page.cells, page.kernels) == (False, "large-sweep", (), None)
    assert page.before == (SMALL.name, page_of(item_of(TIMES)).label)
    assert page.after is None


def test_too_many_profiles_for_a_table_of_pairs_have_none() -> None:
    many = tuple(profile(f"p-{number}") for number in range(17))
    plan = plan_of(experiments=[small_experiment(profiles=(PLAIN, FAST, *many))], include=(), sweeps=3)
    times = {(SMALL.name, each.name): 50e-6 for each in (PLAIN, FAST, *many)}
    item = judged_run(judge_run(plan, records_of(plan, times)))[0]
    assert page_of(item).pairs == ()
    assert len(page_of(item).cells) == 19


def test_a_description_begins_with_a_capital_and_keeps_the_others() -> None:
    experiment = small_experiment(cases=(dataclasses.replace(SMALL, description="an RMSNorm of LLMs"), LARGE))
    plan = plan_of(experiments=[experiment], include=(), sweeps=3)
    item = judged_run(judge_run(plan, records_of(plan, TIMES)))[0]
    assert page_of(item).description == "An RMSNorm of LLMs"


def test_the_most_memory_that_a_call_took_in_any_sweep_is_told_and_none_where_nobody_asked() -> None:
    plan = plan_of(experiments=[small_experiment()], include=())
    records = [
        dataclasses.replace(record, peak_memory_bytes=[4_000_000, None, 6_000_000, 0, 0][record.sweep])
        if isinstance(record, Cell) and record.profile == "fast"
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    (item,) = judged_run(judge_run(plan, records), digest="ab" * 32)
    memory = {cell.profile: cell.memory for cell in page_of(item).cells}
    assert memory["plain"] is None
    assert memory["fast"] is not None
    assert (memory["fast"].text, memory["fast"].value) == ("6.00", 6_000_000)
