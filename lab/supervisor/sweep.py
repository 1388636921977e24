"""One sweep: workers, one after another, until each of its cells has a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lab.definition.plan import Plan
from lab.errors import RunError
from lab.evidence.moment import now
from lab.evidence.record import Cell, Record, SweepStart
from lab.evidence.source import source_digest
from lab.process.channel import Garbled
from lab.supervisor.quarantine import LOAD, crash_reason, is_crash, not_loadable, quarantined
from lab.supervisor.resume import refuse_other_machine
from lab.supervisor.run_state import Key, RunState
from lab.supervisor.watch import Watcher
from lab.supervisor.worker_pool import LoadingEnded, WorkerPool
from lab.supervisor.worker_process import DeadlinePassed, Order, WorkerEnded, WorkerProcess
from lab.supervisor.worker_protocol import WorkerProtocol


class Progress(Protocol):
    """Whom a sweep tells how far it is."""

    def sweep(self, sweep: int) -> None: ...

    def stage(self, sweep: int, case: str, profile: str, stage: str) -> None: ...

    def cells(self, cells: Sequence[Cell]) -> None: ...

    def say(self, text: str) -> None: ...


@dataclass(slots=True)
class Sweep:
    """What one sweep needs, and the process that measures it now."""

    plan: Plan
    number: int
    wanted: Sequence[Key]
    state: RunState
    pool: WorkerPool
    watcher: Watcher
    progress: Progress
    place: str = ""  # as in Order
    process: str = field(default="", init=False)
    _repeated: set[Key] = field(default_factory=set, init=False)  # whose worker was once killed from outside

    def complete(self, following: Sequence[int]) -> None:
        """Measure what is missing. `following` are the sweeps that workers may be loaded for meanwhile."""
        todo = self._todo()
        if todo:
            self.progress.sweep(self.number)
        while todo:
            self._work(todo, following)
            todo = self._todo()

    def _todo(self) -> list[Key]:
        """The cells that are to be run; those of profiles in quarantine get their record here."""
        todo = []
        crashed = [cell for cell in self.state.cells.values() if is_crash(cell)]
        for key in self.state.lacking(self.number, self.wanted):
            experiment, _, profile = key
            if reason := quarantined(crashed, experiment, profile, self.plan.protocol.crashes):
                self._keep(self._lost(key, "crashed", reason, stage="", process=""))
            else:
                todo.append(key)
        return todo

    def _work(self, todo: Sequence[Key], following: Sequence[int]) -> None:
        """Run one worker until it ends, for whatever reason. RunError where it measured nothing."""
        self.process = ""
        ended: WorkerEnded | None = None
        try:
            worker = self.pool.take(self.number, following, not_loadable(self.state.cells.values()))
        except LoadingEnded as refusal:
            worker, ended = refusal.worker, refusal
        else:
            try:
                self._measure(worker, todo, WorkerProtocol(self.number, todo, self.watcher))
            except WorkerEnded as refusal:
                ended = refusal
            finally:
                self.pool.release(worker)
        if isinstance(ended, DeadlinePassed):
            self._give_up(worker, todo, ended)
        elif ended and (key := self._announced(worker, todo)):
            stage = worker.at[3]
            if ended.from_outside and key not in self._repeated:
                self._repeated.add(key)
                self.progress.say(
                    f"the worker {ended} at {key[1]} with {key[2]} ({stage}). Another process, or the kernel for want "
                    "of memory, may have sent the signal: this cell is measured once more"
                )
                return
            reason = crash_reason(str(ended), stage, worker.fault, worker.log.name)
            self._keep(self._lost(key, "crashed", reason, stage, self.process))
        if len(self.state.lacking(self.number, todo)) == len(todo):
            raise RunError(
                f"{self.state.directory}: sweep {self.number + 1}: the worker {ended or 'ended'} before it measured "
                f"anything; its last output ({worker.log}):\n{worker.last_output()}"
            )

    def _give_up(self, worker: WorkerProcess, todo: Sequence[Key], ended: DeadlinePassed) -> None:
        """Give a case up where one whole sweep's time was not enough for it; else the next worker continues."""
        left = self.state.lacking(self.number, todo)
        if len(left) == len(todo):
            reason = f"the worker {ended}, which is the sweep's deadline, and had not measured this case"
            here = [key for key in left if list(key[:2]) == worker.at[:2]]
            self._keep(*(self._lost(key, "failed", reason, "", self.process) for key in here))

    def _measure(self, worker: WorkerProcess, todo: Sequence[Key], messages: WorkerProtocol) -> None:
        protocol = self.plan.protocol
        order = Order(self.number, todo, self.state.edgeless(todo), self.place)
        try:
            with self.watcher.watching(worker.pid):
                for kind, content in worker.measure(order, protocol.deadline_seconds, protocol.sweep_deadline_seconds):
                    self._take(worker, messages.take(kind, content))
                    if kind == "stage":
                        self.progress.stage(self.number, *messages.at[1:])
            messages.finish()
        except Garbled as problem:
            worker.at = messages.at
            raise WorkerEnded(str(problem)) from None
        except WorkerEnded:
            self._take(worker, messages.rest())
            raise
        self._refuse_other_code()

    def _take(self, worker: WorkerProcess, said: Sequence[Record]) -> None:
        records = [worker.reported.as_reported(record) for record in said]
        for record in records:
            if isinstance(record, SweepStart):
                self._check_start(record)
        self._keep(*records)

    def _check_start(self, start: SweepStart) -> None:
        self._refuse_other_code()
        refuse_other_machine(self.state, start.machine)
        self.process = start.process

    def _refuse_other_code(self) -> None:
        """RunError if the source was edited since the run began, because each worker imports it again."""
        if source_digest() != self.state.code:
            raise RunError(
                f"{self.state.directory}: the measured code was changed while the run went on; "
                "put it back to resume the run, or use another run id"
            )

    def _keep(self, *records: Record) -> None:
        self.state.keep(*records)
        if cells := [record for record in records if isinstance(record, Cell)]:
            self.progress.cells(cells)

    def _announced(self, worker: WorkerProcess, todo: Sequence[Key]) -> Key | None:
        """The cell blamed for the end of a worker: the one it announced last, where that has no record yet."""
        if not worker.at:
            return None
        experiment, case, profile, stage = worker.at
        left = self.state.lacking(self.number, todo)
        if (experiment, case, profile) in left:
            return experiment, case, profile
        # A profile is loaded once for all cases; loading is announced under the first of them.
        same = (key for key in left if stage == LOAD and (key[0], key[2]) == (experiment, profile))
        return next(same, None)

    def _lost(self, key: Key, outcome: str, reason: str, stage: str, process: str) -> Cell:
        experiment, case, profile = key
        return Cell(
            experiment=experiment, case=case, profile=profile, sweep=self.number, process=process, outcome=outcome,
            reason=reason, prepare_seconds=0.0, correctness=None, timings=(), finished_utc=now(), stage=stage,
        )  # fmt: skip
