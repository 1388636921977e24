"""Ends a run before all of its plan is measured: where its box is gone, what is on record is all that there will be."""

from pathlib import Path

from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Cell, RunFinish, SweepStart
from lab.supervisor.ledger import Ledger
from lab.supervisor.lock import run_lock

LONGEST_REASON = 200


def cut_short(directory: Path, because: str) -> str:
    """Keep as the run's last record why it ended before its end; what it lacks stays lacking, and is shown as such.

    Returns when the last cell was measured, in UTC. RunError where the run is finished, in use, damaged or holds no
    measured cell, and where `because` is empty, of several lines or longer than 200 characters.
    """
    because = because.strip()
    if not because.isprintable() or not 0 < len(because) <= LONGEST_REASON:
        raise RunError(f"the reason is {because[:40]!r}; accepted is one line of 1 to {LONGEST_REASON} characters")
    path = directory / journal.NAME
    if not path.is_file():
        raise RunError(f"{directory}: no {journal.NAME} in it, so nothing was measured")
    with run_lock(directory):
        journal.drop_torn_end(path)
        held = journal.read(path)
        if held.damages:
            bad = held.damages[0]
            raise RunError(f"{path}: line {bad.line_number}: {bad.reason}. Copy it here again, or restore the file")
        if any(isinstance(record, RunFinish) for record in held.records):
            raise RunError(f"{directory}: the run is finished; nothing is to be cut short")
        cells = [record.finished_utc for record in held.records if isinstance(record, Cell)]
        if not cells or not any(isinstance(record, SweepStart) for record in held.records):
            raise RunError(f"{directory}: no cell of it was measured, so there is nothing to keep")
        Ledger(directory, held.records).keep(
            RunFinish(finished_utc=max(cells), wall_seconds=None, profiling_seconds=None, cut_short=because)
        )
    return max(cells)
