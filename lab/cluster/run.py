"""A run on several GPUs: plan → parts of sweeps, each on one GPU → one journal, which is kept here.

If a GPU is lost, with its node or alone, another measures the case that it was at again, and the rest of its part.
"""

import base64
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.cluster.fleet import KEPT, Fleet, Gpu, differences, hello_of, of_model, refuse_unlike
from lab.cluster.link import Crew
from lab.cluster.orders import pass_order, prepare_order, sweep_order
from lab.cluster.parts import Part, Place, deal, lacking_of, next_part, sweeps_after
from lab.cluster.tally import Tally
from lab.definition.plan import Plan
from lab.definition.plan_file import NAME as PLAN_NAME
from lab.errors import RunError
from lab.evidence.codec import from_data
from lab.evidence.moment import now
from lab.evidence.record import KINDS, Cell, FlushCheck, LostGpu, Record, SweepStart
from lab.supervisor.ending import finish, refuse_nothing
from lab.supervisor.extra_sweeps import all_cells, another_sweep, extra_cells, recompiled_cells
from lab.supervisor.resume import open_run, refuse_other_machine
from lab.supervisor.run import own_directory
from lab.supervisor.run_state import RunState

MOST_LOSSES = 3  # of GPUs with one part; its cells may be what takes them down
FILE = re.compile(r"(logs|ncu)/[\w.+-]+")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """The passes after timing over one experiment. `flush`: also check the cache's flush."""

    experiment: str
    flush: bool
    losses: int = 0

    @property
    def name(self) -> str:
        return f"counters of {self.experiment}"


Task = Part | Pass


def run_on_several(
    plan: Plan, directory: Path, crew: Crew, say: Say, *, model: str = "", in_turn: bool = False
) -> None:
    """Measure all that the plan still lacks, on the GPUs of `crew` of the model whose name contains `model`.

    in_turn: only one GPU measures at a time, so that it has no neighbour. RunError where the run is finished, in use or
    another's, where the GPUs are of several models or their hosts differ, and where a part is lost again and again.
    """
    began = time.monotonic()
    with own_directory(directory):
        with crew:
            state = open_run(plan, directory, several_gpus=True)
            fleet = Fleet(crew, (directory / PLAN_NAME).read_text(encoding="utf-8"), say)
            several = _Several(plan, state, fleet, say, in_turn)
            several.gather(model)
            several.sweeps()
            refuse_nothing(state)
            profiling_seconds = several.passes()
        finish(
            state, began=began, ahead_seconds=several.ahead_seconds, profiling_seconds=profiling_seconds, say=say
        )  # fmt: skip


