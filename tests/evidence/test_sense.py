"""A record with an impossible value is damage of its line, also where the checksum is right."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from factory import machine, measured_run, plan_of, records_of

from lab.evidence import journal
from lab.evidence.record import Cell, Record, RunFinish, RunStart, Sustained, SweepFinish, SweepStart, Watch
from lab.evidence.sense import impossible_value
from lab.verdict.judge_run import load_run
from lab.verdict.valid_records import valid_records

PLAN = plan_of(sweeps=2, include=(), profiling=True, instruments=True)
RECORDS = records_of(PLAN, {"torch-fused": 30e-6, "torch-baseline": 40e-6})


def first(kind: type[Any], **wanted: Any) -> Any:
    return next(r for r in RECORDS if isinstance(r, kind) and all(getattr(r, k) == v for k, v in wanted.items()))


def with_sample(seconds: float) -> Cell:
    cell: Cell = first(Cell, outcome="measured")
    timing = dataclasses.replace(cell.timings[0], rounds=((1e-5, seconds), *cell.timings[0].rounds[1:]))
    return dataclasses.replace(cell, timings=(timing,))


def lasting(**values: Any) -> Cell:
    return dataclasses.replace(first(Cell, outcome="measured"), sustained=Sustained(**values))


def test_what_is_measured_makes_sense() -> None:
    back_to_back = lasting(batch_seconds=(1e-6, 2e-6), calls_per_batch=7, spin_hertz=(1e9, 1e9), power_watts=696.0)
    assert [impossible_value(each) for each in (back_to_back, lasting(reason="no graph"))] == ["", ""]
    assert [impossible_value(record) for record in RECORDS if impossible_value(record)] == []


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (with_sample(0.0), "Timing.rounds is 0.0 in a sample; no call takes so little"),
        (with_sample(-1e-6), "Timing.rounds is -1e-06 in a sample"),
        (with_sample(1e9), "no call may take more than 3600 seconds"),
        (lasting(batch_seconds=(1e-6, 0.0)), "Cell.sustained is Sustained.batch_seconds is 0.0 in a sample"),
        (lasting(spin_hertz=(1e9, -1.0)), "Sustained.spin_hertz is -1.0; it cannot be negative"),
        (dataclasses.replace(first(Cell), finished_utc="yesterday"), "finished_utc is 'yesterday', which is no time"),
        (dataclasses.replace(first(Cell), finished_utc="2026-02-30T00:00:00Z"), "is no time in UTC"),
        (dataclasses.replace(first(Cell), outcome="splendid"), "Cell.outcome is 'splendid'; accepted are"),
        (dataclasses.replace(first(SweepStart), started_utc=""), "SweepStart.started_utc is ''"),
        (dataclasses.replace(first(RunFinish), finished_utc="9999-01-01T00:00:00Z"), "of the years 2020 to 2100"),
        (dataclasses.replace(first(SweepFinish), stage_seconds={"time": -1.0}), "stage_seconds is -1.0; it cannot be"),
        (dataclasses.replace(first(SweepStart), launch_floor_seconds=-1e-6), "launch_floor_seconds is -1e-06"),
        (
            dataclasses.replace(first(SweepStart), machine=machine(power_limit_watts=-700.0)),
            "Machine.power_limit_watts is -700.0",
        ),
        (
            dataclasses.replace(
                first(Watch), rounds=(dataclasses.replace(first(Watch).rounds[0], seconds=-1.0),)
            ),
            "Round.seconds is -1.0",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_reported_with_its_field(record: Record, message: str) -> None:
    assert message in impossible_value(record)


def test_such_a_line_is_damage_and_the_others_are_judged(tmp_path: Path) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 30e-6, "torch-baseline": 40e-6}, sweeps=3)
    path = directory / journal.NAME
    records = list(journal.read(path).records)
    place = next(at for at, r in enumerate(records) if isinstance(r, Cell) and r.outcome == "measured")
    records[place] = dataclasses.replace(with_sample(0.0), sweep=0)
    path.unlink()
    for record in records:
        journal.append(path, record)
    (damage,) = load_run(directory).damages
    assert damage.line_number == place + 1
    assert "no call takes so little" in damage.reason


def test_a_sweep_of_another_machine_is_set_aside_with_all_that_it_measured() -> None:
    foreign = [
        dataclasses.replace(record, machine=machine(gpu_id="another"))
        if isinstance(record, SweepStart) and record.sweep == 1
        else record
        for record in RECORDS
    ]
    kept, aside = valid_records(PLAN, foreign, set())
    assert {record.sweep for record in kept if isinstance(record, Cell | SweepStart)} == {0}
    assert "on another machine than the run began on: gpu_id was '0123456789ab', is 'another'" in aside[0].reason
    assert isinstance(foreign[aside[0].line_number - 1], SweepStart)
    assert isinstance(kept[0], RunStart)
