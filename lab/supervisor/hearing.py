"""What a worker may say, and when: the profiles run in its process, and one could write to its channel itself.

The records of a case are handed on together, once the worker has gone on to something else: no case is half on
record, and of a record that comes twice neither is kept.
"""

from collections.abc import Iterable
from typing import Any

from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.record import KINDS, Canary, Cell, Control, Record, Rounds, SweepFinish, SweepStart, Watch
from lab.supervisor.channel import Garbled
from lab.supervisor.ledger import Key
from lab.supervisor.watch import Watcher

FROM_WORKERS = ("SweepStart", "Canary", "Cell", "Control", "SweepFinish")
Place = tuple[str, str]  # experiment, case


class Hearing:
    """One worker in one sweep. What it says out of turn is Garbled: then nothing of the case at hand is to be used."""

    def __init__(self, sweep: int, todo: Iterable[Key], watcher: Watcher) -> None:
        self.at: list[str] = []  # experiment, case, profile and stage, as last announced
        self._sweep, self._todo, self._watcher = sweep, set(todo), watcher
        self._owed = set(self._todo)
        self._process = ""
        self._place: Place = ("", "")
        self._held: list[Record] = []  # of the case at hand
        self._canaries: set[Place] = set()
        self._finished = False

    def take(self, kind: str, content: Any) -> list[Record]:
        """What is to be kept, in one piece, now that this was said."""
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
        """Of the case at which the worker ended: all where all was said, else what holds no time to compare."""
        if not self._owed_here():
            return self._handed_on()
        return [record for record in self._held if isinstance(record, Cell) and not record.timings]

    def finish(self) -> None:
        """Call when the worker says that it is done."""
        _expect(self._finished, "that it was done before it was")

    def _stage(self, content: Any) -> list[Record]:
        known = (
            isinstance(content, list) and len(content) == 4 and all(isinstance(part, str) and part for part in content)
        )
        _expect(known and tuple(content[:3]) in self._todo, "a stage of no cell that it was asked for")
        place = content[0], content[1]
        goes_on = place == self._place
        _expect(not self._is_timed() if goes_on else place in self._places_owed(), "a stage of a case that is over")
        whole = [] if goes_on else self._whole()
        self._place, self.at = place, content
        return whole

    def _rounds(self, content: Any) -> list[Record]:
        rounds = _decoded(Rounds, content)
        timing = self.at[3:] not in ([], ["inputs"], ["check"])
        _expect(timing and not self._is_timed() and self._is_here(rounds), "rounds out of turn")
        self._held.append(self._watcher.watch_of(rounds, self._sweep, self._process))
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
            _expect(not any(isinstance(held, Control) for held in self._held), "a second control")
            self._held.append(record)
            return []
        whole = self._whole()
        if isinstance(record, Canary):
            after = record.experiment, record.after
            _expect(after == self._place and after not in self._canaries, "a canary out of turn")
            self._canaries.add(self._place)
        if isinstance(record, SweepFinish):
            _expect(not self._owed, "the end of a sweep that is not measured")
            self._finished = True
        return [*whole, record]

    def _cell(self, cell: Cell) -> list[Record]:
        key = cell.experiment, cell.case, cell.profile
        _expect(self._is_here(cell) and key in self._owed, "a cell that was not asked for, or a second time")
        if not self._is_timed():
            _expect(cell.outcome != "measured" and not cell.timings, "a time before the rounds were over")
            _expect(self.at[2:] == [cell.profile, "check"] or self.at[3] == "inputs", "a cell of another profile")
        self._owed.remove(key)
        self._held.append(cell)
        return []

    def _whole(self) -> list[Record]:
        _expect(not self._owed_here(), "less than all of a case")
        return self._handed_on()

    def _handed_on(self) -> list[Record]:
        held, self._held = self._held, []
        return held

    def _owed_here(self) -> bool:
        return self._place in self._places_owed()

    def _places_owed(self) -> set[Place]:
        return {(experiment, case) for experiment, case, _ in self._owed}

    def _is_timed(self) -> bool:
        return any(isinstance(held, Watch) for held in self._held)

    def _is_here(self, what: Cell | Control | Rounds) -> bool:
        return (what.experiment, what.case) == self._place


def _decoded(kind: type[Any], content: Any) -> Any:
    try:
        return from_data(kind, content, kind.__name__)
    except RunError as problem:
        raise Garbled(f"sent a record that is none of ours: {problem}") from None


def _expect(fits: bool, otherwise: str) -> None:
    if not fits:
        raise Garbled(f"sent {otherwise}: it is not speaking our protocol")
