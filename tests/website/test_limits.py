"""How far cells are from their limits, as the pages of a run with ceilings tell it."""

import dataclasses
from types import SimpleNamespace as View
from typing import Any

import pytest
from factory import LARGE, SMALL, ceiling_seconds, plan_of, records_of, small_experiment
from page_parts import figures, row_of, texts_of

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS, Case, Experiment
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import DataView
from lab.website.pages.experiment import experiment_page
from lab.website.pages.hardware import case_limits, limits_fold
from lab.website.table import PageTable, plain

MIB = 1 << 20
COPY_SECONDS = 3e-6 + 128 * MIB / 3e12  # LARGE moves 128 MiB
HALF = dataclasses.replace(LARGE, dtype="float16")


def run_of(times: dict[Any, float], experiment: Experiment | None = None, ceilings: bool = True) -> RunResult:
    """The small experiment with its large case, beside a GPU's ceilings where asked for."""
    chosen = [experiment or small_experiment(), *(choose_experiments([CEILINGS]) if ceilings else ())]
    plan = plan_of(experiments=chosen, include=["large-sweep"], sweeps=3)
    return judge_run(plan, records_of(plan, ceiling_seconds() | times, noise=0.0001))


def pages_of(run: RunResult) -> tuple[View, ...]:
    return tuple(experiment_page(item, []) for item in judged_run(run))


def item_of(times: dict[Any, float], experiment: Experiment | None = None) -> Judged:
    return judged_run(run_of(times, experiment))[0]


def rows_of(item: Judged, case: Case) -> PageTable:
    """How near each implementation came to the limit of a case, as the case's page says it."""
    planned = next(each for each in item.plan.cases if each.name == case.name)
    fold = case_limits(item, planned, DataView(item.data))
    assert fold is not None
    return fold.tables[0]


def test_a_cell_is_held_against_the_copy_of_as_many_bytes_in_each_scope() -> None:
    """A graph takes 0.95 times as long as a cold call here, of the copy and of the cell alike."""
    table = rows_of(item_of({(LARGE.name, "plain"): 2 * COPY_SECONDS}), LARGE)
    assert [head.text for head in table.heads[1:]] == [
        "Cold cache, % of reference", "Cold cache, away, µs",
        "In a CUDA graph, % of reference", "In a CUDA graph, away, µs",
    ]  # fmt: skip
    assert texts_of(table, "The reference")[:2] == ["memory", "47.74 µs in all"]
    assert texts_of(table, "plain")[:3] == ["50.0", "47.7", "50.0"]
    (share,) = figures(row_of(table, "plain").cells[1])
    assert share.source == f"/limits/{LARGE.name}/profiles/plain/device_cold/attained"


def test_a_cell_that_is_faster_than_the_copy_is_away_by_less_than_nothing() -> None:
    texts = texts_of(rows_of(item_of({(LARGE.name, "plain"): 0.96 * COPY_SECONDS}), LARGE), "plain")
    assert texts[:2] == ["104.2", "−1.91"]


def test_a_launch_bound_cell_says_so_instead_of_a_fraction() -> None:
    """Its bytes are beyond the ladder too, but what it cannot tell is told first."""
    item = item_of({(SMALL.name, "plain"): 5e-6, (LARGE.name, "plain"): 1e-4})
    assert texts_of(rows_of(item, SMALL), "plain")[0] == "launch-bound"


def test_a_cell_beyond_the_ladder_has_no_ceiling() -> None:
    texts = texts_of(rows_of(item_of({(SMALL.name, "plain"): 50e-6}), SMALL), "plain")
    assert texts == ["no ceiling for as many bytes", "", "no ceiling for as many bytes", ""]


def test_a_cache_resident_cell_shows_its_working_set() -> None:
    """Half as many bytes, of which the L2 can keep all that is written: 12 µs are possible, and no DRAM's time."""
    experiment = small_experiment(cases=(SMALL, LARGE, HALF))
    item = item_of({(HALF.name, "plain"): 15e-6, (LARGE.name, "plain"): 60e-6}, experiment)
    assert "cache-resident, 67.1 MB" in texts_of(rows_of(item, HALF), "plain")[0]
    assert "resident" not in texts_of(rows_of(item, LARGE), "plain")[0]


def test_an_impossible_time_has_no_fraction() -> None:
    item = item_of({(LARGE.name, "plain"): 15e-6, (LARGE.name, "fast"): 60e-6})
    assert texts_of(rows_of(item, LARGE), "plain")[0].startswith("faster than physics")


def test_each_page_states_the_ceilings_that_its_cells_are_held_against() -> None:
    item = item_of({(LARGE.name, "plain"): 2 * COPY_SECONDS})
    fold = limits_fold(item, DataView(item.data))
    assert fold is not None
    assert [title for title, _ in fold.panels] == ["doubling 4096×4096 fp32"]
    assert "50 %" in str(fold.panels[0][1])
    text = plain(fold.lead)
    assert (
        "copies ran at 2.99 TB/s (2.147 GB), reads at 3.01 TB/s (2.148 GB), dense matmuls at 600 TFLOP/s (float16)"
        in text
    )
    assert "1200 TFLOP/s (float8_e4m3fn)" in text
    assert texts_of(fold.tables[0], "doubling 4096×4096 fp32") == ["memory", "47.74", "0.125"]


def test_a_run_without_ceilings_has_no_limits() -> None:
    (page,) = pages_of(run_of({(LARGE.name, "plain"): 60e-6}, ceilings=False))
    assert "limits" not in [fold.id for fold in page.folds]
    assert (page.item.data["limits"], page.item.data["ceilings"]) == (None, None)


# The page of the ceilings themselves


@pytest.fixture(scope="module")
def own_page() -> View:
    return pages_of(run_of({(LARGE.name, "plain"): 60e-6}))[1]


def test_the_ceilings_stand_beside_the_datasheets_with_their_source(own_page: View) -> None:
    section = own_page.ceilings
    assert section is not None
    assert texts_of(section.tables[0], "Dense float16 matmuls")[1:] == ["600", "989", "60.6", "cuBLAS"]
    assert texts_of(section.tables[0], "Copy of 2147 MB, cold")[1:] == ["2.99", "3.35", "89.2", "driver's copy"]
    assert "H100" in plain(section.items[0])
    assert "limits" not in [fold.id for fold in own_page.folds]


def test_the_ladder_has_a_line_for_each_scope_and_a_row_for_each_size(own_page: View) -> None:
    section = own_page.ceilings
    assert section is not None
    (ladder,) = next(fold for fold in own_page.folds if fold.id == "ladder-table").tables
    assert [head.text for head in ladder.heads[1:]] == [
        f"{work}, {scope}" for work in ("copy", "read") for scope in ("cold cache", "warm cache", "in a CUDA graph")
    ]
    assert str(section.picture).count("<polyline") == 6
    assert texts_of(ladder, "134") == ["2.81", "3.12", "2.96", "–", "–", "–"]
    # A read of 64 MiB writes a little too, and stands beside the copy of as many bytes.
    assert "–" not in texts_of(ladder, "67.1")
    assert len(ladder.rows) == 10
