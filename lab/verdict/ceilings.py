"""What this GPU was measured to reach in this run, and how near to it a cell comes. Pure.

A ceiling is no limit: a better copy, or a kernel that reads more than it writes, may come out above it.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.definition.experiment import GRAPH
from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.datasheet import MATRIX_KINDS
from lab.verdict.roofline import near_launch_floor

COPY, READ, MATMUL, TF32_MATMUL = "copy", "read", "matmul", "matmul-tf32"
READS_ALONE = 0.01  # share of written bytes up to which a cell is compared with a read and not with a copy
FAR_BEYOND_CACHES = 256 << 20  # bytes: between such rungs time grows by the rate of the memory alone
MEMORY_ALONE = 16  # operations a byte, up to which no GPU's matrix units are the limit
QUANTISED_BELOW = 0.9  # of the time at the rate of the case's dtype; a product of that dtype comes within 3 % of it


@dataclass(frozen=True, kw_only=True, slots=True)
class Rung:
    """The fastest profile's time for a case of that many bytes, read and written."""

    bytes: int
    seconds: float
    profile: str

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixRate:
    """The fastest profile's rate in the largest product of a kind."""

    flops_per_second: float
    seconds: float
    profile: str
    case: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceilings:
    """Copies and reads by scope, in ascending bytes; dense matrix rates by kind; the time of an empty kernel."""

    copies: Mapping[str, tuple[Rung, ...]]
    reads: Mapping[str, tuple[Rung, ...]]
    matrix: Mapping[str, MatrixRate]
    launch_floor_seconds: float

    def memory_seconds(self, case: PlannedCase, scope: str) -> float | None:
        """Time that a copy of as many bytes takes in this scope, or a read where next to nothing is written.

        Between two rungs of the ladder as on a straight line, which goes on above two that no cache holds, as for the
        weights of a whole model; else None beyond its ends.
        """
        rungs = {COPY: self.copies, READ: self.reads}[ladder_of(case)]
        return _between(rungs.get(scope, ()), case.least_bytes)

    def matrix_seconds(self, case: PlannedCase, measured_seconds: float = math.inf) -> float | None:
        """Time that the case's operations take at the rate of its dtype; None where it has none, or none is known.

        What is far faster than that has multiplied smaller numbers, as a quantised product does: then at the rate of
        the fastest type.
        """
        rate = self.matrix.get(MATRIX_KINDS.get(case.dtype, ""))
        if not rate or not case.flops:
            return None
        seconds = case.flops / rate.flops_per_second
        if measured_seconds < QUANTISED_BELOW * seconds:
            return case.flops / max(each.flops_per_second for each in self.matrix.values())
        return seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingGap:
    """How far a cell is from the ceiling that limits it, in one scope."""

    memory_seconds: float
    matrix_seconds: float | None  # None where it does no operations, or none of a known rate
    limit: str  # "memory" or "matrix": the one that takes longer
    seconds: float  # at that ceiling
    attained: float  # that time as a share of the measured one
    distance_seconds: float  # what the cell takes longer; below 0 where it is faster


Cells = Mapping[tuple[str, str], CellResult]  # by case and profile


def needed_cases(measured: PlannedExperiment, others: Sequence[PlannedExperiment]) -> frozenset[str]:
    """Which of the ceilings limit the cases of `others`, by name: the copies or reads next to their bytes, and the
    products where operations may be the limit. Measuring every ceiling would take a minute and a half."""
    return frozenset(case.name for other in others for each in other.included_cases for case in _beside(measured, each))


def _beside(measured: PlannedExperiment, case: PlannedCase) -> Iterator[PlannedCase]:
    rungs = sorted((each for each in measured.cases if each.op == ladder_of(case)), key=lambda each: each.least_bytes)
    upper = bisect_left(rungs, case.least_bytes, key=lambda each: each.least_bytes)
    if upper < len(rungs) and rungs[upper].least_bytes == case.least_bytes:
        yield rungs[upper]
    else:
        last = len(rungs) - 1
        upper = min(max(upper, 1), last)  # beyond the ends the two that are nearest
        lower = max(upper - 1, 0)
        # The largest needs more memory than many GPUs have: without it the line goes on above the two below it.
        if upper == last and lower and rungs[lower - 1].least_bytes >= FAR_BEYOND_CACHES:
            lower -= 1
        yield from rungs[lower : upper + 1]
    if intensity(case) > MEMORY_ALONE:
        yield from (each for each in measured.cases if each.op in (MATMUL, TF32_MATMUL))


