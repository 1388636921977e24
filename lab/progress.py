"""What a waiting person sees: a live bar on a terminal, plain lines in a pipe."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class RunProgress:
    """Counts the cells of all sweeps. Use as a context manager."""

    def __init__(self, cells: int, sweeps: int, done: int) -> None:
        self._sweeps = sweeps
        self._total = cells * sweeps
        self._done = self._done_before = done
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=self._total, completed=done)

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def sweep(self, sweep: int) -> None:
        self.say(f"sweep {sweep + 1} of {self._sweeps}")

    def stage(self, sweep: int, case: str, profile: str, stage: str) -> None:
        doing = {"check": "preparing", "time": "timing"}.get(stage, stage)
        self._bar.update(self._task, description=f"sweep {sweep + 1}/{self._sweeps}  {doing}  {case}  {profile}")

    def cell(self, case: str, profile: str, outcome: str, reason: str) -> None:
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        if not sys.stderr.isatty() or outcome in ("wrong", "failed"):
            detail = f": {reason}" if reason else ""
            self.say(f"  [{self._done}/{self._total}{self._left()}] {case}  {profile}  {outcome}{detail}")

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _left(self) -> str:
        here = self._done - self._done_before
        if here < 3 or self._done >= self._total:
            return ""
        seconds = (time.monotonic() - self._began) / here * (self._total - self._done)
        return f", about {seconds:.0f} s left"
