"""Runs that never happened: plans and records with given times, for tests of what reads them.

directory = measured_run(tmp_path, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6})
run = load_run(directory)
"""

import dataclasses
import functools
import hashlib
import json
import math
import random
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS, Case, Claim, Experiment, Operator, Profile, one_of
from lab.definition.plan import Plan, PlannedCase, Protocol
from lab.definition.plan_file import save_plan
from lab.definition.planning import make_plan, planned
from lab.evidence import journal
from lab.evidence.codec import SCHEMA
from lab.evidence.record import (
    Canary,
    Cell,
    Compiled,
    Control,
    Correctness,
    Counters,
    Edge,
    FlushCheck,
    Kernel,
    Machine,
    Reading,
    Record,
    Round,
    RunFinish,
    RunStart,
    SweepFinish,
    SweepStart,
    Timing,
    Watch,
)
from lab.evidence.source import source_digest
from lab.kernels.traffic import Traffic
from lab.project import project
from lab.verdict.judge import POLICY_VERSION
from lab.website.data import promoted
from lab.website.files.inventory import inventory, read_files

Key = str | tuple[str, str]  # a profile, or a (case, profile)
LAUNCH_FLOOR_SECONDS = 2e-6
SCALE_BYTES = 2 * 4096 * 4096 * 2  # `seconds` are those of a 4096x4096 float16 problem
SWEEP_FLAG = "rmsnorm-shape-sweep"


def machine(device: str = "cuda", **changes: Any) -> Machine:
    """An H100 box, or a machine without a GPU."""
    facts: dict[str, Any] = {
        "device": device,
        "gpu": "", "gpu_id": "", "compute_capability": "", "multiprocessors": 0,
        "memory_bytes": 0, "l2_bytes": 32 << 20, "peak_bytes_per_second": 0.0, "power_limit_watts": 0.0,
        "sm_clock_hertz": 0.0, "memory_clock_hertz": 0.0, "ecc": "", "mig": "", "persistence": "",
        "driver": "", "cuda": "", "torch": "2.13.0", "triton": "3.6.0", "ncu": "", "libraries": {},
        "python": "3.12.3", "os": "Linux 6.8.0 x86_64", "cpu": "A Processor", "cpu_count": 2, "environment": {},
    }  # fmt: skip
    if device == "cuda":
        facts |= {
            "gpu": "NVIDIA H100 80GB HBM3", "gpu_id": "0123456789ab", "compute_capability": "9.0",
            "multiprocessors": 132, "memory_bytes": 85_017_493_504, "l2_bytes": 52_428_800,
            "peak_bytes_per_second": 3.35232e12, "power_limit_watts": 700.0, "sm_clock_hertz": 1.98e9,
            "memory_clock_hertz": 2.619e9, "ecc": "on", "mig": "off", "persistence": "on",
            "driver": "580.159.04", "cuda": "13.0", "torch": "2.11.0", "ncu": "2025.3.1.0",
            "libraries": {"liger-kernel": "0.8.5"},
        }  # fmt: skip
    return Machine(**(facts | changes))


def small_experiment(**changes: Any) -> Experiment:
    """Two cases, two profiles, one claim: `fast` is faster than `plain`. `large` needs a flag."""
    facts: dict[str, Any] = {
        "name": "doubling", "title": "Doubling", "question": "Is it fast?", "importance": "It is.", "focus": "Doubling",
        "cases": (SMALL, LARGE), "profiles": (PLAIN, FAST), "claims": (FAST_BEATS_PLAIN,),
        "headlines": (FAST_BEATS_PLAIN,), "does_not_show": ("Anything else.",), "metrics": {"Latency": ("p50",)},
    }  # fmt: skip
    return Experiment(**(facts | changes))


def _doubling_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


def _doubling_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    size = math.prod(shape)
    return Traffic(read_bytes=size * itemsize, written_bytes=size * itemsize, flops=size)