def ladder_of(case: PlannedCase) -> str:
    """Beside what the bytes of a case are timed: a copy, or a read where next to nothing is written."""
    return READ if case.written_bytes <= READS_ALONE * case.least_bytes else COPY


def ceilings_of(measured: PlannedExperiment, cells: Cells, launch_floor_seconds: float) -> Ceilings | None:
    """What the cells of the experiment that measures the GPU say of it; None where none has a time."""
    if not any(cell.latencies for cell in cells.values()):
        return None
    return Ceilings(
        copies=_ladders(measured, cells, COPY),
        reads=_ladders(measured, cells, READ),
        matrix=_rates(measured, cells),
        launch_floor_seconds=launch_floor_seconds,
    )


def ceiling_gap(
    case: PlannedCase, cell: CellResult, ceilings: Ceilings | None, scope: str = SCOPE
) -> CeilingGap | None:
    """None where the run has no ceilings, where the cell has no possible time in this scope, or one that tells of the
    launch, or where the ladder does not reach its bytes."""
    latency = cell.latencies.get(scope)
    if ceilings is None or latency is None or cell.impossible.get(scope):
        return None
    # Inside a graph a kernel has no launch of its own.
    if scope != GRAPH and near_launch_floor(latency.p50_seconds, ceilings.launch_floor_seconds):
        return None
    memory, matrix = ceilings.memory_seconds(case, scope), ceilings.matrix_seconds(case, latency.p50_seconds)
    if memory is None:
        return None
    limit, seconds = ("matrix", matrix) if matrix is not None and matrix > memory else ("memory", memory)
    return CeilingGap(
        memory_seconds=memory,
        matrix_seconds=matrix,
        limit=limit,
        seconds=seconds,
        attained=seconds / latency.p50_seconds,
        distance_seconds=latency.p50_seconds - seconds,
    )


def intensity(case: PlannedCase) -> float:
    """Operations a byte: above rate / bandwidth the matrix units are the limit, below it the memory is."""
    return case.flops / case.least_bytes


def _ladders(measured: PlannedExperiment, cells: Cells, op: str) -> dict[str, tuple[Rung, ...]]:
    """Of each scope the fastest profile's times, smallest case first."""
    cases = sorted((case for case in measured.included_cases if case.op == op), key=lambda case: case.least_bytes)
    ladders = {
        scope: tuple(
            Rung(bytes=case.least_bytes, seconds=best[0], profile=best[1])
            for case in cases
            if (best := _fastest(cells, case, scope))
        )
        for scope in measured.scopes
    }
    return {scope: rungs for scope, rungs in ladders.items() if rungs}


def _rates(measured: PlannedExperiment, cells: Cells) -> dict[str, MatrixRate]:
    """Of each kind of product the largest rate."""
    rates: dict[str, MatrixRate] = {}
    for case in measured.included_cases:
        kind = MATRIX_KINDS.get(case.dtype, "")
        best = _fastest(cells, case, SCOPE) if kind and case.op in (MATMUL, TF32_MATMUL) else None
        if best:
            seconds, profile = best
            rate = MatrixRate(flops_per_second=case.flops / seconds, seconds=seconds, profile=profile, case=case.name)
            rates[kind] = max(rates.get(kind, rate), rate, key=lambda each: each.flops_per_second)
    return rates


def _fastest(cells: Cells, case: PlannedCase, scope: str) -> tuple[float, str] | None:
    """(p50, profile) of the fastest of those whose time is possible."""
    timed = [cell for (name, _), cell in cells.items() if name == case.name and cell.outcome == "measured"]
    possible = [cell for cell in timed if scope in cell.latencies and not cell.impossible.get(scope)]
    return min(((cell.latencies[scope].p50_seconds, cell.profile) for cell in possible), default=None)


def _between(rungs: Sequence[Rung], size_bytes: int) -> float | None:
    upper = bisect_left(rungs, size_bytes, key=lambda rung: rung.bytes)
    if upper == len(rungs) > 1 and rungs[-2].bytes >= FAR_BEYOND_CACHES:
        upper -= 1
    if upper == len(rungs):
        return None
    above = rungs[upper]
    if above.bytes == size_bytes:
        return above.seconds
    if upper == 0:
        return None
    below = rungs[upper - 1]
    share = (size_bytes - below.bytes) / (above.bytes - below.bytes)
    return below.seconds + share * (above.seconds - below.seconds)
