"""The supervisor: plan → sweeps in fresh processes → journal. Whatever dies, what was measured stays.

A worker that crashes or falls silent costs the cell it was at; another worker measures the rest.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab import journal
from lab.channel import frames
from lab.errors import RunError
from lab.nsight import profile_experiment
from lab.plan import NAME as PLAN_NAME
from lab.plan import Plan, load_plan, save_plan
from lab.progress import RunProgress
from lab.record import (
    SCHEMA,
    Cell,
    Counters,
    Machine,
    Record,
    RunFinish,
    RunStart,
    SweepStart,
    from_data,
    to_data,
)
from lab.source import OWN_MODULE, child_environment, head, source_digest
from lab.worker import now

# What must not change between the sweeps of one run.
SAME_MACHINE = (
    "device", "gpu", "gpu_id", "driver", "cuda", "torch", "triton", "liger", "python", "cpu", "cpu_count",
    "power_limit_watts", "ecc", "mig", "persistence", "environment",
)  # fmt: skip


def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
    """Measure all that the plan still lacks. RunError where the run is finished, in use, or another's."""
    directory.mkdir(parents=True, exist_ok=True)
    with _exclusively(directory):
        records = _open(plan, directory)
        code = next(record.source_digest for record in records if isinstance(record, RunStart))
        path = directory / journal.NAME
        cells = {_key(cell): cell for cell in records if isinstance(cell, Cell)}
        machine = next((start.machine for start in records if isinstance(start, SweepStart)), None)
        if cells:
            say(f"resuming: {len(cells)} of {plan.cell_count() * plan.protocol.sweeps} cells are measured")
        with RunProgress(plan.cell_count(), plan.protocol.sweeps, len(cells)) as progress:
            for sweep in range(plan.protocol.sweeps):
                machine = Sweep(plan, directory, sweep, cells, progress, machine, code).complete()
        if plan.profiling:
            _profile(plan, path, records, say)
        journal.append(path, RunFinish(finished_utc=now()))