DOUBLING = Operator(
    name="doubling", inputs=_doubling_inputs, reference=lambda x: 2 * x.double(), traffic=_doubling_traffic, tolerance=1
)  # fmt: skip
SMALL = Case(operator=DOUBLING, shape=(64, 128), dtype="float32", description="small")
LARGE = Case(operator=DOUBLING, shape=(4096, 4096), dtype="float32", description="large", only_with="large-sweep")


def profile(name: str, **changes: Any) -> Profile:
    facts: dict[str, Any] = {
        "name": name, "title": name, "technique": "It doubles.", "hypothesis": "It is fast.", "signal": "One kernel.",
        "implementations": {"doubling": lambda: lambda x: x * 2},
    }  # fmt: skip
    return Profile(**(facts | changes))


PLAIN, FAST = profile("plain"), profile("fast")
FAST_BEATS_PLAIN = Claim(
    name="fast-beats-plain", text="Fast is faster than plain.", subject=FAST, baseline=PLAIN, cases=(SMALL, LARGE)
)  # fmt: skip


def plan_of(
    run_id: str = "synthetic",
    *,
    device: str = "cuda",
    sweeps: int = 5,
    include: Iterable[str] = (),
    profiling: bool = False,
    instruments: bool = False,
    experiments: Iterable[Experiment] | None = None,
    protocol: Protocol | None = None,
    cases: Mapping[str, Collection[str]] = {},
) -> Plan:
    """The plan of normalization-fusion, or of other experiments; `include` names flags of further cases."""
    plan = make_plan(
        run_id,
        choose_experiments(["normalization-fusion"]) if experiments is None else experiments,
        device=device,
        profiling=profiling,
        sweeps=sweeps,
        include=frozenset(include),
        policy_version=POLICY_VERSION,
        instruments=instruments,
        cases=cases,
    )
    return plan if protocol is None else dataclasses.replace(plan, protocol=protocol)


def records_of(
    plan: Plan,
    seconds: Mapping[Any, float],
    *,
    noise: float = 0.003,
    outcomes: Mapping[Any, tuple[str, str]] | None = None,
    seed: int = 1,
    source: str = "",
    commit: str = "",
    finished: bool = True,
    on: Machine | None = None,
) -> list[Record]:
    """A journal's records: every planned cell in every sweep.

    seconds: p50 by profile (a 4096x4096 float16 problem's; other cases scale with their least bytes
    above the launch floor) or by (case, profile) (taken as it is). A profile without one is skipped.
    noise: relative standard deviation of a sample. outcomes: (outcome, reason) by profile or by
    (case, profile), instead of a measurement.
    """
    dice = random.Random(seed)
    where = on or machine(plan.device)
    start = RunStart(
        schema=SCHEMA, run_id=plan.run_id, plan_digest=plan.digest, source_digest=source or _digest_of_source(),
        commit=commit, dirty=False, started_utc="2026-01-02T03:04:05Z",
    )  # fmt: skip
    records: list[Record] = [start]
    for sweep in range(plan.protocol.sweeps):
        process = f"{sweep}-{1000 + sweep}"
        records.append(
            SweepStart(
                sweep=sweep, process=process, machine=where, launch_floor_seconds=LAUNCH_FLOOR_SECONDS,
                started_utc=f"2026-01-02T03:{10 + sweep % 20}:00Z",
            )
        )  # fmt: skip
        records.append(canary(sweep, process, ""))
        for experiment in plan.experiments:
            for case in experiment.included_cases:
                records.append(watch(experiment.name, case.name, sweep, process, plan.protocol.rounds))
                control = [
                    _timings(experiment, case, case.control, seconds, noise, plan, dice)
                    for name in (case.control,)
                    if _outcome(case.name, name, seconds, outcomes or {})[0] == "measured"
                ]
                records += [
                    Control(
                        experiment=experiment.name, case=case.name, profile=case.control, sweep=sweep,
                        process=process, timings=timings,
                    )
                    for timings in control
                ]  # fmt: skip
                for profile in experiment.profiles_of(case):
                    outcome, reason = _outcome(case.name, profile.name, seconds, outcomes or {})
                    timed: tuple[Timing, ...] = ()
                    if outcome == "measured":
                        timed = _timings(experiment, case, profile.name, seconds, noise, plan, dice)
                    records.append(
                        cell(experiment.name, case.name, profile.name, sweep, process, outcome, reason, timed)
                    )
                records.append(canary(sweep, process, case.name, experiment=experiment.name))
        records.append(
            SweepFinish(
                sweep=sweep, process=process, stage_seconds={"load": 5.0, "check": 1.0, "time": 4.0},
                finished_utc=f"2026-01-02T03:{10 + sweep % 20}:50Z",
            )
        )  # fmt: skip
    if plan.profiling:
        records += _counters(plan, seconds, outcomes or {})
        records.append(
            FlushCheck(footprint_bytes=16 << 20, flushed_read_bytes=16.8e6, warm_read_bytes=2560.0, reason="")
        )
    if plan.instruments:
        case, profile = next(plan.experiments[0].cells())
        records.append(
            Reading(
                experiment=plan.experiments[0].name, case=case.name, profile=profile.name, instrument="nvbench",
                seconds=3e-5, reason="",
            )
        )  # fmt: skip
    if finished:
        records.append(RunFinish(finished_utc="2026-01-02T03:30:00Z"))
    return records


