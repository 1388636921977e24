"""Workers that have loaded everything and wait for their sweep, so that no import disturbs a measurement."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

from lab.supervisor.process import WorkerEnded, WorkerProcess

LOADED_AHEAD = 5


class LoadingEnded(WorkerEnded):
    """A worker came to its end while it loaded. `worker` is that one, already ended."""

    def __init__(self, worker: WorkerProcess, how: str) -> None:
        super().__init__(how)
        self.worker = worker


class Crew:
    """Use as a context manager: no worker outlives it."""

    def __init__(self, directory: Path, silence_seconds: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._silence_seconds = silence_seconds
        self._say = say
        self._loaded: dict[int, WorkerProcess] = {}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._loaded.values())

    def take(self, sweep: int, following: Sequence[int], left_out: Sequence[tuple[str, str]]) -> WorkerProcess:
        """A loaded worker for this sweep, to be ended by the caller. Where none waits, workers for the sweeps that
        follow are loaded beside it: five sweeps pay for one import. LoadingEnded where one cannot be loaded."""
        if sweep not in self._loaded:
            lacking = [number for number in (sweep, *following) if number not in self._loaded]
            try:
                self._load(lacking[: max(1, LOADED_AHEAD - len(self._loaded))], left_out)
            except LoadingEnded as first:
                if not first.worker.at:
                    raise
                # Five that load at once may need more memory than there is, and one killed for that must not cost
                # a profile the run: it counts where it happens alone.
                self._load([sweep], left_out)
        return self._loaded.pop(sweep)

    def _load(self, sweeps: Sequence[int], left_out: Sequence[tuple[str, str]]) -> None:
        self._say(f"loading {len(sweeps)} worker{'s' if len(sweeps) > 1 else ''}")
        started: dict[int, WorkerProcess] = {}
        try:
            for sweep in sweeps:
                log = self._directory / "logs" / f"sweep-{sweep}.log"
                started[sweep] = WorkerProcess(self._directory, log, left_out)
            for worker in started.values():
                try:
                    worker.wait_until_loaded(self._silence_seconds)
                except WorkerEnded as ended:
                    raise LoadingEnded(worker, str(ended)) from None
        except BaseException:
            _end(started.values())
            raise
        self._loaded |= started


def _end(workers: Iterable[WorkerProcess]) -> None:
    for worker in workers:
        worker.end()
