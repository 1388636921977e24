"""How much boards of one GPU model differ, from runs that had several of them beside one another. Pure.

A one-way analysis of variance of each comparison's ratios by board, whose mean squares are then pooled. The boards of a
run share its session, so this is the part of the widening that comes from boards alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab.verdict.compare import compared_processes
from lab.verdict.results import RunResult


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardSpread:
    """Standard deviations of the logarithm of a ratio; the unit is a claim at a case in one run."""

    gpu: str
    boards: int
    comparisons: int
    between: float  # boards: 0 where they differ no more than their sweeps do
    within: float  # sweeps of one board


@dataclass(frozen=True, slots=True)
class _Squares:
    """Of one comparison: sums of squares and degrees of freedom, and the sweeps that a board has on average."""

    between: float
    within: float
    boards: int
    sweeps: int
    sweeps_a_board: float


def board_spreads(runs: Sequence[RunResult]) -> tuple[BoardSpread, ...]:
    """By GPU model. Runs on one board say nothing; the lab's tests of itself are left out."""
    squares: dict[str, list[_Squares]] = {}
    boards: dict[str, set[str]] = {}
    for run in runs:
        if run.machine.device == "cuda" and len(run.boards) > 1:
            boards.setdefault(run.machine.gpu, set()).update(run.boards)
            squares.setdefault(run.machine.gpu, []).extend(_of_run(run))
    return tuple(_pooled(gpu, len(boards[gpu]), parts) for gpu, parts in squares.items() if parts)


def _of_run(run: RunResult) -> Iterator[_Squares]:
    board_of = run.board_of
    for experiment, claim, case, verdict in run.speedup_verdicts():
        if verdict.weighed and verdict.speedup:
            baseline, subject = (experiment.cells[case, name].cells for name in (claim.baseline, claim.subject))
            processes = compared_processes(baseline, subject, claim.scope, experiment.spoiled)
            ratios: dict[str, list[float]] = {}
            for process, ratio in zip(processes, verdict.speedup.sweep_ratios, strict=True):
                ratios.setdefault(board_of[process], []).append(math.log(ratio))
            if 1 < len(ratios) < len(processes):
                yield _squares(list(ratios.values()))


def _squares(by_board: Sequence[Sequence[float]]) -> _Squares:
    everything = np.concatenate([np.asarray(logs) for logs in by_board])
    counts = np.asarray([len(logs) for logs in by_board])
    means = np.asarray([np.mean(logs) for logs in by_board])
    total = len(everything)
    return _Squares(
        between=float((counts * (means - everything.mean()) ** 2).sum()),
        within=float(sum(((np.asarray(logs) - np.mean(logs)) ** 2).sum() for logs in by_board)),
        boards=len(by_board),
        sweeps=total,
        sweeps_a_board=float((total - (counts**2).sum() / total) / (len(by_board) - 1)),
    )


def _pooled(gpu: str, boards: int, parts: Sequence[_Squares]) -> BoardSpread:
    within = sum(part.within for part in parts) / sum(part.sweeps - part.boards for part in parts)
    freedom = [part.boards - 1 for part in parts]
    between = sum(part.between for part in parts) / sum(freedom)
    sweeps = float(np.average([part.sweeps_a_board for part in parts], weights=freedom))
    return BoardSpread(
        gpu=gpu,
        boards=boards,
        comparisons=len(parts),
        between=math.sqrt(max(0.0, (between - within) / sweeps)),
        within=math.sqrt(within),
    )
