"""How far cells are from their limits, as the pages of a run with ceilings tell it."""

import dataclasses
from typing import Any

import pytest
from factory import FAST, LARGE, PLAIN, SMALL, ceiling_seconds, plan_of, profile, records_of, small_experiment

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS, Case, Experiment
from lab.verdict.results import RunResult, judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import Ledger, Sentence
from lab.website.pages.experiment import experiment_page
from lab.website.pages.hardware_views import LimitGroup, LimitsSection
from lab.website.pages.limits import limit_group, limit_scopes, limits_section
from lab.website.pages.views import ExperimentPage

MIB = 1 << 20
COPY_SECONDS = 3e-6 + 128 * MIB / 3e12  # LARGE moves 128 MiB
HALF = dataclasses.replace(LARGE, dtype="float16")


def run_of(times: dict[Any, float], experiment: Experiment | None = None, ceilings: bool = True) -> RunResult:
    """The small experiment with its large case, beside a GPU's ceilings where asked for."""
    chosen = [experiment or small_experiment(), *(choose_experiments([CEILINGS]) if ceilings else ())]
    plan = plan_of(experiments=chosen, include=["large-sweep"], sweeps=3)
    return judge_run(plan, records_of(plan, ceiling_seconds() | times, noise=0.0001))


def pages_of(run: RunResult) -> tuple[ExperimentPage, ...]:
    return tuple(experiment_page(item, []) for item in judged_run(run))


@dataclasses.dataclass(frozen=True)
class Limits:
    """A judged run, and what the experiment's page says of its limits."""

    item: Judged
    section: LimitsSection


def limits_of(times: dict[Any, float], experiment: Experiment | None = None) -> Limits:
    item = judged_run(run_of(times, experiment))[0]
    section = limits_section(item, Ledger(item.data))
    assert section is not None
    return Limits(item, section)


def group_of(limits: Limits, case: Case) -> LimitGroup:
    planned = next(each for each in limits.item.plan.cases if each.name == case.name)
    return limit_group(limits.item, planned, Ledger(limits.item.data))


