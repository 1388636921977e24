"""One sweep: workers, one after another, until each of its cells has a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.definition.plan import Plan
from lab.errors import RunError
from lab.evidence.moment import now
from lab.evidence.record import Cell, Record, SweepStart
from lab.evidence.source import source_digest
from lab.supervisor.channel import Garbled
from lab.supervisor.crew import Crew, LoadingEnded
from lab.supervisor.hearing import Hearing
from lab.supervisor.ledger import Key, Ledger
from lab.supervisor.process import DeadlinePassed, Order, WorkerEnded, WorkerProcess
from lab.supervisor.progress import RunProgress
from lab.supervisor.quarantine import LOAD, crash_reason, not_loadable, quarantined
from lab.supervisor.resume import refuse_other_machine
from lab.supervisor.watch import Watcher


@dataclass(slots=True)
class Sweep:
    """What one sweep needs, and the process that measures it now."""

    plan: Plan
    number: int
    wanted: Sequence[Key]
    ledger: Ledger
    crew: Crew
    watcher: Watcher
    progress: RunProgress
    process: str = field(default="", init=False)

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
        for key in self.ledger.lacking(self.number, self.wanted):
            experiment, _, profile = key
            cells, allowed = self.ledger.cells.values(), self.plan.protocol.crashes
            if reason := quarantined(cells, experiment, profile, allowed):
                self._keep(self._lost(key, "crashed", reason, stage="", process=""))
            else:
                todo.append(key)
        return todo

    def _work(self, todo: Sequence[Key], following: Sequence[int]) -> None:
        """Run one worker to its end, whichever that is. RunError where it leaves as much to do as there was."""
        self.process = ""
        ended: WorkerEnded | None = None
        try:
            worker = self.crew.take(self.number, following, not_loadable(self.ledger.cells.values()))
        except LoadingEnded as refusal:
            worker, ended = refusal.worker, refusal
        else:
            try:
                self._hear(worker, todo, Hearing(self.number, todo, self.watcher))
            except WorkerEnded as refusal:
                ended = refusal
            finally:
                self.crew.release(worker)
        if isinstance(ended, DeadlinePassed):
            self._give_up(worker, todo, ended)
        elif ended and (key := self._announced(worker, todo)):
            stage = worker.at[3]
            reason = crash_reason(str(ended), stage, worker.fault, worker.log.name)
            self._keep(self._lost(key, "crashed", reason, stage, self.process))
        if len(self.ledger.lacking(self.number, todo)) == len(todo):
            raise RunError(
                f"{self.ledger.directory}: sweep {self.number + 1}: the worker {ended or 'ended'} before it measured "
                f"anything; its last words ({worker.log}):\n{worker.last_words()}"
            )

    def _give_up(self, worker: WorkerProcess, todo: Sequence[Key], ended: DeadlinePassed) -> None:
        """Where a whole sweep's time was not enough for one case, that case is lost; else the next worker goes on."""
        left = self.ledger.lacking(self.number, todo)
        if len(left) == len(todo):
            reason = f"the worker {ended}, which is the sweep's deadline, and had not measured this case"
            here = [key for key in left if list(key[:2]) == worker.at[:2]]
            self._keep(*(self._lost(key, "failed", reason, "", self.process) for key in here))

    def _hear(self, worker: WorkerProcess, todo: Sequence[Key], hearing: Hearing) -> None:
        protocol = self.plan.protocol
        order = Order(self.number, todo, self.ledger.edgeless(todo))
        try:
            with self.watcher.watching(worker.pid):
                for kind, content in worker.measure(order, protocol.deadline_seconds, protocol.sweep_deadline_seconds):
                    self._take(worker, hearing.take(kind, content))
                    if kind == "stage":
                        self.progress.stage(self.number, *hearing.at[1:])
            hearing.finish()
        except Garbled as problem:
            worker.at = hearing.at
            raise WorkerEnded(str(problem)) from None
        except WorkerEnded:
            self._take(worker, hearing.rest())
            raise
        self._refuse_other_code()

    def _take(self, worker: WorkerProcess, said: Sequence[Record]) -> None:
        records = [worker.testimony.held_against(record) for record in said]
        for record in records:
            if isinstance(record, SweepStart):
                self._check_start(record)
        self._keep(*records)

    def _check_start(self, start: SweepStart) -> None:
        self._refuse_other_code()
        refuse_other_machine(self.ledger, start.machine)
        self.process = start.process

    def _refuse_other_code(self) -> None:
        """Every worker imports the source anew: an edit while the run goes on would mix two programs."""
        if source_digest() != self.ledger.code:
            raise RunError(
                f"{self.ledger.directory}: the source in lab/ or experiments/ was changed while the run went on; "
                "put it back to resume the run, or use another run id"
            )

    def _keep(self, *records: Record) -> None:
        self.ledger.keep(*records)
        if cells := [record for record in records if isinstance(record, Cell)]:
            self.progress.cells(cells)

    def _announced(self, worker: WorkerProcess, todo: Sequence[Key]) -> Key | None:
        """The cell that a worker's end is laid to: the one it announced, where that has no record yet."""
        if not worker.at:
            return None
        experiment, case, profile, stage = worker.at
        left = self.ledger.lacking(self.number, todo)
        if (experiment, case, profile) in left:
            return experiment, case, profile
        # What is loaded is loaded for every case, and named by the first.
        same = (key for key in left if stage == LOAD and (key[0], key[2]) == (experiment, profile))
        return next(same, None)

    def _lost(self, key: Key, outcome: str, reason: str, stage: str, process: str) -> Cell:
        experiment, case, profile = key
        return Cell(
            experiment=experiment, case=case, profile=profile, sweep=self.number, process=process, outcome=outcome,
            reason=reason, prepare_seconds=0.0, correctness=None, timings=(), finished_utc=now(), stage=stage,
        )  # fmt: skip
