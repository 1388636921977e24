"""Separates the records of a run from those that cannot be its own, so that no line counts twice. Pure."""

import itertools
from collections.abc import Hashable, Sequence

from lab.definition.plan import Plan
from lab.evidence import journal
from lab.evidence.record import (
    Canary,
    Cell,
    Control,
    Counters,
    LostGpu,
    Reading,
    Record,
    RunStart,
    SweepFinish,
    SweepStart,
    Watch,
    unlike,
)

OfASweep = Cell | Control | Canary | Watch | SweepFinish


def valid_records(
    plan: Plan, records: Sequence[Record], damaged: set[int]
) -> tuple[list[Record], list[journal.Damage]]:
    """(valid records, damages): invalid is what repeats another record, or is of a sweep that is not planned, of a
    process that began none, or of another machine."""
    kept: list[Record] = []
    invalid: list[journal.Damage] = []
    starts = [record for record in records if isinstance(record, SweepStart)]
    several_gpus = any(isinstance(record, RunStart) and record.several_gpus for record in records)
    own = [start for start in starts if not unlike(starts[0].machine, start.machine, several_gpus=several_gpus)]
    known = {(start.sweep, start.process) for start in own}
    seen: set[Hashable] = set()
    lines = (number for number in itertools.count(1) if number not in damaged)
    for line_number, record in zip(lines, records, strict=False):
        why = _why_invalid(record, plan, known) or _of_another_machine(record, starts, several_gpus)
        if reason := why or ("repeats an earlier line" if _key(record) in seen else ""):
            invalid.append(journal.Damage(line_number=line_number, reason=reason))
        else:
            kept.append(record)
            seen.add(_key(record))
    return kept, invalid


def _why_invalid(record: Record, plan: Plan, known: set[tuple[int, str]]) -> str:
    """Why a record cannot be this run's, or nothing."""
    if not isinstance(record, OfASweep | SweepStart):
        return ""
    if not 0 <= record.sweep < max(plan.protocol.sweeps, plan.protocol.most_sweeps):
        return f"sweep {record.sweep} is not in the plan"
    if not isinstance(record, SweepStart) and not _known(record, known):
        return f"process {record.process!r} began no sweep in this journal"
    return ""


def _of_another_machine(record: Record, starts: Sequence[SweepStart], several_gpus: bool) -> str:
    """Why a sweep cannot be of the run that the first one began."""
    if not isinstance(record, SweepStart):
        return ""
    changes = unlike(starts[0].machine, record.machine, several_gpus=several_gpus)
    return f"measured on another machine than the run began on: {'; '.join(changes)}" if changes else ""


def _key(record: Record) -> Hashable:
    """What there can be only one of."""
    if isinstance(record, Cell):
        return Cell, record.sweep, record.experiment, record.case, record.profile
    if isinstance(record, Canary):
        return Canary, record.sweep, record.process, record.experiment, record.after
    if isinstance(record, SweepStart | SweepFinish):
        return type(record), record.sweep, record.process
    if isinstance(record, Control | Watch):
        return type(record), record.sweep, record.process, record.experiment, record.case
    if isinstance(record, Counters):
        return Counters, record.experiment, record.case, record.profile
    if isinstance(record, Reading):
        return Reading, record.experiment, record.case, record.profile, record.instrument
    if isinstance(record, LostGpu):
        return LostGpu, id(record)  # a node that is lost takes several with it
    return type(record).__name__


def _known(record: OfASweep, known: set[tuple[int, str]]) -> bool:
    """Only a process that began a sweep can have measured; one that crashed at once, or never ran, cannot."""
    if isinstance(record, Cell) and record.outcome != "measured" and not record.process:
        return True
    return (record.sweep, record.process) in known
