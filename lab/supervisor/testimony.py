"""What a worker told while it measured, held against the records that it sends afterwards.

Samples are told block by block, as soon as they are taken, and cannot be taken back; notes of Python's audit events
come from a hook that no code in the worker can remove. What then differs, or is noted, costs the cell its times.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from lab.evidence.record import Cell, Control, Record, Timing
from lab.supervisor.channel import Garbled

AGAIN = "(again)"
OTHER_TIMES = "its times are not those that were told when they were taken"
Lane = tuple[str, str, str, str]  # experiment, case, profile, scope


class Testimony:
    """Of one worker process."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str], str] = {}
        self._blocks: dict[Lane, list[tuple[tuple[float, ...], int]]] = {}

    def takes(self, kind: str, content: Any, at: Sequence[str]) -> bool:
        """Whether a frame is of the kinds that belong here. `at`: experiment, case, profile, stage announced last."""
        if kind == "note" and len(at) == 4:
            self._notes.setdefault((at[0], at[2]), str(content)[:200])
        if kind == "block":
            profile, scope, seconds, void = _block(content)
            if len(at) != 4 or profile.removesuffix(AGAIN) != at[2]:
                raise Garbled("told the times of a profile that it had not announced")
            self._blocks.setdefault((at[0], at[1], profile, scope), []).append((seconds, void))
        return kind in ("note", "block")

    def held_against(self, record: Record) -> Record:
        """The record, or a cell that is wrong in its place. Garbled where a control has other times than were told."""
        if isinstance(record, Control) and not self._agrees(record, record.profile + AGAIN):
            raise Garbled("sent a control whose times are not those that were told when they were taken")
        if not isinstance(record, Cell):
            return record
        note = self._notes.get((record.experiment, record.profile), "")
        forged = "" if self._agrees(record, record.profile) else OTHER_TIMES
        if record.outcome == "measured" and (reason := note or forged):
            return dataclasses.replace(record, outcome="wrong", reason=reason, timings=())
        return record

    def _agrees(self, record: Cell | Control, profile: str) -> bool:
        return all(
            self._blocks.get((record.experiment, record.case, profile, timing.scope)) == _blocks(timing)
            for timing in record.timings
        )


def _blocks(timing: Timing) -> list[tuple[tuple[float, ...], int]]:
    return list(zip(timing.rounds, timing.void, strict=True))


def _block(content: Any) -> tuple[str, str, tuple[float, ...], int]:
    try:
        profile, scope, seconds, void = content
        return str(profile), str(scope), tuple(float(second) for second in seconds), int(void)
    except (TypeError, ValueError):
        raise Garbled("told a block's times in another form than ours") from None
