"""What a waiting person sees: a live bar on a terminal, plain lines in a pipe."""

import sys
import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.evidence.record import Cell
from lab.supervisor.ledger import Key, key_of

STAGES = {
    "load": "loading",
    "inputs": "making inputs",
    "check": "compiling and checking",
    "time": "timing",
    "verify": "checking a timed output",
}


class Estimate:
    """How long a run still takes, from the cells that it measured. A cell that is not run takes no time, and says
    nothing of how long the others take."""

    def __init__(self, planned: Iterable[tuple[int, Key]], idle: Iterable[Key]) -> None:
        self._ahead = set(planned)
        self._idle = set(idle)  # known to be skipped
        self._measured = 0

    def add(self, planned: Iterable[tuple[int, Key]]) -> None:
        self._ahead |= set(planned)

    def take(self, cell: Cell) -> None:
        self._ahead.discard((cell.sweep, key_of(cell)))
        if cell.outcome == "skipped" or not cell.process:
            self._idle.add(key_of(cell))
        else:
            self._measured += 1

    def left_seconds(self, elapsed_seconds: float) -> float | None:
        """None where nothing has been measured yet."""
        if not self._measured:
            return None
        left = sum(key not in self._idle for _, key in self._ahead)
        return elapsed_seconds / self._measured * left


class RunProgress:
    """Counts the cells of all sweeps. Use as a context manager."""

    def __init__(self, planned: Iterable[tuple[int, Key]], idle: Iterable[Key], done: int, sweeps: int) -> None:
        ahead = set(planned)
        self._estimate = Estimate(ahead, idle)
        self._sweeps = sweeps
        self._done = done
        self._total = done + len(ahead)
        self._began: float | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=self._total, completed=done, left="")

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def more(self, planned: Iterable[tuple[int, Key]]) -> None:
        """One more sweep than was planned."""
        added = set(planned)
        self._estimate.add(added)
        self._total += len(added)
        self._sweeps = max(sweep for sweep, _ in added) + 1
        self._bar.update(self._task, total=self._total)

    def sweep(self, sweep: int) -> None:
        self.say(f"sweep {sweep + 1} of {self._sweeps}")

    def stage(self, sweep: int, case: str, profile: str, stage: str) -> None:
        if self._began is None:  # loading comes before, once for many sweeps
            self._began = time.monotonic()
        doing = STAGES.get(stage, stage)
        self._bar.update(self._task, description=f"sweep {sweep + 1}/{self._sweeps}  {doing}  {case}  {profile}")

    def cell(self, cell: Cell) -> None:
        self._done += 1
        self._estimate.take(cell)
        left = self._left()
        self._bar.update(self._task, completed=self._done, left=left)
        if not sys.stderr.isatty() or cell.outcome in ("wrong", "failed", "crashed"):
            detail = f": {cell.reason}" if cell.reason else ""
            left = f", {left}" if left else ""
            self.say(f"  [{self._done}/{self._total}{left}] {cell.case}  {cell.profile}  {cell.outcome}{detail}")

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _left(self) -> str:
        if self._began is None or self._done >= self._total:
            return ""
        seconds = self._estimate.left_seconds(time.monotonic() - self._began)
        return "" if seconds is None else f"about {in_words(seconds)} left"


def in_words(seconds: float) -> str:
    """'42 s' or '3 min': as much as an estimate is worth."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
