"""Whether the DRAM bytes that two profiles move explain their times. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lab.verdict.call_counters import CallCounters, call_of
from lab.verdict.cells import CellResult
from lab.verdict.results import ExperimentResult
from lab.verdict.traffic import DramTraffic

EXPLAINED_WITHIN = 1.15  # ratios of time and of bytes that differ by at most this factor agree
EXPLAINED_PART = 0.5  # of a difference in time, in logarithms, that the bytes must make to explain it
HARDLY_SLOWER = 1.02
OCCUPANCY_POINTS = 10.0  # per cent of a multiprocessor's warps: a difference worth naming


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """One profile beside the fastest of its case: its time and its counted bytes, as multiples of the other's."""

    case: str
    profile: str
    fastest: str
    time_ratio: float
    bytes_ratio: float
    explained: bool  # by traffic
    others: tuple[str, ...]  # what else differs, where it is not


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    cell: CellResult
    seconds: float
    traffic: DramTraffic
    call: CallCounters


def explain(experiment: ExperimentResult) -> Iterator[Explained]:
    """Every profile that was timed and counted, beside the fastest of its case; nothing where that was not counted.

    The bytes are those counted, without the writes that are still in the cache: no clock waits for these.
    """
    for case in experiment.plan.included_cases:
        cells = experiment.measured(case.name)
        counted = sorted(filter(None, map(_counted, cells)), key=lambda one: one.seconds)
        fastest = min((cell.latency.p50_seconds for cell in cells if cell.latency), default=None)
        if counted and counted[0].seconds == fastest:
            yield from (_explained(one, counted[0]) for one in counted[1:])


def _counted(cell: CellResult) -> _Counted | None:
    call = call_of(cell.counters)
    if cell.latency is None or cell.traffic is None or call is None:
        return None
    return _Counted(cell=cell, seconds=cell.latency.p50_seconds, traffic=cell.traffic, call=call)


def _explained(one: _Counted, fastest: _Counted) -> Explained:
    time_ratio = one.seconds / fastest.seconds
    bytes_ratio = one.traffic.counted_bytes / fastest.traffic.counted_bytes
    launch_bound = [name for name, part in (("this one", one), ("the fastest", fastest)) if part.cell.launch_bound]
    explained = not launch_bound and _ratios_agree(time_ratio, bytes_ratio)
    others: tuple[str, ...] = ()
    if launch_bound:
        verb = "is" if len(launch_bound) == 1 else "are"
        others = (f"{' and '.join(launch_bound)} {verb} launch-bound, so that bytes do not decide",)
    elif not explained and time_ratio <= HARDLY_SLOWER:
        others = ("hardly slower, nothing to explain",)
    elif not explained:
        slower = time_ratio > bytes_ratio
        others = tuple(_slower(one, fastest) if slower else _faster(one)) or ("these counters do not say why",)
    return Explained(
        case=one.cell.case,
        profile=one.cell.profile,
        fastest=fastest.cell.profile,
        time_ratio=time_ratio,
        bytes_ratio=bytes_ratio,
        explained=explained,
        others=others,
    )


def _ratios_agree(time_ratio: float, bytes_ratio: float) -> bool:
    """Whether the ratios agree, and the bytes make most of the time's: a margin alone would explain any small gap."""
    agree = 1 / EXPLAINED_WITHIN <= time_ratio / bytes_ratio <= EXPLAINED_WITHIN
    return agree and bytes_ratio > 0 and math.log(bytes_ratio) >= EXPLAINED_PART * math.log(time_ratio)


def _slower(one: _Counted, fastest: _Counted) -> Iterator[str]:
    """What may take time beyond that of the bytes."""
    if one.call.launches > fastest.call.launches:
        yield f"{one.call.launches} kernels a call against {fastest.call.launches}"
    busy = "its multiprocessors are at {:.0f} % of their peak, its memory at {:.0f} %"
    yield from _more(busy, one.call.counters["sm_percent"], one.call.counters["dram_percent"], 0.0)
    occupied = "the fastest has {:.0f} % occupancy, this one {:.0f} %"
    most, achieved = (each.call.counters["occupancy_percent"] for each in (fastest, one))
    yield from _more(occupied, most, achieved, OCCUPANCY_POINTS)


def _faster(one: _Counted) -> Iterator[str]:
    """What may spare time that the bytes would take."""
    if one.call.launches > 1:
        yield "counted with empty caches before each kernel; in a timed call the L2 hands on what it holds"


def _more(template: str, one: float | None, other: float | None, points: float) -> Iterator[str]:
    """A sentence on two percentages where the first is larger by so much; nothing where either is unmeasured."""
    if one is not None and other is not None and one - other >= points:
        yield template.format(one, other)