def _digest_of_source() -> str:
    """Of the lab's own, which stays while tests run, it is taken once."""
    return _own_digest() if project().is_the_labs_own else source_digest()


@functools.cache
def _own_digest() -> str:
    return source_digest()


def measured_run(
    parent: Path,
    seconds: Mapping[Any, float],
    *,
    run_id: str = "synthetic",
    device: str = "cuda",
    sweeps: int = 5,
    include: Iterable[str] = (),
    profiling: bool = False,
    **how: Any,
) -> Path:
    """Write the run directory `parent/run_id`: plan.json and journal.jsonl. `how` goes to records_of."""
    plan = plan_of(run_id, device=device, sweeps=sweeps, include=include, profiling=profiling)
    return write_run(parent / run_id, plan, records_of(plan, seconds, **how))


def write_run(directory: Path, plan: Plan, records: Iterable[Record]) -> Path:
    directory.mkdir(parents=True)
    save_plan(plan, directory)
    for record in records:
        journal.append(directory / journal.NAME, record)
    return directory


def publish(evidence: Path, directory: Path) -> str:
    """Promote a run without a commit: the site does not ask git. Returns its digest."""
    target = evidence / directory.name
    shutil.copytree(directory, target)
    hashes = {name: hashlib.sha256((target / name).read_bytes()).hexdigest() for name in promoted.FILES}
    lines = target / journal.NAME
    (target / journal.PACKED).write_bytes(journal.packed(lines.read_bytes()))
    lines.unlink()
    address = promoted.address_of(directory.name, "c" * 40, hashes)
    manifest = {"schema": 1, "run_id": directory.name, "digest": address, "commit": "c" * 40, "files": hashes}
    (target / promoted.NAME).write_text(json.dumps(manifest))
    return address


def cell(
    experiment: str,
    case: str,
    profile: str,
    sweep: int,
    process: str = "",
    outcome: str = "measured",
    reason: str = "",
    timings: tuple[Timing, ...] = (),
) -> Cell:
    checked = outcome in ("measured", "wrong")
    right = Correctness(
        passed=outcome == "measured", seeds=(1, 2, 3), worst_absolute_error=1e-3,
        worst_tolerance_share=0.2 if outcome == "measured" else 40.0, message=reason,
        edges=(Edge(name="zeros", outcome="passed", tolerance_share=0.1, standard_share=0.1, message=""),),
    )  # fmt: skip
    return Cell(
        experiment=experiment, case=case, profile=profile, sweep=sweep, process=process or f"{sweep}-{1000 + sweep}",
        outcome=outcome, reason=reason, prepare_seconds=0.25 if checked else 0.0,
        correctness=right if checked else None, timings=timings, finished_utc=f"2026-01-02T03:{10 + sweep % 20}:30Z",
        stage="time" if outcome == "crashed" else "",
    )  # fmt: skip