@dataclass(slots=True)
class _Several:
    plan: Plan
    state: RunState
    fleet: Fleet
    say: Say
    in_turn: bool
    ahead_seconds: float = 0.0  # that the slowest GPU spent on compiling before the first sweep
    _tally: Tally | None = None
    _waiting: list[Task] = field(default_factory=list)
    _measured: dict[str, Counter[Place]] = field(default_factory=dict)  # by board
    _like: Gpu | None = None  # what a GPU that comes later is to be like

    def gather(self, model: str) -> None:
        """Reach all GPUs, and let them compile and load all at once, before any of them measures."""
        for slot in range(self.fleet.crew.size):
            self.fleet.start(slot)
        while any(gpu.working for gpu in self.fleet.gpus):
            self._hear()
        wanted = of_model(self.fleet.gpus, model)
        for gpu in [gpu for gpu in self.fleet.gpus if gpu not in wanted]:
            self.fleet.drop(gpu, again=False)
        refuse_unlike(wanted)
        self._like = like = wanted[0]
        self._note_boards()
        self._waiting = self._planned_parts()
        hosts = {gpu.host for gpu in wanted}
        model = like.hello.model if like.hello else ""
        gpus = f"{len(wanted)} GPU{'s' * (len(wanted) > 1)}"
        self.say(f"{gpus} on {len(hosts)} host{'s' * (len(hosts) > 1)}: {model}")
        for gpu in wanted:
            self._prepare(gpu)
        while any(gpu.working and gpu.hello for gpu in self.fleet.gpus):
            self._hear()

    def sweeps(self) -> None:
        """The planned sweeps, whose parts need not wait for one another; then each extra sweep, which rests on those
        before it."""
        protocol = self.plan.protocol
        drawn = recompiled_cells(self.plan)
        done = len(self.state.cells)
        ahead = sum(len(part.wanted) for part in self._waiting if isinstance(part, Part))
        beyond = range(protocol.sweeps, protocol.most_sweeps)
        foreseen = sum(len(self.state.lacking(number, drawn)) for number in beyond)
        if done:
            self.say(f"resuming: {done} cells are measured")
        self._tally = Tally(done, done + ahead + foreseen, self.say)
        self._work_off()
        for number in beyond:
            wanted = extra_cells(self.plan, self.state.before(number))
            if not wanted:
                break
            lacking = self.state.lacking(number, wanted)
            self._tally.more(len(set(lacking) - set(drawn)))
            if lacking:
                self.say(another_sweep(lacking))
            self._waiting = list(deal(number, lacking, self._count))
            self._work_off()

    def passes(self) -> float:
        """Counters and other instruments, an experiment at a time on each host; seconds that they took."""
        if not (self.plan.profiling or self.plan.instruments):
            return 0.0
        began = time.monotonic()
        flushed = any(isinstance(record, FlushCheck) for record in self.state.records)
        self._waiting = [
            Pass(experiment.name, flush=not flushed and number == 0)
            for number, experiment in enumerate(self.plan.experiments)
        ]
        self._work_off()
        return time.monotonic() - began

    @property
    def _count(self) -> int:
        """GPUs that answer: into so many parts a sweep is dealt."""
        return max(1, sum(gpu.hello is not None for gpu in self.fleet.gpus))

    def _planned_parts(self) -> list[Task]:
        every = all_cells(self.plan)
        parts: list[Task] = []
        for number in range(self.plan.protocol.sweeps):
            parts += deal(number, self.state.lacking(number, every), self._count)
        return parts

    def _note_boards(self) -> None:
        """How often each board has measured each case before the run was interrupted."""
        boards = {s.process: s.machine.gpu_id for s in self.state.records if isinstance(s, SweepStart)}
        for process, *place in {(c.process, c.experiment, c.case) for c in self.state.cells.values() if c.process}:
            self._measured.setdefault(boards.get(process, ""), Counter())[place[0], place[1]] += 1

    def _work_off(self) -> None:
        """Hand out all that waits, and hear until it is done."""
        while self._waiting or any(gpu.doing for gpu in self.fleet.gpus):
            for gpu in sorted(self.fleet.gpus, key=lambda gpu: gpu.given):
                if gpu.prepared and not gpu.doing and self._waiting and self._may_begin(gpu):
                    self._give(gpu)
            self._hear()

    def _may_begin(self, gpu: Gpu) -> bool:
        """Nsight Compute lets one process of a host profile at a time: another would wait, and be taken for hanging."""
        busy = [other for other in self.fleet.gpus if other.doing]
        if isinstance(self._waiting[0], Pass):
            return not any(other.host == gpu.host for other in busy)
        return not (self.in_turn and busy)

    def _give(self, gpu: Gpu) -> None:
        parts = [task for task in self._waiting if isinstance(task, Part)]
        measured = self._measured.setdefault(gpu.gpu_id or gpu.name, Counter())
        task: Task = next_part(parts, measured) if parts else self._waiting[0]
        self._waiting.remove(task)
        gpu.doing = task
        gpu.given += 1
        if isinstance(task, Part):
            measured.update(task.places)
            order = sweep_order(self.state, task, sweeps_after(task, parts))
        else:
            order = pass_order(self.state, task.experiment, task.flush)
        self.fleet.ask(gpu, order)

    def _prepare(self, gpu: Gpu) -> None:
        parts = [task for task in self._waiting if isinstance(task, Part)]
        sharing = sum(other.host == gpu.host for other in self.fleet.gpus)
        self.fleet.ask(gpu, prepare_order(self.state, parts, sharing))

    def _hear(self) -> None:
        """Take one frame."""
        gpu, kind, content = self.fleet.hear()
        if kind == "said":
            self.say(f"{gpu.name}: {content}")
        elif kind == "records":
            self._take(gpu, [from_data(KINDS[name], data, name) for name, data in content])
        elif kind == "file":
            self._keep_file(*content)
        elif kind == "refused" and self._like and not gpu.hello:
            self.say(f"{gpu.name} is left out: {content}")
            self.fleet.drop(gpu, again=False)
        elif kind == "refused":
            raise RunError(f"{gpu.full_name}: {content}")
        elif kind == "gone":
            self._lose(gpu, content)
        elif kind == "hello":
            gpu.hello = hello_of(content)
            if self._like:
                self._admit(gpu, self._like)
        elif kind == "prepared":
            gpu.prepared = True
            self.ahead_seconds = max(self.ahead_seconds, content)
        elif kind == "done":
            gpu.doing = None

    def _admit(self, gpu: Gpu, like: Gpu) -> None:
        """One that has come later."""
        if changes := differences(like, gpu):
            self.say(f"{gpu.full_name} is left out, for it is not like the others: {'; '.join(changes)}")
            self.fleet.drop(gpu, again=False)
        else:
            self._prepare(gpu)

    def _take(self, gpu: Gpu, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, SweepStart):
                try:
                    refuse_other_machine(self.state, record.machine)
                except RunError as problem:
                    raise RunError(f"{gpu.full_name}: {problem}") from None
        self.state.keep(*records)
        if self._tally:
            self._tally.cells([record for record in records if isinstance(record, Cell)], gpu.name)

    def _keep_file(self, name: str, data: str) -> None:
        """A piece of a log or report, to be added to the file of that name."""
        if not FILE.fullmatch(name):
            raise RunError(f"{self.state.directory}: a GPU sent a file called {name[:40]!r}, which no sweep writes")
        path = self.state.directory / name
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(base64.b64decode(data))

    def _lose(self, gpu: Gpu, reason: str) -> None:
        """Put it on record, let others do what is left of its part, and reach for one in its place."""
        if gpu.hello:
            during = gpu.doing.name if gpu.doing else "loading"
            self.state.keep(LostGpu(gpu_id=gpu.gpu_id, during=during, reason=reason, lost_utc=now()))
        self.say(f"{gpu.full_name} is lost: {reason}")
        self.fleet.drop(gpu, again=self._like is not None)
        if gpu.doing:
            self._again(gpu.doing, reason)

    def _again(self, task: Task, reason: str) -> None:
        if isinstance(task, Part):
            task = lacking_of(task, self.state.lacking(task.sweep, task.wanted))
        else:
            task = replace(task, losses=task.losses + 1)
        if task.losses >= MOST_LOSSES:
            raise RunError(
                f"{self.state.directory}: {task.losses} GPUs were lost one after another with the same work, at last: "
                f"{reason}. {KEPT}"
            )
        if isinstance(task, Pass) or task.wanted:
            self._waiting.insert(0, task)
