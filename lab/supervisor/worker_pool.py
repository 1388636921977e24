"""Workers that have loaded everything and wait for their sweep, so that no import disturbs a measurement.

With caches, each worker has one of its own, which is filled with the binaries of all before it when its sweep begins.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lab.supervisor.caches import Cache, Caches
from lab.supervisor.worker_process import WorkerEnded, WorkerProcess

LOADED_AHEAD = 5
LOADED_AHEAD_BY_MANY_CORES = 9
MANY_CORES = 12


class LoadingEnded(WorkerEnded):
    """A worker ended while it loaded. `worker` is that one, already ended."""

    def __init__(self, worker: WorkerProcess, ended: WorkerEnded) -> None:
        super().__init__(str(ended), ended.from_outside)
        self.worker = worker


class WorkerPool:
    """Use as a context manager: no worker outlives it."""

    def __init__(
        self,
        directory: Path,
        silence_seconds: float,
        say: Callable[[str], None],
        caches: Caches | None = None,
        before_first: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] = {},
    ) -> None:
        self._directory = directory
        self._silence_seconds = silence_seconds
        self._say = say
        self._caches = caches
        self._before_first = before_first  # called when the first are loaded, before any is handed out
        self._environment = environment
        self._loaded: dict[int, WorkerProcess] = {}
        self._cache_of: dict[int, Cache] = {}  # by process

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._loaded.values())

    def take(self, sweep: int, following: Sequence[int], left_out: Sequence[tuple[str, str]]) -> WorkerProcess:
        """A loaded worker for this sweep, to be given back to `release`. Where none waits, workers for the sweeps that
        follow are loaded beside it: several sweeps pay for one import. LoadingEnded where one cannot be loaded."""
        if sweep not in self._loaded:
            lacking = [number for number in (sweep, *following) if number not in self._loaded]
            try:
                self._load(lacking[: max(1, loaded_ahead() - len(self._loaded))], left_out)
            except LoadingEnded as first:
                if not first.worker.at:
                    raise
                # Several workers that load at once may run out of memory. That must not quarantine a profile, so
                # only a crash of a worker that loads alone counts.
                self._load([sweep], left_out)
        self._before_first()
        worker = self._loaded.pop(sweep)
        if self._caches:
            self._caches.fill(self._cache_of[worker.pid])
        return worker

    def load_ahead(self, sweeps: Sequence[int], left_out: Sequence[tuple[str, str]]) -> None:
        """Load workers for these sweeps, as many as load at once. What cannot be loaded is left to `take`."""
        with suppress(LoadingEnded):
            self._load(sweeps[: loaded_ahead()], left_out)

    def release(self, worker: WorkerProcess) -> None:
        """End a worker, and take over what it compiled."""
        worker.end()
        if self._caches and (cache := self._cache_of.pop(worker.pid, None)):
            self._caches.gather(cache)
            self._caches.drop(cache)

    def _load(self, sweeps: Sequence[int], left_out: Sequence[tuple[str, str]]) -> None:
        self._say(f"loading {len(sweeps)} worker{'s' if len(sweeps) > 1 else ''}")
        started: dict[int, WorkerProcess] = {}
        try:
            for sweep in sweeps:
                log = self._directory / "logs" / f"sweep-{sweep}.log"
                cache = self._caches.fresh() if self._caches else None
                own = cache.environment if cache else {}
                worker = WorkerProcess(self._directory, log, left_out, {**self._environment, **own})
                started[sweep] = worker
                if cache:
                    self._cache_of[worker.pid] = cache
            for worker in started.values():
                try:
                    worker.wait_until_loaded(self._silence_seconds)
                except WorkerEnded as ended:
                    raise LoadingEnded(worker, ended) from None
        except BaseException:
            _end(started.values())
            raise
        self._loaded |= started


def loaded_ahead() -> int:
    """How many workers load at once: as many as a run has sweeps, where this process may use the cores for it."""
    return LOADED_AHEAD_BY_MANY_CORES if len(os.sched_getaffinity(0)) >= MANY_CORES else LOADED_AHEAD


def _end(workers: Iterable[WorkerProcess]) -> None:
    for worker in workers:
        worker.end()
