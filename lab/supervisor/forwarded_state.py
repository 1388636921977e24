"""The records of a run whose journal is kept elsewhere: what is added is sent there."""

from collections.abc import Callable, Sequence
from pathlib import Path

from lab.evidence.record import Record
from lab.supervisor.run_state import RunState


class ForwardedState(RunState):
    """`records` are those that matter here; `send` is given what is added, all or none of it to be journalled."""

    def __init__(self, directory: Path, records: Sequence[Record], send: Callable[[Sequence[Record]], None]) -> None:
        super().__init__(directory, records)
        self._send = send

    def keep(self, *records: Record) -> None:
        if records:
            self._send(records)
        for record in records:
            self._remember(record)
