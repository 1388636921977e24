"""Where the time of a run went, as a small table by stage."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lab.evidence.record import Cell, Record, SweepFinish

STAGES = {
    "load": "loading, several workers at once",
    "start": "starting",
    "inputs": "inputs",
    "check": "compiling, choosing, checking",
    "time": "timing",
    "sustain": "calls back to back",
    "canaries": "canaries",
}
WIDTH = 34


def where_time_went(
    records: Sequence[Record], *, wall_seconds: float, ahead_seconds: float, profiling_seconds: float, resumed: bool
) -> Iterator[str]:
    """One line a stage. Seconds of stages are those of all worker processes, which load at the same time; those of
    before the run was resumed are among them."""
    finishes = [record for record in records if isinstance(record, SweepFinish)]
    since, earlier = (" since it was resumed", ", earlier ones included") if resumed else ("", "")
    workers = f" of {len(finishes)} worker processes together" if len(finishes) > 1 else ""
    yield f"time: {wall_seconds:.1f} s{since}; in seconds{workers}{earlier}:"
    rows = {"compiling ahead": ahead_seconds, **_stages(finishes), "counters and instruments": profiling_seconds}
    for name, seconds in rows.items():
        if seconds >= 0.05:
            yield f"  {name:{WIDTH}} {seconds:8.1f} s"
    for name, seconds in _within_checks([record for record in records if isinstance(record, Cell)]).items():
        if seconds >= 0.05:
            yield f"    of the checks: {name:{WIDTH - 17}} {seconds:8.1f} s"


def _stages(finishes: Sequence[SweepFinish]) -> dict[str, float]:
    spent: Counter[str] = Counter()
    for finish in finishes:
        spent.update(finish.stage_seconds)
    return {STAGES.get(stage, stage): seconds for stage, seconds in spent.items()}


def _within_checks(cells: Sequence[Cell]) -> Mapping[str, float]:
    return {
        "first calls": sum(cell.prepare_seconds for cell in cells),
        "compiling": sum(cell.compile_seconds or 0.0 for cell in cells),
        "autotuning": sum(cell.autotune_seconds or 0.0 for cell in cells),
    }
