"""The page of a case: everything about it, in words and figures, and what other runs measured."""

import dataclasses
from types import SimpleNamespace as View

import pytest
from factory import FAST, LARGE, PLAIN, SMALL, busy, machine, plan_of, profile, records_of, seen_as, small_experiment
from page_parts import datum, figures, row_of, section_of, texts_of, words_of

from lab.evidence.record import Canary, Cell, RunStart, Sustained
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.outputs import SiteContext
from lab.website.pages.case import case_pages
from lab.website.table import Fold, Link, PageTable, plain

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6, (LARGE.name, "plain"): 60e-6}
THIRD = profile("third")


def item_of(times: dict[tuple[str, str], float], run_id: str = "synthetic", sweeps: int = 5, **how: object) -> Judged:
    """The small experiment with three profiles, as a published run has it."""
    plan = plan_of(run_id, experiments=[small_experiment(profiles=(PLAIN, FAST, THIRD))], include=(), sweeps=sweeps)
    records = records_of(plan, times, **({"noise": 0.001} | how))  # type: ignore[arg-type]
    return judged_run(judge_run(plan, records), digest=run_id.encode().hex().ljust(64, "0"))[0]


def page_of(item: Judged, *published: Judged, case: str = SMALL.name, label: str = "") -> View:
    context = SiteContext(label=label, current=(item,), published=published, decisions=(), files=())
    pages = {document.path: document.view["page"] for document in case_pages(context)}
    page = pages[f"experiments/doubling/cases/{case}/index.html"]
    assert isinstance(page, View)
    return page


def test_its_answer_names_the_fastest_and_its_lead_over_the_next() -> None:
    page = page_of(item_of(TIMES | {(SMALL.name, "third"): 50e-6}))
    answer = words_of(page.answer)
    assert answer.startswith(("Fast was the fastest, with 39.9", "Fast was the fastest, with 40.0"))
    assert "] as fast as third, the next. In a CUDA graph fast was fastest, at 38.0 µs." in answer


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([{}], ""),
        ([{}, {"reasons": 0x4}], "The GPU reached its power limit in 50 % of the rounds, which may slow the longest "
         "kernels most. Boards differ more there, so intervals are wider."),
        ([{"reasons": None, "violation_seconds": {}}], "Whether the GPU reached its power limit is not known; "
         "intervals are as wide as if it had."),
    ],
)  # fmt: skip
def test_a_case_says_whether_the_power_limit_widens_its_intervals(seen: list[dict[str, object]], told: str) -> None:
    plan = busy(plan_of(experiments=[small_experiment()], include=()))
    run = judge_run(plan, seen_as(records_of(plan, TIMES), *seen))
    page = page_of(judged_run(run, digest="ab" * 32)[0])
    cells = section_of(page, "cells")
    assert cells
    remarks = [words_of(item) for item in cells.items]
    assert [remark for remark in remarks if "power limit" in remark] == ([told] if told else [])


def test_its_answer_shares_the_first_place_where_nothing_tells_two_apart() -> None:
    answer = words_of(page_of(item_of(TIMES | {(SMALL.name, "third"): 40.1e-6})).answer)
    assert "shared the first place with " in answer
    assert "as fast as plain, the next that is clearly slower." in answer


def test_its_answer_calls_a_precise_lead_at_the_edge_of_a_tie_so_and_not_noisy() -> None:
    at_edge = words_of(page_of(item_of(TIMES | {(SMALL.name, "third"): 40.8e-6})).answer)
    assert "(1.02" in at_edge
    assert "] as fast as third, at the edge of a tie): " in at_edge
    assert "noisy" not in at_edge
    noisy = words_of(page_of(item_of(TIMES | {(SMALL.name, "third"): 40.8e-6}, noise=0.2)).answer)
    assert "(too noisy to tell from third" in noisy


@pytest.mark.parametrize(
    ("third", "words"),
    [
        (50e-6, ["plain", "fast best", "third"]),
        (40.1e-6, ["plain", "fast tie", "third tie"]),
        (40.8e-6, ["plain", "fast best?", "third"]),
    ],
)
def test_who_shares_the_first_place_is_called_so_in_the_table_as_on_the_front_page(
    third: float, words: list[str]
) -> None:
    rows = table(page_of(item_of(TIMES | {(SMALL.name, "third"): third})), "cells").rows
    assert [plain(row.cells[0]) for row in rows] == words


def test_its_answer_does_not_say_faster_of_too_few_sweeps() -> None:
    assert "by too few sweeps to say that it is faster" in words_of(page_of(item_of(TIMES, sweeps=1)).answer)


def test_its_answer_says_where_there_was_nothing_to_compare_with_or_nothing_at_all() -> None:
    alone = {(SMALL.name, "plain"): 60e-6}
    assert words_of(page_of(item_of(alone)).answer).startswith(
        "Plain, the only implementation that was measured, took "
    )
    assert words_of(page_of(item_of(TIMES), case=LARGE.name).answer).startswith("Not measured in the run")


