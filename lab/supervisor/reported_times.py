"""Compares what a worker reported while it measured with the records that it sends afterwards.

Samples are reported block by block, as soon as they are taken, and cannot be changed later; notes of Python's audit
events come from a hook that no code in the worker can remove. A cell whose record differs, or that is noted, loses its
times.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from lab.evidence.record import Cell, Control, Record, Timing
from lab.process.channel import Garbled

AGAIN = "(again)"
NEVER_TOLD = "it has times that were not told when they were taken"
CHANGED = "samples that were changed after they were taken: these are as they were told"
Lane = tuple[str, str, str, str]  # experiment, case, profile, scope


class ReportedTimes:
    """What one worker process reported while it measured."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str], str] = {}
        self._blocks: dict[Lane, list[tuple[tuple[float, ...], int]]] = {}

    def accepts(self, kind: str, content: Any, at: Sequence[str]) -> bool:
        """Whether a frame is of the kinds that belong here. `at`: experiment, case, profile, stage announced last."""
        if kind == "note" and len(at) == 4:
            self._notes.setdefault((at[0], at[2]), str(content)[:200])
        if kind == "block":
            profile, scope, seconds, void = _block(content)
            if len(at) != 4 or profile.removesuffix(AGAIN) != at[2]:
                raise Garbled("sent times of a profile that it had not announced")
            self._blocks.setdefault((at[0], at[1], profile, scope), []).append((seconds, void))
        return kind in ("note", "block")

    def as_reported(self, record: Record) -> Record:
        """The record with the times that were reported while measuring; a cell with a note becomes a wrong one.

        Code that changes samples may change those of other profiles, so no profile is blamed; the change has no effect.
        """
        if isinstance(record, Control):
            timings = self._reported(record, record.profile + AGAIN)
            return dataclasses.replace(record, timings=tuple(timing for timing in timings if timing.rounds))
        if not isinstance(record, Cell) or record.outcome != "measured":
            return record
        timings = self._reported(record, record.profile)
        reason = self._notes.get((record.experiment, record.profile), "")
        if not all(timing.rounds for timing in timings):
            reason = reason or NEVER_TOLD
        if reason:
            return dataclasses.replace(record, outcome="wrong", reason=reason, timings=())
        if timings != record.timings:
            return dataclasses.replace(record, timings=timings, left_behind=(*record.left_behind, CHANGED))
        return record

    def _reported(self, record: Cell | Control, profile: str) -> tuple[Timing, ...]:
        return tuple(
            dataclasses.replace(timing, rounds=tuple(block[0] for block in blocks), void=tuple(b[1] for b in blocks))
            for timing in record.timings
            for blocks in [self._blocks.get((record.experiment, record.case, profile, timing.scope), [])]
        )


def _block(content: Any) -> tuple[str, str, tuple[float, ...], int]:
    try:
        profile, scope, seconds, void = content
        return str(profile), str(scope), tuple(float(second) for second in seconds), int(void)
    except (TypeError, ValueError):
        raise Garbled("sent a block's times in an invalid form") from None
