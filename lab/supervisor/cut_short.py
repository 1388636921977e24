"""Ends a run before all of its plan is measured, such as one whose machine is gone."""

from pathlib import Path

from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Cell, RunFinish, SweepStart
from lab.supervisor.lock import run_lock
from lab.supervisor.run_state import RunState

LONGEST_REASON = 200


def cut_short(directory: Path, because: str) -> str:
    """Write why the run ended early as its last record. What was not measured is shown as missing.

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
        contents = journal.read(path)
        if contents.damages:
            bad = contents.damages[0]
            raise RunError(f"{path}: line {bad.line_number}: {bad.reason}. Copy it here again, or restore the file")
        if any(isinstance(record, RunFinish) for record in contents.records):
            raise RunError(f"{directory}: the run is finished, so it cannot be cut short")
        cells = [record.finished_utc for record in contents.records if isinstance(record, Cell)]
        if not cells or not any(isinstance(record, SweepStart) for record in contents.records):
            raise RunError(f"{directory}: no cell of it was measured, so there is nothing to keep")
        RunState(directory, contents.records).keep(
            RunFinish(finished_utc=max(cells), wall_seconds=None, profiling_seconds=None, cut_short=because)
        )
    return max(cells)
