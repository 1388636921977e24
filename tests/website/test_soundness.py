"""What an experiment's page says of its errors, and of the board's power limit."""

import dataclasses
from collections.abc import Callable

from factory import DOUBLING, FAST, LARGE, PLAIN, SMALL, plan_of, quiet_round, records_of, small_experiment
from page_parts import figures, texts_of

from lab.definition.experiment import Case, Experiment
from lab.evidence.record import Cell, Record, Watch
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import DataView
from lab.website.pages.clock_notes import cells_note
from lab.website.pages.correctness import correctness_fold
from lab.website.table import Link, PageTable, Words, plain

ROUGH = dataclasses.replace(SMALL, operator=dataclasses.replace(DOUBLING, name="doubling-rough"))


def judged(experiment: Experiment, change: Callable[[Record], Record]) -> Judged:
    plan = plan_of(experiments=[experiment], include=["large-sweep"])
    times = {(case.name, name): 40e-6 for case in experiment.cases for name in ("plain", "fast")}
    records = records_of(plan, times, noise=0.001)
    return judged_run(judge_run(plan, [change(record) for record in records]))[0]


# Errors


def correctness(cases: tuple[Case, ...], errors: dict[tuple[str, str], float]) -> PageTable:
    """`fast` computes all of the cases, `plain` those of the last operator."""
    fast, last = (
        dataclasses.replace(each, implementations={case.operator.name: lambda: lambda x: x * 2 for case in able})
        for each, able in ((FAST, cases), (PLAIN, cases[-1:]))
    )
    claim = dataclasses.replace(small_experiment().claims[0], subject=fast, baseline=last, cases=cases[-1:])
    experiment = small_experiment(cases=cases, profiles=(last, fast), claims=(claim,), headlines=(claim,))

    def with_error(record: Record) -> Record:
        if not (isinstance(record, Cell) and record.correctness):
            return record
        error = errors[record.case, record.profile]
        return dataclasses.replace(
            record, correctness=dataclasses.replace(record.correctness, worst_absolute_error=error)
        )

    item = judged(experiment, with_error)
    fold = correctness_fold(item, DataView(item.data))
    assert fold is not None
    return fold.tables[0]


def test_errors_at_several_operators_stand_side_by_side() -> None:
    """Each operator has a reference of its own: one figure for both would be the larger one."""
    errors = {(SMALL.name, "fast"): 0.065, (ROUGH.name, "fast"): 0.24, (ROUGH.name, "plain"): 0.016}
    table = correctness((SMALL, ROUGH), errors)
    assert [head.text for head in table.heads[1:4]] == [
        "Largest error, Doubling", "Largest error, Doubling rough", "Share of tolerance",
    ]  # fmt: skip
    assert texts_of(table, "fast")[:2] == ["0.065 64×128 fp32", "0.24 64×128 fp32"]
    assert texts_of(table, "plain")[:2] == ["", "0.016 64×128 fp32"]
    (source,) = (each.source for each in figures(table.rows[0].cells[2]))
    assert source == f"/cells/{ROUGH.name}/plain/worst_absolute_error"


def test_errors_at_one_operator_are_one_figure_with_its_case() -> None:
    errors = {(case.name, name): error for case, error in ((SMALL, 0.01), (LARGE, 0.02)) for name in ("plain", "fast")}
    table = correctness((SMALL, LARGE), errors)
    assert [head.text for head in table.heads[1:3]] == ["Largest error", "Share of tolerance"]
    assert texts_of(table, "fast")[0] == "0.020 doubling 4096×4096 fp32"


# The power limit


def note(hertz: dict[str, float | None]) -> Words:
    """Of a run that was at its limit in these cases, with such clocks."""

    def at_the_limit(record: Record) -> Record:
        if not (isinstance(record, Watch) and record.case in hertz):
            return record
        rounds = [quiet_round(reasons=0x4, sm_hertz=hertz[record.case]) for _ in record.rounds]
        return dataclasses.replace(record, rounds=tuple(rounds))

    item = judged(small_experiment(), at_the_limit)
    return cells_note(item, DataView(item.data))


def test_a_power_limit_is_told_once_with_the_lowest_clock_and_where() -> None:
    told = note({LARGE.name: 1.515e9})
    assert plain(told).startswith(
        "At 1 of 2 cases the board reached its power limit: its clock fell to 1515 of 1980 MHz at "
        "doubling 4096×4096 fp32. Implementations take turns under one limit"
    )
    assert [each.source for each in figures(told)] == [f"/gpu/{LARGE.name}/lowest_sm_hertz", "/machine/sm_clock_hertz"]
    (link,) = (part for part in told if isinstance(part, Link))
    assert link.to == f"cases/{LARGE.name}/index.html#controls"


def test_the_case_with_the_lowest_clock_is_named() -> None:
    told = plain(note({SMALL.name: 1.2e9, LARGE.name: 1.515e9}))
    assert "At 2 of 2 cases" in told
    assert "1200 of 1980 MHz at doubling 64×128 fp32" in told


def test_a_clock_that_nobody_read_is_not_told() -> None:
    told = plain(note({SMALL.name: None}))
    assert "reached its power limit, as at doubling 64×128 fp32." in told
    assert "MHz" not in told


def test_a_run_that_never_reached_its_limit_says_nothing_of_it() -> None:
    assert note({}) == ()
