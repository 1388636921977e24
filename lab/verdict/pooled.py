"""Runs of unchanged code, taken together: the run is the unit. Pure.

Each run's log-ratio counts once, and the interval is Student's over runs. It needs no guess about what differs between
boards and sessions, for the runs show it. Weights by each run's own interval (DerSimonian and Laird) are not used: runs
of one protocol are about equally precise, and with three to ten runs the weighted interval is too narrow, because it
takes the estimated variance between runs as known (Hartung and Knapp 2001).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab.verdict.judge import Status, Verdict
from lab.verdict.results import RunResult
from lab.verdict.statistics import DECIDING_CONFIDENCE, SMALLEST_HALF_WIDTH, Floats, Speedup, t_half_width

FEWEST_RUNS = 3


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class RepeatKey:
    """What runs must share to be repeats of one another at a claim and case. `source` is that of the code; `sampling`
    is the protocol's: a screening takes fewer samples, and so leaves more undecided, than the run that follows it."""

    gpu: str
    experiment: str
    claim: str
    case: str
    scope: str
    threshold: float
    source: str
    sampling: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The verdict and speed-up of a claim at a case in one run. `compiled`: a side is compiled at run time."""

    run_id: str
    started_utc: str
    boards: tuple[str, ...]
    verdict: Verdict
    speedup: Speedup
    compiled: bool
    session_floor: float  # of the case, by lab/verdict/widening.py


@dataclass(frozen=True, kw_only=True, slots=True)
class Pooled:
    """A speed-up over runs. `low` and `high` are None with fewer than three runs; `status`, what the rules say of the
    claim by the runs' scatter alone, is None with fewer than three boards."""

    place: RepeatKey
    ratio: float
    low: float | None
    high: float | None
    status: Status | None
    runs: tuple[str, ...]
    boards: int


def pooled(runs: Sequence[RunResult]) -> tuple[Pooled, ...]:
    """Each claim at each case that more than one run of unchanged code weighed, in the order of the runs' plans."""
    return tuple(_pooled(place, seen) for place, seen in by_place(runs).items() if len(seen) > 1)


def _pooled(place: RepeatKey, seen: Sequence[Seen]) -> Pooled:
    logs = np.log([each.speedup.ratio for each in seen])
    centre = float(logs.mean())
    half_width = max(t_half_width(logs), SMALLEST_HALF_WIDTH) if len(seen) >= FEWEST_RUNS else None
    boards = board_count(seen)
    return Pooled(
        place=place,
        ratio=math.exp(centre),
        low=None if half_width is None else math.exp(centre - half_width),
        high=None if half_width is None else math.exp(centre + half_width),
        status=_status(logs, place.threshold) if min(boards, len(seen)) >= FEWEST_RUNS else None,
        runs=tuple(each.run_id for each in seen),
        boards=boards,
    )


def _status(logs: Floats, threshold: float) -> Status:
    """By the interval that decides, over runs: it needs no guess about what boards differ by, as that of one run does.
    With three runs it is wide, and narrows where they agree."""
    half_width = max(t_half_width(logs, DECIDING_CONFIDENCE), SMALLEST_HALF_WIDTH)
    if logs.mean() - half_width >= math.log(threshold):
        return Status.SUPPORTED
    return Status.REFUTED if logs.mean() + half_width < math.log(threshold) else Status.INCONCLUSIVE


def board_count(seen: Sequence[Seen]) -> int:
    """On how many boards these were seen."""
    return len({board for each in seen for board in each.boards})


def by_place(runs: Sequence[RunResult], one_code: bool = False) -> dict[RepeatKey, list[Seen]]:
    """What runs on a GPU saw of each claim at each case, where the judge weighed it. The lab's tests of itself are left
    out. `one_code`: the runs are known to have measured one code, whatever else of the source changed."""
    groups: dict[RepeatKey, list[Seen]] = {}
    for run in runs:
        for place, seen in _weighed(run, "" if one_code else source_of(run)):
            groups.setdefault(place, []).append(seen)
    return groups


def source_of(run: RunResult) -> str:
    """What the run timed: the source of that, and the packages whose kernels it timed. Before schema 13 the whole
    source.

    Digests of single kernels would pool more runs, but say nothing of how the kernels are launched.
    """
    machine = run.machine
    libraries = (f"{name} {version}" for name, version in sorted(machine.libraries.items()))
    return " ".join((run.start.timed_digest or run.start.source_digest, machine.torch, machine.triton, *libraries))


def _weighed(run: RunResult, source: str) -> Iterator[tuple[RepeatKey, Seen]]:
    if run.machine.device != "cuda":
        return
    for experiment, claim, case, verdict in run.speedup_verdicts():
        if verdict.weighed and verdict.speedup:
            plan = experiment.plan
            place = RepeatKey(
                gpu=run.machine.gpu, experiment=plan.name, claim=claim.name, case=case, scope=claim.scope,
                threshold=claim.threshold, source=source, sampling=run.plan.protocol.sampling,
            )  # fmt: skip
            yield place, Seen(
                run_id=run.plan.run_id, started_utc=run.start.started_utc, boards=run.boards, verdict=verdict,
                speedup=verdict.speedup,
                compiled=any(plan.profile(name).recompiles for name in (claim.subject, claim.baseline)),
                session_floor=experiment.session_floor(case),
            )  # fmt: skip
