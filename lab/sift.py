"""Sets aside records that cannot be this run's, so that a copied line never counts as one more sweep. Pure."""

import itertools
from collections.abc import Hashable, Sequence

from lab import journal
from lab.plan import Plan
from lab.record import Canary, Cell, Control, Record, SweepFinish, SweepStart, Watch

OfASweep = Cell | Control | Canary | Watch | SweepFinish


def sift(plan: Plan, records: Sequence[Record], damaged: set[int]) -> tuple[list[Record], list[journal.Damage]]:
    """(records to use, those set aside): repeated ones, of a sweep not planned, or of a process unknown."""
    kept: list[Record] = []
    strangers: list[journal.Damage] = []
    known = {(start.sweep, start.process) for start in records if isinstance(start, SweepStart)}
    seen: set[Hashable] = set()
    lines = (number for number in itertools.count(1) if number not in damaged)
    for line_number, record in zip(lines, records, strict=False):
        reason = ""
        if isinstance(record, OfASweep):
            key = _key(record)
            if key in seen:
                reason = f"repeats a {type(record).__name__.lower()} of this sweep"
            elif not 0 <= record.sweep < max(plan.protocol.sweeps, plan.protocol.most_sweeps):
                reason = f"sweep {record.sweep} is not in the plan"
            elif not _known(record, known):
                reason = f"process {record.process!r} began no sweep in this journal"
            seen.add(key)
        if reason:
            strangers.append(journal.Damage(line_number=line_number, reason=reason))
        else:
            kept.append(record)
    return kept, strangers


def _key(record: OfASweep) -> Hashable:
    """What there can be only one of."""
    if isinstance(record, Cell):
        return Cell, record.sweep, record.experiment, record.case, record.profile
    if isinstance(record, Canary):
        return Canary, record.sweep, record.process, record.experiment, record.after
    if isinstance(record, SweepFinish):
        return SweepFinish, record.sweep, record.process
    return type(record), record.sweep, record.process, record.experiment, record.case


def _known(record: OfASweep, known: set[tuple[int, str]]) -> bool:
    """Only a process that began a sweep can have measured; one that crashed at once, or never ran, cannot."""
    if isinstance(record, Cell) and record.outcome != "measured" and not record.process:
        return True
    return (record.sweep, record.process) in known