def section(page: View, name: str) -> Fold:
    fold = section_of(page, name)
    assert fold is not None, name
    return fold


def table(page: View, name: str) -> PageTable:
    return section(page, name).tables[0]


def test_every_pair_stands_once_with_ratio_and_interval_the_faster_over_the_slower() -> None:
    pairs = table(page_of(item_of(TIMES | {(SMALL.name, "third"): 50e-6})), "pairs")
    assert [head.text for head in pairs.heads] == ["Implementation", "over third", "over plain"]
    assert [plain(row.cells[0]) for row in pairs.rows] == ["fast", "third"]
    assert [[bool(cell) for cell in row.cells[1:]] for row in pairs.rows] == [[True, True], [False, True]]
    ratio, interval = figures(row_of(pairs, "fast").cells[2])
    assert ratio.source == f"/against/{SMALL.name}/fast/plain/ratio"
    assert abs(float(ratio.value) - 1.5) < 0.01
    assert interval.text.startswith("[1.")


def test_each_sweep_is_a_figure_with_its_time() -> None:
    fold = section(page_of(item_of(TIMES)), "distribution")
    (times,) = fold.tables
    assert [head.text for head in times.heads[1:]] == [f"sweep {number}" for number in range(1, 6)]
    for row in times.rows:
        title = plain(row.cells[0])
        for number, cell in enumerate(row.cells[1:]):
            (figure,) = cell
            assert figure.source == f"/cells/{SMALL.name}/{title}/sweep_p50_seconds/{number}"


def test_a_cell_without_a_time_keeps_its_reason() -> None:
    page = page_of(item_of(TIMES, outcomes={"third": ("failed", "RuntimeError: no")}))
    assert texts_of(table(page, "cells"), "third")[0] == "failed RuntimeError: no"


def test_its_claims_link_back_with_their_verdicts_here() -> None:
    (row,) = table(page_of(item_of(TIMES)), "claims").rows
    (link,) = row.cells[0]
    assert isinstance(link, Link)
    assert link.to == "../../index.html#claim-fast-beats-plain"
    assert plain(row.cells[1]) == "faster"
    assert figures(row.cells[2])[0].source == f"/claims/fast-beats-plain/cases/{SMALL.name}/ratio"