class Sweep:
    """One sweep: workers, one after another, until every cell has its record."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        sweep: int,
        cells: dict[tuple[int, str, str, str], Cell],
        progress: RunProgress,
        machine: Machine | None,
        code: str,
    ) -> None:
        self.plan = plan
        self.directory = directory
        self.sweep = sweep
        self.cells = cells
        self.progress = progress
        self.machine = machine
        self.code = code
        self.process = ""
        self.at: list[str] = []  # experiment, case, profile and stage that the worker announced last

    def complete(self) -> Machine | None:
        """Measure what is missing; returns the machine that it was measured on, where that is known."""
        announced = False
        while self._missing():
            if not announced:
                self.progress.sweep(self.sweep)
                announced = True
            self.at, self.process = [], ""
            missing = self._missing()
            if ended := self._work():
                self._lay_to_cell(ended)
            if self._missing() == missing:
                raise RunError(f"{self.directory}: sweep {self.sweep + 1}: the worker ended without its cells")
        return self.machine

    def _missing(self) -> int:
        done = sum(key[0] == self.sweep for key in self.cells)
        return self.plan.cell_count() - done

    def _work(self) -> str:
        """Run one worker until it is done; how it ended otherwise."""
        log = self.directory / "logs" / f"sweep-{self.sweep}.log"
        log.parent.mkdir(exist_ok=True)
        reader, writer = os.pipe()
        with log.open("a") as output:
            worker = subprocess.Popen(
                [sys.executable, *OWN_MODULE, "lab.worker", str(self.directory), str(self.sweep), str(writer)],
                stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], start_new_session=True,
                env=child_environment() | {"TORCHINDUCTOR_COMPILE_THREADS": "1"},
            )  # fmt: skip
        os.close(writer)
        try:
            with worker.stdin as channel:  # type: ignore[union-attr]
                channel.write(json.dumps([key[1:] for key in self.cells if key[0] == self.sweep]).encode())
            for frame in frames(reader, self.plan.protocol.deadline_seconds):
                if frame["kind"] == "done":
                    self._refuse_other_code()
                    worker.wait(self.plan.protocol.deadline_seconds)
                    return ""
                self._take(frame["kind"], frame["content"])
            code = worker.wait(30)
            return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"gave no sign of life for {self.plan.protocol.deadline_seconds:.0f} s"
        finally:
            os.close(reader)
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()

    def _take(self, kind: str, content: Any) -> None:
        if kind == "stage":
            self.at = content
            self.progress.stage(self.sweep, content[1], content[2], content[3])
        elif kind == "SweepStart":
            self._take_start(from_data(SweepStart, content))
        elif kind == "Cell":
            self._keep(from_data(Cell, content))

    def _take_start(self, start: SweepStart) -> None:
        self._refuse_other_code()
        if self.machine and (changes := _differences(self.machine, start.machine)):
            raise RunError(
                f"{self.directory}: this is not the machine that the run began on: {'; '.join(changes)}. "
                "Use another run id"
            )
        self.machine = self.machine or start.machine
        self.process = start.process
        journal.append(self.directory / journal.NAME, start)

    def _refuse_other_code(self) -> None:
        """Every sweep imports the source anew: an edit while the run goes on would mix two programs."""
        if source_digest() != self.code:
            raise RunError(
                f"{self.directory}: the source in lab/ or experiments/ was changed while the run went on; "
                "put it back to resume the run, or use another run id"
            )

    def _keep(self, cell: Cell) -> None:
        journal.append(self.directory / journal.NAME, cell)
        self.cells[_key(cell)] = cell
        self.progress.cell(cell.case, cell.profile, cell.outcome, cell.reason)

    def _lay_to_cell(self, ended: str) -> None:
        log = self.directory / "logs" / f"sweep-{self.sweep}.log"
        if not self.at:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RunError(f"the worker {ended} before it measured anything; its last words ({log}):\n{tail}")
        experiment, case, profile, stage = self.at
        self._keep(
            Cell(
                experiment=experiment, case=case, profile=profile, sweep=self.sweep, process=self.process,
                outcome="failed", reason=f"the worker {ended} ({stage}); see logs/{log.name}",
                prepare_seconds=0.0, correctness=None, timings=(), finished_utc=now(),
            )
        )  # fmt: skip


def _open(plan: Plan, directory: Path) -> tuple[Record, ...]:
    """Begin the run, or take up the one that is there; RunError where it may not be continued."""
    path = directory / journal.NAME
    code = source_digest()
    journal.drop_torn_line(path)
    held = journal.read(path)
    if not held.records and not held.damages:
        save_plan(plan, directory)
        commit, dirty = head()
        start = RunStart(
            schema=SCHEMA, run_id=plan.run_id, plan_digest=plan.digest, source_digest=code,
            commit=commit, dirty=dirty, started_utc=now(),
        )  # fmt: skip
        journal.append(path, start)
        return (start,)
    if held.damages:
        bad = held.damages[0]
        raise RunError(f"{path}: line {bad.line_number}: {bad.reason}. Use another run id, or restore the file")
    if any(isinstance(record, RunFinish) for record in held.records):
        raise RunError(
            f"run {plan.run_id!r} is finished and will not be overwritten: choose another --run-id, "
            f"or look at it in {directory}"
        )
    _refuse_changes(plan, load_plan(directory), held.records, code, directory)
    return held.records


def _refuse_changes(plan: Plan, old: Plan, records: tuple[Record, ...], code: str, directory: Path) -> None:
    changed = list(_changed_fields("", to_data(old), to_data(plan)))
    start = records[0]
    if not isinstance(start, RunStart) or start.plan_digest != old.digest:
        raise RunError(f"{directory}: {PLAN_NAME} is not the plan that the journal began with; use another run id")
    if start.source_digest != code:
        changed.append("the source in lab/ or experiments/")
    if changed:
        raise RunError(
            f"{directory}: this unfinished run was registered otherwise; changed: {', '.join(changed[:5])}. "
            "Use the same options and code to resume it, or another run id"
        )


def _changed_fields(place: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _changed_fields(f"{place}.{name}" if place else name, old.get(name), new.get(name))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changed_fields(f"{place}[{index}]", before, after)
    elif old != new:
        yield f"{place} ({str(old)[:40]} → {str(new)[:40]})"


def _differences(old: Machine, new: Machine) -> list[str]:
    return [
        f"{name} was {getattr(old, name)!r}, is {getattr(new, name)!r}"
        for name in SAME_MACHINE
        if getattr(old, name) != getattr(new, name)
    ]


def _profile(plan: Plan, path: Path, records: tuple[Record, ...], say: Callable[[str], None]) -> None:
    done = {_cell_of(record) for record in records if isinstance(record, Counters)}
    for experiment in plan.experiments:
        cells = {(experiment.name, c.name, p.name) for c, p in experiment.cells() if plan.device in p.devices}
        if cells <= done:
            continue
        say(f"profiling {experiment.name} with Nsight Compute")
        found = list(profile_experiment(plan, experiment, path.parent))
        for counters in found:
            if _cell_of(counters) not in done:
                journal.append(path, counters)
        blocked = sorted({counters.reason for counters in found if counters.outcome == "blocked"})
        say(f"  counters of {sum(c.outcome == 'measured' for c in found)} of {len(found)} cells")
        for reason in blocked:
            say(f"  counters: blocked: {reason}")


def _cell_of(record: Cell | Counters) -> tuple[str, str, str]:
    return record.experiment, record.case, record.profile


def _key(cell: Cell) -> tuple[int, str, str, str]:
    return cell.sweep, *_cell_of(cell)


@contextmanager
def _exclusively(directory: Path) -> Iterator[None]:
    """One process at a time in a run directory; the lock goes with the process, however it ends."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{directory}: another process is measuring this run; wait for it, or use another run id"
            ) from None
        yield
