"""`benchmark-norms`: one case of a norm, measured here and now and printed as a table.

A single process gives no interval and no verdict; `lab benchmark` is for claims.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lab.definition.catalogue import choose_experiments
from lab.definition.dtypes import ITEMSIZES
from lab.definition.experiment import COLD, Experiment, Operator, Profile
from lab.definition.plan import Protocol
from lab.errors import LabError, PlanError
from lab.kernels.rows import MAXIMUM_COLUMNS
from lab.options import add_dtype
from lab.suggest import Parser
from lab.verdict.statistics import latency
from lab.website import format
from lab.worker.correctness import check_profile
from lab.worker.device import choose_device, make_clock
from lab.worker.faults import fault, skip_reason
from lab.worker.input_pool import InputPool
from lab.worker.measure import CaseTimer, Observer, Subject

BASELINE = "torch-fused"
BACKENDS = {
    "torch": ("torch-baseline", "torch-fused", "torch-compile"),
    "triton": ("triton-",),
    "liger": ("liger",),
    "quack": ("quack",),
}
PROTOCOL = Protocol(rounds=12, cell_seconds=0.5)  # a few samples may be void, and p95 wants a hundred


@dataclass(frozen=True, kw_only=True, slots=True)
class NormTiming:
    """One profile of one operator; numbers are None where it was not measured."""

    op: str
    profile: str
    outcome: str
    reason: str
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    noise_ratio: float | None = None
    bytes_per_second: float | None = None
    speedup_vs_torch_fused: float | None = None
    worst_tolerance_share: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        device = choose_device(options.device)
        _check_shape(options.rows, options.cols)
        (experiment,) = choose_experiments(["normalization-fusion"])
        operators = {case.operator.name: case.operator for case in experiment.cases}
        chosen = [op for name, op in operators.items() if options.op in (name, "all")]
        with torch.no_grad():
            rows = [
                row
                for operator in chosen
                for row in measure(
                    experiment, operator, (options.rows, options.cols), options.dtype, device, options.backend
                )
            ]
    except LabError as problem:
        print(f"benchmark-norms: {problem}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        _print(rows, f"{options.rows}x{options.cols} {options.dtype} on {device}")
    return 0 if all(row.outcome in ("measured", "skipped") for row in rows) else 1


def measure(
    experiment: Experiment,
    operator: Operator,
    shape: tuple[int, int],
    dtype: str,
    device: str,
    backend: str,
) -> Iterator[NormTiming]:
    """Check every profile of the operator, time those that are right in interleaved rounds."""
    seeds = tuple(random.SystemRandom().getrandbits(31) for _ in range(PROTOCOL.ring))
    try:
        sets = [operator.inputs(shape, getattr(torch, dtype), device, seed) for seed in seeds]
    except (RuntimeError, TypeError) as refusal:  # no memory, or more elements than torch can count
        raise PlanError(
            f"inputs of {shape[0]}x{shape[1]} {dtype} cannot be made: {fault(refusal)[:120]}; try fewer"
        ) from None
    planned = [each for each in experiment.profiles if operator.name in each.implementations]
    prepared = {
        each.name: _prepared(each, operator, sets, seeds, device) for each in planned if _in_backend(each, backend)
    }
    yield from (each for each in prepared.values() if isinstance(each, NormTiming))
    ready = {name: each for name, each in prepared.items() if not isinstance(each, NormTiming)}
    if ready:
        subjects = {name: subject for name, (subject, _) in ready.items()}
        pool = InputPool(sets, random.Random())
        timer = CaseTimer(make_clock(device), subjects, pool, (COLD,), PROTOCOL, random.Random(), Observer())
        rounds = {name: timings[0].rounds for name, timings in timer.time().timings.items()}
        yield from _timed(operator, shape, dtype, rounds, {name: share for name, (_, share) in ready.items()})


def _prepared(
    profile: Profile, operator: Operator, sets: list[Any], seeds: tuple[int, ...], device: str
) -> tuple[Subject, float] | NormTiming:
    """What to time, with its share of the tolerance; or the row of a profile that cannot be timed."""
    try:
        outcome, reason = "skipped", skip_reason(profile, device)
        if not reason:
            function = profile.implementations[operator.name]()
            correctness = check_profile(operator, function, sets, seeds)
            if correctness.passed:
                return Subject(function), correctness.worst_tolerance_share
            outcome, reason = "wrong", correctness.message
    except Exception as problem:  # a profile that fails is a row of the table, not the end of it
        outcome, reason = "failed", fault(problem)
    return NormTiming(op=operator.name, profile=profile.name, outcome=outcome, reason=reason)


def _timed(
    operator: Operator, shape: tuple[int, int], dtype: str, rounds: dict[str, Any], shares: dict[str, float]
) -> Iterator[NormTiming]:
    least_bytes = operator.traffic(shape, ITEMSIZES[dtype]).total_bytes
    summaries = {name: summary for name, samples in rounds.items() if (summary := latency([samples]))}
    baseline = summaries.get(BASELINE)
    for name, summary in summaries.items():
        yield NormTiming(
            op=operator.name,
            profile=name,
            outcome="measured",
            reason="",
            p50_seconds=summary.p50_seconds,
            p95_seconds=summary.p95_seconds,
            noise_ratio=summary.noise_ratio,
            bytes_per_second=least_bytes / summary.p50_seconds,
            speedup_vs_torch_fused=baseline.p50_seconds / summary.p50_seconds if baseline else None,
            worst_tolerance_share=shares[name],
        )


def _print(rows: Sequence[NormTiming], title: str) -> None:
    """Times as a table, fastest first; what was not measured as lines below it."""
    table = Table(title=title, box=SIMPLE_HEAD)
    for heading in ("op", "profile", "p50 µs", "p95 µs", "noise", "GB/s", "vs torch-fused", "error / tolerance"):
        table.add_column(heading, justify="left" if heading in ("op", "profile") else "right", no_wrap=True)
    for row in sorted(rows, key=lambda row: (row.op, row.p50_seconds or 0.0)):
        if row.p50_seconds is not None and row.bytes_per_second is not None:
            table.add_row(
                row.op,
                row.profile,
                format.microseconds(row.p50_seconds),
                format.microseconds(row.p95_seconds) if row.p95_seconds else "–",
                format.noise(row.noise_ratio),
                format.gigabytes_per_second(row.bytes_per_second),
                f"{row.speedup_vs_torch_fused:.2f}×" if row.speedup_vs_torch_fused else "–",
                f"{row.worst_tolerance_share:.2f}, correct",
            )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for row in rows:
        if row.outcome != "measured":
            console.print(f"{row.op}  {row.profile}  {row.outcome}: {row.reason}", markup=False, highlight=False)


def _in_backend(profile: Profile, backend: str) -> bool:
    return backend == "all" or profile.name.startswith(BACKENDS[backend])


def _check_shape(rows: int, columns: int) -> None:
    if rows < 1 or not 1 <= columns <= MAXIMUM_COLUMNS:
        raise PlanError(
            f"--rows {rows} --cols {columns}: accepted are rows from 1 up and 1 to {MAXIMUM_COLUMNS} columns"
        )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="benchmark-norms", description=__doc__)
    parser.add_argument(
        "--op", choices=("rmsnorm", "layernorm", "add-rmsnorm", "all"), default="all", help="default: all"
    )
    parser.add_argument("--backend", choices=(*BACKENDS, "all"), default="all", help="default: all")
    parser.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: cuda where there is one"
    )
    parser.add_argument("--rows", type=int, default=4096, help="default: 4096")
    parser.add_argument("--cols", type=int, default=4096, help="default: 4096")
    add_dtype(parser, default="float16")
    parser.add_argument("--json", action="store_true", help="print JSON (SI units) instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
