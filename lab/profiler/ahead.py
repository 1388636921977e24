"""The process that takes the first counters, loaded before the first sweep, beside the workers.

It waits until the last sweep has ended, and leaves the GPU alone meanwhile. So nobody waits for its imports, and they
disturb no measurement.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lab.definition.plan import Plan, PlannedExperiment
from lab.evidence.record import Cell
from lab.profiler.ncu import Capture
from lab.profiler.nsight import load_ahead


class CountersAhead:
    """At most one process. Use as a context manager: it does not outlive it."""

    def __init__(self) -> None:
        self._experiment = ""
        self._capture: Capture | None = None

    def __enter__(self) -> "CountersAhead":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self, plan: Plan, experiment: PlannedExperiment, directory: Path, timed: Iterable[Cell]) -> None:
        """Where it cannot be started, there is none, and the pass tells why."""
        self._experiment = experiment.name
        self._capture = load_ahead(plan, experiment, directory, timed)

    def wait_until_loaded(self, patience_seconds: float) -> None:
        """A process that takes longer, or has ended, is given up."""
        loaded = False
        with suppress(OSError):
            loaded = bool(self._capture and self._capture.wait_until_loaded(patience_seconds))
        if not loaded:
            self._end()

    def of(self, experiment: PlannedExperiment) -> Capture | None:
        """The process of this experiment, if it still waits. It is given once."""
        if self._capture is None or experiment.name != self._experiment:
            return None
        if not self._capture.lives():
            self._end()
        given, self._capture = self._capture, None
        return given

    def _end(self) -> None:
        if self._capture:
            self._capture.end()
            self._capture = None
