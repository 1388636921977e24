"""Does a GPU measure otherwise while its neighbours measure too? From runs on several boards. Pure.

Each board's times with neighbours are held against its own without, cell by cell, so that differences between boards
do not count. Scopes of GPU time tell of power and clocks, the eager scope of the host, which all its GPUs share.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab.evidence.record import Cell, SweepFinish
from lab.verdict.compare import rounds_of
from lab.verdict.excluded_rounds import ExcludedRounds
from lab.verdict.pooled import source_of
from lab.verdict.results import RunResult
from lab.verdict.statistics import t_half_width

Process = tuple[int, str]  # sweep, process
FEWEST_BOARDS = 2  # for an interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """What neighbours change in one scope. `low` and `high` are the 95 % interval over boards, None with only one."""

    gpu: str
    scope: str
    boards: int
    cells: int  # that a board measured with neighbours and without, added over boards
    shift: float  # 0.01: times are one per cent longer beside neighbours
    low: float | None
    high: float | None
    scatter_alone: float  # standard deviation of a cell's logarithms over the sweeps of one board
    scatter_beside: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """A cell's p50 in one sweep, as a logarithm. `code` is what was measured."""

    gpu: str
    scope: str
    code: str
    board: str
    cell: tuple[str, str, str]
    beside: bool
    log: float


def neighbours(runs: Sequence[RunResult]) -> tuple[Neighbours, ...]:
    """By GPU model and scope, where a board measured a cell of one source both with and without neighbours."""
    beside = {source_of(run) for run in runs if processes_beside(run)}
    seen = [each for run in runs if run.machine.device == "cuda" and source_of(run) in beside for each in _seen(run)]
    places = dict.fromkeys((each.gpu, each.scope) for each in seen)
    found = (_compared(place, [each for each in seen if (each.gpu, each.scope) == place]) for place in places)
    return tuple(each for each in found if each)


def processes_beside(run: RunResult) -> frozenset[Process]:
    """Those that measured while one on another board did. Times of day are to the second: a touch is no overlap."""
    ends: dict[Process, str] = {}
    for record in run.records:
        if isinstance(record, Cell | SweepFinish):
            ended = (record.sweep, record.process)
            ends[ended] = max(ends.get(ended, ""), record.finished_utc)
    spans = [
        (process, start.machine.gpu_id, start.started_utc, ends.get(process, ""))
        for start in run.sweeps
        for process in [(start.sweep, start.process)]
    ]
    return frozenset(
        process
        for process, board, start, end in spans
        if any(board != other and start < other_end and other_start < end for _, other, other_start, other_end in spans)
    )


def _seen(run: RunResult) -> Iterator[_Seen]:
    board_of, beside, code = run.board_of, processes_beside(run), source_of(run)
    for experiment in run.experiments:
        for (case, profile), result in experiment.cells.items():
            for cell in result.cells:
                process = (cell.sweep, cell.process)
                for scope, log in _logs(cell, experiment.spoiled) if process in board_of else ():
                    place = (experiment.plan.name, case, profile)
                    yield _Seen(run.machine.gpu, scope, code, board_of[process], place, process in beside, log)


def _logs(cell: Cell, spoiled: ExcludedRounds) -> Iterator[tuple[str, float]]:
    for timing in cell.timings:
        if rounds := rounds_of(cell, timing.scope, spoiled):
            yield timing.scope, math.log(statistics.median(sample for block in rounds for sample in block))


def _compared(place: tuple[str, str], seen: Sequence[_Seen]) -> Neighbours | None:
    groups: dict[tuple[str, str, tuple[str, str, str]], tuple[list[float], list[float]]] = {}
    for each in seen:
        groups.setdefault((each.board, each.code, each.cell), ([], []))[each.beside].append(each.log)
    both = {place: logs for place, logs in groups.items() if all(logs)}  # alone and beside others
    if not both:
        return None
    shifts: dict[str, list[float]] = {}
    for (board, _, _), (alone, beside) in both.items():
        shifts.setdefault(board, []).append(statistics.fmean(beside) - statistics.fmean(alone))
    of_boards = np.asarray([statistics.fmean(several) for several in shifts.values()])
    centre = float(of_boards.mean())
    half_width = t_half_width(of_boards) if len(of_boards) >= FEWEST_BOARDS else None
    return Neighbours(
        gpu=place[0],
        scope=place[1],
        boards=len(shifts),
        cells=sum(map(len, shifts.values())),
        shift=math.expm1(centre),
        low=None if half_width is None else math.expm1(centre - half_width),
        high=None if half_width is None else math.expm1(centre + half_width),
        scatter_alone=_scatter([alone for alone, _ in both.values()]),
        scatter_beside=_scatter([beside for _, beside in both.values()]),
    )


def _scatter(groups: Sequence[Sequence[float]]) -> float:
    """Pooled over groups; 0 where none has two."""
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in several)
    return math.sqrt(squares / freedom) if freedom else 0.0