def triton_kernel(name: str, *, registers: int = 32, warps: int = 8, code: str = "cd") -> Compiled:
    return Compiled(
        name=name, registers_per_thread=registers, spills=0, shared_bytes=32, warps=warps, stages=3,
        configuration={"BLOCK": "4096"}, code_sha256=code * 32,
    )  # fmt: skip


def canary(sweep: int, process: str, after: str, **changes: Any) -> Canary:
    facts: dict[str, Any] = {"copy_seconds": 136.5e-6, "spin_hertz": 1.974e9}
    return Canary(sweep=sweep, process=process, after=after, **(facts | changes))


def quiet_round(**changes: Any) -> Round:
    facts: dict[str, Any] = {
        "seconds": 0.13, "polls": 6, "reasons": 0, "violation_seconds": {"power": 0.0, "thermal": 0.0},
        "spin_hertz": 1.93e9, "power_watts": 300.0, "temperature_celsius": 38.0, "foreign_processes": 0,
    }  # fmt: skip
    return Round(**(facts | changes))


def watch(experiment: str, case: str, sweep: int, process: str, rounds: int = 6) -> Watch:
    return Watch(
        experiment=experiment, case=case, sweep=sweep, process=process, rounds=(quiet_round(),) * rounds
    )  # fmt: skip


def busy(plan: Plan) -> Plan:
    """The plan with as many operations at each case as a matrix product has, in which boards differ more."""
    experiments = (
        dataclasses.replace(
            each,
            cases=tuple(dataclasses.replace(case, flops=1000 * case.written_bytes) for case in each.cases),
        )
        for each in plan.experiments
    )
    return dataclasses.replace(plan, experiments=tuple(experiments))


def seen_as(records: Iterable[Record], *changes: dict[str, Any]) -> list[Record]:
    """The records, with rounds in which the GPU was as these say, in turn."""
    return [
        dataclasses.replace(
            record, rounds=tuple(quiet_round(**changes[n % len(changes)]) for n, _ in enumerate(record.rounds))
        )
        if isinstance(record, Watch)
        else record
        for record in records
    ]


def _timings(
    experiment: Any, case: PlannedCase, profile: str, seconds: Mapping[Any, float], noise: float, plan: Plan,
    dice: random.Random,
) -> tuple[Timing, ...]:  # fmt: skip
    """Every scope that the experiment asks for and the device has."""
    cold = _expected(case, profile, seconds)
    times = {"device_cold": cold, "device_warm": 0.9 * cold, "graph": 0.95 * cold, "eager": cold + 20e-6}
    times["device_dirty"] = 1.1 * cold
    of_a_cpu = ("device_cold", "device_warm")
    scopes = [scope for scope in experiment.scopes if plan.device == "cuda" or scope in of_a_cpu]
    few = dataclasses.replace(plan.protocol, block=4)
    return tuple(
        dataclasses.replace(
            timing(
                times[scope],
                noise,
                plan.protocol if scope == "device_cold" else few,
                random.Random(1)
                if scope == "device_dirty"
                else dice,  # the other scopes stay what they were without it
            ),
            scope=scope,
        )
        for scope in scopes
    )