def test_too_many_spoiled_rounds_show_beside_the_verdict_what_spoiled_them() -> None:
    plan = plan_of(experiments=[small_experiment()], include=())
    records = [
        dataclasses.replace(record, copy_seconds=1.1 * record.copy_seconds)
        if isinstance(record, Canary) and record.sweep < 2 and record.after
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    item = judged_run(judge_run(plan, records), digest="ab" * 32)[0]
    (row,) = table(page_of(item), "claims").rows
    assert plain(row.cells[1]).endswith(
        "40 % of the case's rounds were spoiled and left out, more than the 20 % that a verdict allows: a canary "
        "beside it was off by more than 2 %"
    )


def test_correctness_shows_errors_checks_and_every_edge_input() -> None:
    rows = table(page_of(item_of(TIMES)), "correctness")
    assert rows.heads[-1].text == "zeros"
    assert texts_of(rows, "plain") == ["0.0010", "0.20", "–", "20", "passed"]


def test_its_history_compares_runs_on_one_model_of_gpu_only() -> None:
    here, before = item_of(TIMES, "now"), item_of(TIMES, "before", on=machine(torch="2.10.0"))
    other = item_of(TIMES, "other", on=machine(gpu="NVIDIA H200"))
    history = section(page_of(here, before, other, here), "history")
    (times,) = history.tables
    now, then = times.rows
    assert plain(now.cells[0]).startswith("now shown here torch 2.11.0")
    assert plain(then.cells[0]).startswith("before torch 2.10.0")
    assert "other (NVIDIA H200" in plain(history.items[0])
    assert [head.text for head in times.heads[2:]] == ["plain", "fast"]
    file = f"site:runs/{before.digest[:12]}/doubling/data.json"
    assert figures(then.cells[2])[0].source == f"{file}#/cells/{SMALL.name}/plain/p50_seconds"


def test_a_preview_leads_to_no_published_run() -> None:
    here = item_of(TIMES, "now")
    assert section_of(page_of(here, here, label="Preview"), "history") is None


def test_a_case_that_no_run_measured_says_what_it_would_take() -> None:
    page = page_of(item_of(TIMES), case=LARGE.name)
    assert (page.included, page.case.only_with, page.sections, page.folds) == (False, "large-sweep", (), ())
    assert page.before == (SMALL.name, page_of(item_of(TIMES)).label)
    assert page.after is None


def test_too_many_profiles_for_a_table_of_pairs_have_none() -> None:
    many = tuple(profile(f"p-{number}") for number in range(17))
    plan = plan_of(experiments=[small_experiment(profiles=(PLAIN, FAST, *many))], include=(), sweeps=3)
    times = {(SMALL.name, each.name): 50e-6 for each in (PLAIN, FAST, *many)}
    item = judged_run(judge_run(plan, records_of(plan, times)))[0]
    assert section_of(page_of(item), "pairs") is None
    assert len(table(page_of(item), "cells").rows) == 19


def test_a_description_begins_with_a_capital_and_keeps_the_others() -> None:
    experiment = small_experiment(cases=(dataclasses.replace(SMALL, description="an RMSNorm of LLMs"), LARGE))
    plan = plan_of(experiments=[experiment], include=(), sweeps=3)
    item = judged_run(judge_run(plan, records_of(plan, TIMES)))[0]
    assert page_of(item).description == "An RMSNorm of LLMs"


def test_the_most_memory_that_a_call_took_in_any_sweep_is_reported_and_none_where_nobody_asked() -> None:
    plan = plan_of(experiments=[small_experiment()], include=())
    records = [
        dataclasses.replace(record, peak_memory_bytes=[4_000_000, None, 6_000_000, 0, 0][record.sweep])
        if isinstance(record, Cell) and record.profile == "fast"
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    (item,) = judged_run(judge_run(plan, records), digest="ab" * 32)
    cells = table(page_of(item), "cells")
    (column,) = [number for number, head in enumerate(cells.heads[1:]) if head.text == "Memory, MB"]
    assert texts_of(cells, "plain")[column] == "–"
    assert texts_of(cells, "fast")[column] == "6.00"
    assert figures(row_of(cells, "fast").cells[column + 1])[0].value == 6_000_000


def with_graphs(schema: int) -> PageTable:
    """The table of a case whose `fast` holds 5 MB in a graph and allocates 1 MB, in a run of that schema."""
    plan = plan_of(experiments=[small_experiment()], include=())
    records = [
        dataclasses.replace(record, peak_memory_bytes=1_000_000, graph_memory_bytes=5_000_000 if schema > 9 else None)
        if isinstance(record, Cell) and record.profile == "fast"
        else dataclasses.replace(record, schema=schema)
        if isinstance(record, RunStart)
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    (item,) = judged_run(judge_run(plan, records), digest="ab" * 32)
    return table(page_of(item), "cells")


def test_memory_holds_what_a_graph_holds_and_older_runs_say_that_they_did_not_count_it() -> None:
    now, before = with_graphs(10), with_graphs(9)
    (column,) = [number for number, head in enumerate(now.heads[1:]) if head.text == "Memory, MB"]
    assert texts_of(now, "fast")[column] == "6.00 5.00 in its graph"
    assert texts_of(before, "fast")[column] == "1.00"
    assert "with what CUDA graphs" in plain(now.caption)
    assert "without what CUDA graphs" in plain(before.caption)


LASTING = Sustained(
    batch_seconds=(40e-6, 41e-6, 50e-6, 52e-6), calls_per_batch=1000, spin_hertz=(1.9e9, 1.8e9, 1.38e9, 1.38e9),
    power_watts=696.0,
)  # fmt: skip


def with_calls_back_to_back(**lasting: Sustained) -> Judged:
    """The small experiment; by profile, what its first sweep says of them."""
    plan = plan_of(experiments=[small_experiment()], include=())
    records = [
        dataclasses.replace(record, sustained=lasting.get(record.profile))
        if isinstance(record, Cell) and record.sweep == 0
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    return judged_run(judge_run(plan, records), digest="ab" * 32)[0]


def test_the_rate_back_to_back_stands_beside_that_of_spaced_calls() -> None:
    item = with_calls_back_to_back(fast=LASTING, plain=Sustained(reason="it has no graph"))
    rows = table(page_of(item), "sustained")
    seconds, rate, spaced, clock, power, lasted = texts_of(rows, "fast")
    assert (seconds, clock, power, lasted) == ("51.00", "1380", "696", "0.183 s")
    assert texts_of(rows, "plain") == ["it has no graph", *["–"] * 5]
    data = item.data["cells"][SMALL.name]["fast"]["sustained"]
    assert data["calls"] == 4000
    for figure in (each for cell in row_of(rows, "fast").cells for each in figures(cell)):
        assert datum(item.data, figure) == figure.value
    assert float(spaced) > float(rate), "a graph's spaced calls were faster"
    assert data["spaced_flops_per_second"] == pytest.approx(64 * 128 / 38e-6, rel=0.01)


def test_a_clock_above_the_largest_of_the_card_is_said_not_to_be_credible() -> None:
    above = dataclasses.replace(LASTING, spin_hertz=(2.04e9,) * 4)
    rows = table(page_of(with_calls_back_to_back(fast=above, plain=LASTING)), "sustained")
    clocks = [texts_of(rows, profile)[3] for profile in ("fast", "plain")]
    assert clocks == ["2040 above the card's 1980 MHz: not credible", "1380"]


def test_a_run_that_measured_nothing_back_to_back_tells_nothing_of_it() -> None:
    page = page_of(with_calls_back_to_back())
    assert section_of(page, "sustained") is None
