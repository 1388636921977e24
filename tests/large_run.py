"""Runs of very many cells that never happened, of the records that a GPU leaves.

Each sweep measures every cell in one scope, and adds a control, a canary and a watch for each case. With 10,000 cells a
sweep is 17,503 records, and 60 sweeps are a million.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from factory import DOUBLING, canary, cell, machine, plan_of, profile, small_experiment, watch

from lab.definition.experiment import Case, Claim, Experiment
from lab.definition.plan import Plan, PlannedCase
from lab.definition.plan_file import save_plan
from lab.evidence import journal
from lab.evidence.codec import SCHEMA
from lab.evidence.record import Control, Record, RunFinish, RunStart, SweepFinish, SweepStart, Timing
from lab.evidence.source import source_digest

PROFILES = {"plain": 60e-6, "fused": 45e-6, "compiled": 42e-6, "fast": 40e-6}
SCATTER = 0.003


def experiments(count: int, cases: int, profiles: int = len(PROFILES)) -> list[Experiment]:
    return [_experiment(number, cases, profiles) for number in range(count)]


def _experiment(number: int, size: int, profile_count: int) -> Experiment:
    cases = tuple(
        Case(operator=DOUBLING, shape=(64 * (1 + n), 4096), dtype="float16", description="a shape")
        for n in range(size)
    )  # fmt: skip
    profiles = {name: profile(f"{name}-{number}", title=name) for name in [*PROFILES][-profile_count:]}
    claims = tuple(
        Claim(
            name=f"fast-beats-{name}-{number}", text=f"Fast is faster than {name}.", subject=profiles["fast"],
            baseline=profiles[name], cases=cases,
        )
        for name in profiles
        if name != "fast"
    )  # fmt: skip
    return small_experiment(
        name=f"doubling-{number}", title=f"Doubling {number}", cases=cases, profiles=tuple(profiles.values()),
        claims=claims, headlines=claims[:1],
    )  # fmt: skip


def write_large_run(run: Path, sweeps: int, chosen: Sequence[Experiment]) -> None:
    run.mkdir(parents=True)
    plan = plan_of(run.name, sweeps=sweeps, experiments=chosen)
    save_plan(plan, run)
    path = run / journal.NAME
    start = RunStart(
        schema=SCHEMA, run_id=plan.run_id, plan_digest=plan.digest, source_digest=source_digest(), commit="",
        dirty=False, started_utc="2026-01-02T03:04:05Z",
    )  # fmt: skip
    journal.append(path, start)
    for sweep in range(sweeps):
        for records in _sweep(plan, sweep):
            journal.append(path, *records)
    journal.append(path, RunFinish(finished_utc="2026-01-03T03:04:05Z", wall_seconds=86400.0))


def _sweep(plan: Plan, sweep: int) -> Iterator[list[Record]]:
    """What one process leaves: the records of an experiment at a time."""
    dice, process = random.Random(sweep), f"{sweep}-{1000 + sweep}"
    start = SweepStart(
        sweep=sweep, process=process, machine=machine(), launch_floor_seconds=2e-6, empty_seconds=1.2e-6,
        started_utc="2026-01-02T03:10:00Z",
    )  # fmt: skip
    yield [start, canary(sweep, process, "")]
    for experiment in plan.experiments:
        records: list[Record] = []
        for case in experiment.included_cases:
            place = experiment.name, case.name
            records.append(watch(*place, sweep, process, plan.protocol.rounds))
            repeated = _timing(case, case.control, plan, dice)
            records.append(
                Control(
                    experiment=experiment.name, case=case.name, profile=case.control, sweep=sweep, process=process,
                    timings=(repeated,),
                )
            )  # fmt: skip
            for measured in experiment.profiles_of(case):
                timing = _timing(case, measured.name, plan, dice)
                records.append(cell(*place, measured.name, sweep, process, timings=(timing,)))
            records.append(canary(sweep, process, case.name, experiment=experiment.name))
        yield records
    yield [
        SweepFinish(
            sweep=sweep, process=process, stage_seconds={"load": 5.0, "check": 60.0, "time": 600.0},
            finished_utc="2026-01-02T03:30:00Z",
        )
    ]  # fmt: skip


def _timing(case: PlannedCase, profile: str, plan: Plan, dice: random.Random) -> Timing:
    middle = PROFILES[profile.rpartition("-")[0]] * case.least_bytes / (2 * 2 * 4096 * 4096)
    return Timing(
        scope="device_cold",
        rounds=tuple(
            tuple(round(middle * (1 + SCATTER * dice.gauss()), 10) for _ in range(plan.protocol.block))
            for _ in range(plan.protocol.rounds)
        ),
        void=(0,) * plan.protocol.rounds,
        enqueue_seconds=5e-6,
        spin_seconds=2e-4,
    )


def main() -> None:
    path, sweeps, cells, count = sys.argv[1:]
    write_large_run(Path(path), int(sweeps), experiments(int(count), int(cells) // int(count) // len(PROFILES)))


if __name__ == "__main__":
    main()
