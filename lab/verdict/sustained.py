"""What a call took back to back, beside spaced calls of the same graph. No claim is judged by it. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.definition.plan import PlannedCase
from lab.evidence.record import Cell
from lab.verdict.statistics import Latency


@dataclass(frozen=True, kw_only=True, slots=True)
class SustainedRate:
    """Of the second half of the batches, when the clock has settled: medians. `calls` and the time that they lasted
    are those of all batches; where there are none, `reason` says why."""

    reason: str = ""
    seconds: float | None = None  # a call
    flops_per_second: float | None = None
    spaced_flops_per_second: float | None = None  # of the same graph in the rounds, at its median time
    spin_hertz: float | None = None
    power_watts: float | None = None  # of the board, as the last batch began
    calls: int | None = None
    lasting_seconds: float | None = None


def sustained_rate(case: PlannedCase, cells: Sequence[Cell], in_graph: Latency | None) -> SustainedRate | None:
    """None where no sweep was asked for it. `in_graph`: the times of spaced replays."""
    record = next((cell.sustained for cell in cells if cell.outcome == "measured" and cell.sustained), None)
    if record is None:
        return None
    batches = record.batch_seconds
    if not batches:
        return SustainedRate(reason=record.reason)
    half = len(batches) // 2
    seconds = statistics.median(batches[half:])
    return SustainedRate(
        seconds=seconds,
        flops_per_second=case.flops / seconds,
        spaced_flops_per_second=case.flops / in_graph.p50_seconds if in_graph else None,
        spin_hertz=statistics.median(record.spin_hertz[half:]) if record.spin_hertz[half:] else None,
        power_watts=record.power_watts,
        calls=record.calls_per_batch * len(batches),
        lasting_seconds=record.calls_per_batch * sum(batches),
    )