def told(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def test_a_cell_is_held_against_the_copy_of_as_many_bytes_in_each_scope() -> None:
    """A graph takes 0.95 times as long as a cold call here, of the copy and of the cell alike."""
    limits = limits_of({(LARGE.name, "plain"): 2 * COPY_SECONDS})
    assert limit_scopes(limits.item) == ("device_cold", "graph")
    group = group_of(limits, LARGE)
    assert told(group.limits[0]) == "memory, 47.74 µs"
    cold, graph = group.rows[0].scopes
    assert cold.share is not None
    assert cold.distance is not None
    assert (cold.share.text, cold.distance.text) == ("50.0", "47.7")
    assert graph.share is not None
    assert graph.share.text == "50.0"
    assert cold.share.source == f"/limits/{LARGE.name}/profiles/plain/device_cold/attained"


def test_a_cell_that_is_faster_than_the_copy_is_away_by_less_than_nothing() -> None:
    cold = group_of(limits_of({(LARGE.name, "plain"): 0.96 * COPY_SECONDS}), LARGE).rows[0].scopes[0]
    assert cold.share is not None
    assert cold.distance is not None
    assert (cold.share.text, cold.distance.text) == ("104.2", "−1.91")


def test_the_least_work_of_a_case_stands_beside_its_cells() -> None:
    group = group_of(limits_of({(LARGE.name, "plain"): 1e-4}), LARGE)
    assert [figure and figure.text for figure in (group.least, group.flops, group.intensity)] == [
        "134",
        "16.8",
        "0.125",
    ]


def test_a_launch_bound_cell_says_so_instead_of_a_fraction() -> None:
    """Its bytes are beyond the ladder too, but what it cannot tell is told first."""
    rows = group_of(limits_of({(SMALL.name, "plain"): 5e-6, (LARGE.name, "plain"): 1e-4}), SMALL).rows
    assert rows[0].scopes[0].why_not == "launch-bound"
    assert rows[0].scopes[0].share is None


def test_a_cell_beyond_the_ladder_has_no_ceiling() -> None:
    rows = group_of(limits_of({(SMALL.name, "plain"): 50e-6}), SMALL).rows
    assert [cell.why_not for cell in rows[0].scopes] == ["no ceiling for as many bytes"] * 2


def test_an_impossible_time_has_no_fraction_and_is_not_drawn() -> None:
    limits = limits_of({(LARGE.name, "plain"): 15e-6, (LARGE.name, "fast"): 60e-6})
    cold = group_of(limits, LARGE).rows[0].scopes[0]
    assert cold.why_not.startswith("faster than physics")
    assert cold.share is None
    assert limits.section.chart is not None
    assert len(limits.section.chart.marks) == 1
    assert limits.section.undrawn == "Not drawn, and in the table only: cells that were rejected for their time."


def test_a_cache_resident_cell_shows_its_working_set_and_is_hollow_on_the_roofline() -> None:
    """Half as many bytes, of which the L2 can keep all that is written: 12 µs are possible, and no DRAM's time."""
    experiment = small_experiment(cases=(SMALL, LARGE, HALF))
    limits = limits_of({(HALF.name, "plain"): 15e-6, (LARGE.name, "plain"): 60e-6}, experiment)
    resident = group_of(limits, HALF).rows[0].scopes[0].resident
    assert resident is not None
    assert resident.text == "67.1"
    assert group_of(limits, LARGE).rows[0].scopes[0].resident is None
    assert limits.section.chart is not None
    assert {mark.hollow for mark in limits.section.chart.marks} == {True, False}
    assert [mark.hollow for mark in limits.section.chart.marks if "float16" in mark.title] == [True]


def test_the_roofline_shows_measured_ceilings_and_those_of_the_datasheet() -> None:
    chart = limits_of({(LARGE.name, "plain"): 60e-6}).section.chart
    assert chart is not None
    assert {(roof.label.text, roof.dashed) for roof in chart.roofs} == {
        ("measured copy, 2.99 TB/s", False), ("datasheet, 3.35 TB/s", True),
        ("TF32, 300 TFLOP/s measured", False), ("TF32, 495 TFLOP/s datasheet", True),
    }  # fmt: skip


def test_cells_without_operations_are_in_the_table_only_and_the_page_says_so() -> None:
    copying = dataclasses.replace(
        LARGE.operator,
        traffic=lambda shape, itemsize: dataclasses.replace(LARGE.operator.traffic(shape, itemsize), flops=0),
    )
    cases = (SMALL, dataclasses.replace(LARGE, operator=copying))
    limits = limits_of({(LARGE.name, "plain"): 60e-6}, small_experiment(cases=cases))
    assert group_of(limits, LARGE).rows[0].scopes[0].share is not None
    assert limits.section.chart is None
    assert "no cell has operations to count" in limits.section.undrawn


def test_launch_bound_cells_are_not_drawn_and_the_page_says_so() -> None:
    limits = limits_of({(SMALL.name, "plain"): 5e-6, (LARGE.name, "plain"): 60e-6})
    assert limits.section.chart is not None
    assert len(limits.section.chart.marks) == 1
    assert limits.section.undrawn == "Not drawn, and in the table only: launch-bound cells."


def test_of_profiles_that_share_a_marker_the_roofline_shows_the_headlines_subject() -> None:
    experiment = small_experiment(profiles=(PLAIN, FAST, profile("third")))
    times = {(LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): 55e-6, (LARGE.name, "third"): 70e-6}
    limits = limits_of(times, experiment)
    assert limits.section.chart is not None
    (mark,) = limits.section.chart.marks
    assert ", fast:" in mark.title
    assert "share the marker of another" in limits.section.undrawn


def test_a_case_stands_on_one_line_with_what_each_profile_attained() -> None:
    section = limits_of({(LARGE.name, "plain"): 2 * COPY_SECONDS}).section
    (line,) = (line for line in section.lines if line.anchor == LARGE.name)
    assert line.limit is not None
    assert (section.profiles, line.bound, line.limit.text) == (("plain",), "memory", "47.74")
    assert [cell and cell.share and cell.share.text for cell in line.cells] == ["50.0"]


def test_each_page_states_the_ceilings_that_its_cells_are_held_against() -> None:
    text = told(limits_of({(LARGE.name, "plain"): 60e-6}).section.ceilings)
    assert text.startswith("a copy of 2147 MB at 2.99 TB/s in device_cold, ")
    assert "dense float8 products at 1200 TFLOP/s" in text
    assert text.endswith("an empty kernel in 2.000 µs")


def test_a_run_without_ceilings_has_no_limits() -> None:
    (page,) = pages_of(run_of({(LARGE.name, "plain"): 60e-6}, ceilings=False))
    assert (page.limits, page.data["limits"], page.data["ceilings"]) == (None, None, None)


# The page of the ceilings themselves


@pytest.fixture(scope="module")
def own_page() -> ExperimentPage:
    return pages_of(run_of({(LARGE.name, "plain"): 60e-6}))[1]


def test_the_ceilings_stand_beside_the_datasheets_with_their_source(own_page: ExperimentPage) -> None:
    section = own_page.ceilings
    assert section is not None
    rows = {told(row.name): row for row in section.rows}
    half = rows["Dense float16 products"]
    assert [figure and figure.text for figure in (half.measured, half.printed, half.share)] == ["600", "989", "60.6"]
    assert half.by == "cuBLAS"
    copy = rows["Copy of 2147 MB, device_cold"]
    assert [figure and figure.text for figure in (copy.measured, copy.printed, copy.share)] == ["2.99", "3.35", "89.2"]
    assert copy.by == "driver's copy"
    assert "H100" in section.source
    assert own_page.limits is None


def test_the_ladder_has_a_line_for_each_scope_and_a_row_for_each_size(own_page: ExperimentPage) -> None:
    section = own_page.ceilings
    assert section is not None
    assert section.chart is not None
    assert [track.label.text for track in section.chart.tracks] == list(section.headings) == [
        f"{work}, {scope}" for work in ("copy", "read") for scope in ("device_cold", "device_warm", "graph")
    ]  # fmt: skip
    assert [len(track.marks) for track in section.chart.tracks] == [10] * 3 + [3] * 3
    row = next(row for row in section.ladder if row.size and row.size.text == "134")
    assert [figure and figure.text for figure in row.speeds] == ["2.81", "3.12", "2.96", None, None, None]
    # A read of 64 MiB writes a little too, and stands beside the copy of as many bytes.
    (row,) = (row for row in section.ladder if row.size and row.size.text == "67.1")
    assert all(row.speeds)
    assert len(section.ladder) == 10
