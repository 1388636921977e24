"""The progress of a run: a live bar on a terminal, plain lines in a pipe."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.evidence.record import Cell
from lab.supervisor.estimate import CaseClock, Estimate
from lab.supervisor.run_state import Key, key_of

STAGES = {
    "load": "loading",
    "inputs": "making inputs",
    "check": "compiling and checking",
    "time": "timing",
    "sustain": "calls back to back",
    "verify": "checking a timed output",
}


class RunProgress:
    """Counts the cells of all sweeps. Use as a context manager. `clock` tells seconds."""

    def __init__(self, estimate: Estimate, done: int, sweeps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._estimate = estimate
        self._sweeps = sweeps
        self._done = done
        self._total = done + len(estimate.ahead)
        self._clock = clock
        self._case = CaseClock()
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
        """Cells of one sweep, among them some that were not planned."""
        wanted = set(planned)
        self._total += len(wanted - self._estimate.ahead)
        self._estimate.add(wanted)
        self._sweeps = max(self._sweeps, *(sweep + 1 for sweep, _ in wanted))
        self._bar.update(self._task, total=self._total)

    def sweep(self, sweep: int) -> None:
        self.say(f"sweep {sweep + 1} of {self._sweeps}")

    def stage(self, sweep: int, case: str, profile: str, stage: str) -> None:
        self._case.stage(profile, stage, self._clock())
        doing = STAGES.get(stage, stage)
        self._bar.update(self._task, description=f"sweep {sweep + 1}/{self._sweeps}  {doing}  {case}  {profile}")

    def cells(self, cells: Sequence[Cell]) -> None:
        """The records of a case have come."""
        spent = self._case.finish([cell.profile for cell in cells if _was_run(cell)], self._clock())
        for cell in cells:
            if _was_run(cell):
                self._estimate.take(cell.sweep, key_of(cell), *spent[cell.profile])
            else:
                self._estimate.skip(cell.sweep, key_of(cell))
            self._tell(cell)

    def _tell(self, cell: Cell) -> None:
        self._done += 1
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
        if self._done >= self._total:
            return ""
        seconds = self._estimate.left_seconds()
        return "" if seconds is None else f"about {in_words(seconds)} left"


def _was_run(cell: Cell) -> bool:
    return cell.outcome != "skipped" and bool(cell.process)


def in_words(seconds: float) -> str:
    """'42 s' or '3 min': an estimate is no more exact."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
