"""Checks that a worker sends only messages that are due: profiles run in its process, and one could write to its pipe.

The records of a case are released together, once the worker has gone on to something else. So no case is half on
record, and of a record that comes twice neither is kept.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.record import KINDS, Canary, Cell, Control, Record, Rounds, SweepFinish, SweepStart, Watch
from lab.process.channel import Garbled
from lab.supervisor.run_state import Key
from lab.supervisor.watch import Watcher

FROM_WORKERS = ("SweepStart", "Canary", "Cell", "Control", "SweepFinish")
Place = tuple[str, str]  # experiment, case


class WorkerProtocol:
    """The messages of one worker in one sweep. Garbled for one that is not due: then drop the current case."""

    def __init__(self, sweep: int, todo: Iterable[Key], watcher: Watcher) -> None:
        self.at: list[str] = []  # experiment, case, profile and stage, as last announced
        self._sweep, self._todo, self._watcher = sweep, set(todo), watcher
        self._owed = set(self._todo)
        self._owed_at = Counter((experiment, case) for experiment, case, _ in self._owed)
        self._process = ""
        self._place: Place = ("", "")
        self._pending: list[Record] = []  # of the case at hand
        self._canaries: set[Place] = set()
        self._finished = False

    def take(self, kind: str, content: Any) -> list[Record]:
        """The records to journal together after this message."""
        if kind == "fault":
            return []
        _expect(bool(self._process) is not (kind == "SweepStart") and not self._finished, f"{kind} out of turn")
        if kind == "stage":
            return self._stage(content)
        if kind == "rounds":
            return self._rounds(content)
        _expect(kind in FROM_WORKERS, f"a frame of kind {kind[:20]!r}")
        return self._record(_decoded(KINDS[kind], content))

    def rest(self) -> list[Record]:
        """Records of the case at which the worker ended: all if it is complete, else those of cells without times."""
        if not self._is_open_here():
            return self._release()
        return [record for record in self._pending if isinstance(record, Cell) and not record.timings]

    def finish(self) -> None:
        """Call when the worker reports that it is done."""
        _expect(self._finished, "that it was done before it was")

    def _stage(self, content: Any) -> list[Record]:
        known = (
            isinstance(content, list) and len(content) == 4 and all(isinstance(part, str) and part for part in content)
        )
        _expect(known and tuple(content[:3]) in self._todo, "a stage of no cell that it was asked for")
        place = content[0], content[1]
        goes_on = place == self._place
        _expect(not self._is_timed() if goes_on else self._owed_at[place] > 0, "a stage of a case that is over")
        complete = [] if goes_on else self._complete()
        self._place, self.at = place, content
        return complete

    def _rounds(self, content: Any) -> list[Record]:
        rounds = _decoded(Rounds, content)
        timing = self.at[3:] not in ([], ["inputs"], ["check"])
        _expect(timing and not self._is_timed() and self._is_here(rounds), "rounds out of turn")
        self._pending.append(self._watcher.watch_of(rounds, self._sweep, self._process))
        return []

    def _record(self, record: Any) -> list[Record]:
        _expect(record.sweep == self._sweep, f"a record of sweep {record.sweep}")
        if isinstance(record, SweepStart):
            self._process = record.process
            return [record]
        _expect(record.process == self._process, "a record of another process")
        if isinstance(record, Cell):
            return self._cell(record)
        if isinstance(record, Control):
            _expect(self._is_here(record) and self._is_timed(), "a control out of turn")
            _expect(not any(isinstance(record, Control) for record in self._pending), "a second control")
            self._pending.append(record)
            return []
        complete = self._complete()
        if isinstance(record, Canary):
            after = record.experiment, record.after
            _expect(after == self._place and after not in self._canaries, "a canary out of turn")
            self._canaries.add(self._place)
        if isinstance(record, SweepFinish):
            _expect(not self._owed, "the end of a sweep that is not measured")
            self._finished = True
        return [*complete, record]

    def _cell(self, cell: Cell) -> list[Record]:
        key = cell.experiment, cell.case, cell.profile
        _expect(self._is_here(cell) and key in self._owed, "a cell that was not asked for, or a second time")
        if not self._is_timed():
            _expect(cell.outcome != "measured" and not cell.timings, "a time before the rounds were over")
            _expect(self.at[2:] == [cell.profile, "check"] or self.at[3] == "inputs", "a cell of another profile")
        self._owed.remove(key)
        self._owed_at[self._place] -= 1
        self._pending.append(cell)
        return []

    def _complete(self) -> list[Record]:
        _expect(not self._is_open_here(), "less than all of a case")
        return self._release()

    def _release(self) -> list[Record]:
        pending, self._pending = self._pending, []
        return pending

    def _is_open_here(self) -> bool:
        return self._owed_at[self._place] > 0

    def _is_timed(self) -> bool:
        return any(isinstance(record, Watch) for record in self._pending)

    def _is_here(self, what: Cell | Control | Rounds) -> bool:
        return (what.experiment, what.case) == self._place


def _decoded(kind: type[Any], content: Any) -> Any:
    try:
        return from_data(kind, content, kind.__name__)
    except RunError as problem:
        raise Garbled(f"sent an invalid record: {problem}") from None


def _expect(fits: bool, otherwise: str) -> None:
    if not fits:
        raise Garbled(f"sent {otherwise}: this breaks the protocol")
