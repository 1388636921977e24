"""Which profiles are not run again, because they took their process down before. Read from the journal's cells."""

from collections.abc import Iterable

from lab.evidence.record import Cell

LOAD = "load"
QUARANTINED = "quarantined: "
TIMES = {1: "once", 2: "twice"}


def crash_reason(ended: str, stage: str, fault: str, log: str) -> str:
    """Why a cell crashed: how its worker came to its end, at which stage, what it said, where to read more."""
    said = f": {fault}" if fault else ""
    return f"the worker {ended} ({stage}){said}; see logs/{log}"


def is_crash(cell: Cell) -> bool:
    """Whether this cell crashed its process; a cell that was not run because of earlier crashes did not."""
    return cell.outcome == "crashed" and bool(cell.stage)


def quarantined(cells: Iterable[Cell], experiment: str, profile: str, allowed: int) -> str:
    """Why a profile is not run again, or nothing. It takes `allowed` crashes; 0 turns quarantine off."""
    crashes = [cell for cell in cells if (cell.experiment, cell.profile) == (experiment, profile) and is_crash(cell)]
    if fatal := next((cell for cell in crashes if cell.stage == LOAD), None):
        # Every worker loads every profile, so none could measure the others.
        return f"{QUARANTINED}crashed while it was loaded, in sweep {fatal.sweep + 1}"
    if allowed and len(crashes) >= allowed:
        last = crashes[-1]
        times = TIMES.get(len(crashes), f"{len(crashes)} times")
        return f"{QUARANTINED}crashed {times}, last at {last.case} in sweep {last.sweep + 1}"
    return ""


def not_loadable(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """(experiment, profile) of those that took a process down while they were loaded."""
    return sorted({(cell.experiment, cell.profile) for cell in cells if is_crash(cell) and cell.stage == LOAD})
