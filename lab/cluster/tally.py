"""The progress of a run on several GPUs, as lines: cells of all of them as they come."""

import time
from collections.abc import Callable, Sequence

from lab.evidence.record import Cell
from lab.supervisor.progress import in_words


class Tally:
    """`total` cells, of which some are `done`; both count all sweeps that are known to be measured."""

    def __init__(
        self, done: int, total: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._done, self._total, self._say, self._clock = done, total, say, clock
        self._began = clock()
        self._now = 0  # those that were measured since

    def more(self, count: int) -> None:
        """Cells that were not known to be measured."""
        self._total += count

    def cells(self, cells: Sequence[Cell], where: str) -> None:
        for cell in cells:
            self._done += 1
            self._now += 1
            detail = f": {cell.reason}" if cell.reason else ""
            self._say(
                f"  [{self._done}/{self._total}{self._left()}] sweep {cell.sweep + 1}  {cell.case}  {cell.profile}  "
                f"{cell.outcome}{detail}  ({where})"
            )

    def _left(self) -> str:
        ahead = self._total - self._done
        if ahead <= 0:
            return ""
        return f", about {in_words((self._clock() - self._began) / self._now * ahead)} left"