def timing(
    p50_seconds: float, noise: float, protocol: Protocol, dice: random.Random, enqueue_seconds: float = 5e-6
) -> Timing:
    """Samples around a time: log-normal, with a small effect of the sweep."""
    here = p50_seconds * math.exp(dice.gauss(0, noise / 5))
    return Timing(
        scope="device_cold",
        rounds=tuple(
            tuple(round(here * math.exp(dice.gauss(0, noise)), 10) for _ in range(protocol.block))
            for _ in range(protocol.rounds)
        ),
        void=(0,) * protocol.rounds,
        enqueue_seconds=enqueue_seconds,
        spin_seconds=2e-4,
    )


def _outcome(
    case: str, profile: str, seconds: Mapping[Any, float], outcomes: Mapping[Any, tuple[str, str]]
) -> tuple[str, str]:
    keys = ((case, profile), profile)
    for key in keys:
        if key in outcomes:
            return outcomes[key]
    if any(key in seconds for key in keys):
        return "measured", ""
    return "skipped", "no time was given for it"


def _expected(case: PlannedCase, profile: str, seconds: Mapping[Any, float]) -> float:
    if (case.name, profile) in seconds:
        return seconds[case.name, profile]
    floor = LAUNCH_FLOOR_SECONDS
    return floor + (seconds[profile] - floor) * case.least_bytes / SCALE_BYTES


def ceiling_seconds() -> dict[tuple[str, str], float]:
    """Of gpu-ceilings: copies at 3 TB/s behind a launch of 3 µs, reads at 3.01 TB/s, products at 300 TFLOP/s and up."""
    rates = {"float16": 600e12, "bfloat16": 700e12, "float8_e4m3fn": 1200e12, "float32": 300e12}
    seconds: dict[tuple[str, str], float] = {}
    (experiment,) = choose_experiments([CEILINGS])
    for case in planned(experiment, frozenset()).cases:
        if case.op == "copy":
            seconds[case.name, "torch-copy"] = 3e-6 + case.least_bytes / 3e12
            seconds[case.name, "triton-copy"] = 1.05 * seconds[case.name, "torch-copy"]
        elif case.op == "read":
            seconds[case.name, "torch-sum"] = case.least_bytes / 3.01e12
        else:
            seconds[case.name, "cublas"] = case.flops / rates[case.dtype]
    return seconds


def _counters(plan: Plan, seconds: Mapping[Any, float], outcomes: Mapping[Any, tuple[str, str]]) -> list[Record]:
    records: list[Record] = []
    for experiment in plan.experiments:
        for case, profile in experiment.cells():
            if plan.device not in profile.devices:
                continue
            measured = _outcome(case.name, profile.name, seconds, outcomes)[0] == "measured"
            kernel = Kernel(
                name=(*one_of(profile.kernels.get(case.op, "")), "some_kernel")[0],
                grid="(4096, 1, 1)", block="(256, 1, 1)",
                duration_seconds=_expected(case, profile.name, seconds) if measured else None,
                dram_read_bytes=float(case.read_bytes), dram_written_bytes=float(case.written_bytes),
                dram_percent=81.5, occupancy_percent=93.25, registers_per_thread=32.0, shared_bytes_per_block=1024.0,
                theoretical_occupancy_percent=100.0, blocks_per_multiprocessor={"warps": 8.0, "registers": 8.0},
                l1_hit_percent=40.5, l2_hit_percent=50.5, sm_percent=25.25, tensor_percent=0.0,
                stalls={"long_scoreboard": 12.5},
            )  # fmt: skip
            records.append(
                Counters(
                    experiment=experiment.name, case=case.name, profile=profile.name,
                    outcome="measured" if measured else "blocked",
                    reason="" if measured else "ncu saw no kernel in this cell's range",
                    kernels=(kernel,) if measured else (), ncu="2025.3.1.0", report_sha256="ab" * 32,
                )
            )  # fmt: skip
    return records


def take_stock(site: Path) -> None:
    """Write the sitemap and the manifest of a folder as it is now, as the end of a build would."""
    for name, content in inventory(read_files(site)):
        (site / name).write_bytes(content)
