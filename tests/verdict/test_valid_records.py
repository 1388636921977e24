"""A line that was copied into a journal is set aside, and never takes the place of the run's own."""

import dataclasses

import pytest
from factory import canary, plan_of, records_of

from experiments.normalization_fusion import NORMALIZATION_FUSION
from lab.definition.plan import Plan
from lab.evidence.record import Cell, Counters, Reading, Record, SweepStart, Watch
from lab.verdict.valid_records import valid_records

PLAN = plan_of(sweeps=3, profiling=True, instruments=True, experiments=[NORMALIZATION_FUSION])


def journal_of(plan: Plan) -> list[Record]:
    return records_of(plan, {"torch-baseline": 60e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 25e-6})


def test_a_runs_own_records_are_all_kept() -> None:
    records = journal_of(PLAN)
    assert valid_records(PLAN, records, set()) == (records, [])


@pytest.mark.parametrize("kind", [Cell, Watch, SweepStart, Counters, Reading])
def test_a_line_that_was_copied_counts_once(kind: type[Record]) -> None:
    records = journal_of(PLAN)
    copied = next(r for r in records if isinstance(r, kind))
    kept, strangers = valid_records(PLAN, [*records, copied], set())
    assert kept == records
    assert [(s.line_number, s.reason) for s in strangers] == [(len(records) + 1, "repeats an earlier line")]


def test_a_foreign_line_takes_no_ones_place() -> None:
    records = journal_of(PLAN)
    own = next(r for r in records if isinstance(r, Cell))
    foreign = dataclasses.replace(own, process="9-99")
    at = records.index(own)
    kept, strangers = valid_records(PLAN, [*records[:at], foreign, *records[at:]], set())
    assert kept == records
    assert [s.reason for s in strangers] == ["process '9-99' began no sweep in this journal"]


def test_a_sweep_that_is_not_in_the_plan_is_set_aside() -> None:
    records = journal_of(PLAN)
    own = next(r for r in records if isinstance(r, SweepStart))
    kept, strangers = valid_records(PLAN, [*records, dataclasses.replace(own, sweep=30)], set())
    assert kept == records
    assert [s.reason for s in strangers] == ["sweep 30 is not in the plan"]


def test_lines_are_numbered_as_in_the_file_also_after_a_damaged_one() -> None:
    records = journal_of(PLAN)
    _, strangers = valid_records(PLAN, [*records, records[-1]], {2})
    assert [s.line_number for s in strangers] == [len(records) + 2]


def test_canaries_of_two_experiments_with_a_case_of_one_name_are_both_kept_and_a_copied_one_is_not() -> None:
    records = journal_of(PLAN)
    process = next(r.process for r in records if isinstance(r, SweepStart))
    sung = [canary(0, process, "same", experiment=name) for name in ("e", "f", "f")]
    kept, strangers = valid_records(PLAN, [*records, *sung], set())
    assert kept == [*records, *sung[:2]]
    assert [(s.line_number, s.reason) for s in strangers] == [(len(records) + 3, "repeats an earlier line")]
