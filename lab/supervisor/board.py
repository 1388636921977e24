"""One GPU of a run on several: `python -m lab.supervisor.board DESCRIPTOR`, see lab.cluster.board_process.

Orders come on stdin, a line of JSON each; frames go out by the descriptor. Everything that is measured is sent, and
nothing is kept. The process ends, with all that it started, when stdin does: so it needs no parent, which an engine
such as Ray may kill together with its children.
"""

import base64
import json
import os
import platform
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lab.definition.plan import Plan
from lab.definition.plan_file import NAME as PLAN_NAME
from lab.definition.plan_file import load_plan
from lab.errors import LabError, RunError
from lab.evidence.codec import from_data, to_data
from lab.evidence.machine import fingerprint
from lab.evidence.nvml import first_visible, visible_gpu
from lab.evidence.record import KINDS, Cell, Record
from lab.evidence.source import source_digest
from lab.process.channel import send
from lab.supervisor.caches import Caches
from lab.supervisor.forwarded_state import ForwardedState
from lab.supervisor.lock import gpu_lock
from lab.supervisor.passes import explain
from lab.supervisor.quarantine import not_loadable
from lab.supervisor.run_state import Key, RunState
from lab.supervisor.scratch import scratch_folder
from lab.supervisor.sweep import Sweep
from lab.supervisor.sweeps import ONE_THREAD, compiling_ahead
from lab.supervisor.watch import Watcher
from lab.supervisor.worker_pool import WorkerPool

LOCK_SECONDS = 90.0  # the process that had the GPU before may still be ending its worker
LOOK_SECONDS = 0.5
PIECE_BYTES = 4 << 20
FILES = ("logs", "ncu")  # folders whose files are sent


class Link:
    """To the process that gives the orders. It says what the sweep tells it, as `Progress` does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._orders: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()

    def listen(self) -> None:
        """Read orders from now on. At their end the main thread is interrupted, whatever it does."""
        signal.signal(signal.SIGTERM, _interrupt)
        threading.Thread(target=self._read, daemon=True).start()

    def order(self) -> Mapping[str, Any]:
        return self._orders.get()

    def tell(self, kind: str, content: Any = None) -> None:
        send(self._descriptor, {"kind": kind, "content": content})

    def records(self, records: Sequence[Record]) -> None:
        self.tell("records", [[type(record).__name__, to_data(record)] for record in records])

    def sweep(self, sweep: int) -> None:
        pass

    def stage(self, sweep: int, case: str, profile: str, stage: str) -> None:
        pass

    def cells(self, cells: Sequence[Cell]) -> None:
        pass  # it has their records

    def say(self, text: str) -> None:
        self.tell("said", text)

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: the end must not be interrupted
    raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Board:
    """What all orders need. `place` ends the names of its processes."""

    plan: Plan
    folder: Path
    link: Link
    pool: WorkerPool
    caches: Caches | None
    watcher: Watcher
    place: str

    def follow(self, order: Mapping[str, Any]) -> None:
        records = [from_data(KINDS[kind], data, kind) for kind, data in order["records"]]
        state = ForwardedState(self.folder, records, self.link.records)
        try:
            answer = {"prepare": self._prepare, "sweep": self._sweep, "explain": self._explain}[order["kind"]](
                order, state
            )
        finally:
            with suppress(OSError):  # whoever gave the orders may be gone
                self._send_files()
        self.link.tell(*answer)

    def _prepare(self, order: Mapping[str, Any], state: RunState) -> tuple[str, Any]:
        """Compile, and load workers for sweeps, so that neither disturbs a measurement, also on another GPU."""
        cells = [_key(cell) for cell in order["cells"]]
        with compiling_ahead(self.plan, state, self.caches, cells, self.link.say, order["sharing"]) as ahead:
            self.pool.load_ahead(order["following"], not_loadable(state.cells.values()))
            ahead.finish()
        return "prepared", ahead.seconds

    def _sweep(self, order: Mapping[str, Any], state: RunState) -> tuple[str, Any]:
        wanted = [_key(cell) for cell in order["wanted"]]
        sweep = Sweep(
            self.plan, order["sweep"], wanted, state, self.pool, self.watcher, self.link, self.place
        )  # fmt: skip
        sweep.complete(order["following"])
        return "done", 0.0

    def _explain(self, order: Mapping[str, Any], state: RunState) -> tuple[str, Any]:
        experiment = self.plan.experiment(order["experiment"])
        return "done", explain(self.plan, [experiment], state, self.caches, self.link.say, order["flush"])

    def _send_files(self) -> None:
        """Send what was added to logs and reports, and empty them; a worker that waits goes on writing to its log."""
        for path in sorted(path for name in FILES for path in (self.folder / name).glob("*") if path.is_file()):
            name = path.relative_to(self.folder).as_posix()
            with path.open("rb") as file:
                piece = file.read(PIECE_BYTES)
                while True:  # once for an empty one too, which a reason may name
                    self.link.tell("file", [name, base64.b64encode(piece).decode()])
                    if not (piece := file.read(PIECE_BYTES)):
                        break
            os.truncate(path, 0)


def main() -> None:
    _detach()
    link = Link(int(sys.argv[1]))
    link.listen()
    try:
        _serve(link)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    except LabError as problem:
        link.tell("refused", str(problem))
    except Exception as problem:
        link.say(traceback.format_exc())
        link.tell("gone", f"its process ended by {type(problem).__name__}")


def _detach() -> None:
    """Go on as a process that is nobody's child, in a session of its own."""
    if os.fork():
        os._exit(0)
    os.setsid()


def _serve(link: Link) -> None:
    order = link.order()
    with scratch_folder() as folder:
        (folder / PLAN_NAME).write_text(order["plan"], encoding="utf-8")
        plan = load_plan(folder)
        with (
            visible_gpu(plan.device) as gpu,
            _own_gpu(plan.device, gpu.identity if gpu else first_visible()),
            Caches(folder) if plan.protocol.fresh_caches else nullcontext() as caches,
            WorkerPool(
                folder, plan.protocol.deadline_seconds, link.say, caches,
                environment={} if plan.device == "cuda" else ONE_THREAD,
            ) as pool,
        ):  # fmt: skip
            machine = fingerprint(plan.device, {})
            link.tell("hello", {
                "host": platform.node(), "model": gpu.model if gpu else machine.cpu, "machine": to_data(machine),
                "source_digest": source_digest(),
            })  # fmt: skip
            board = Board(plan, folder, link, pool, caches, Watcher(gpu), order["place"])
            while True:
                board.follow(link.order())


@contextmanager
def _own_gpu(device: str, identity: str) -> Iterator[None]:
    """As gpu_lock, with patience."""
    give_up = time.monotonic() + LOCK_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(gpu_lock(device, identity))
                break
            except RunError:
                if time.monotonic() >= give_up:
                    raise
                time.sleep(LOOK_SECONDS)
        yield


def _key(cell: Sequence[str]) -> Key:
    experiment, case, profile = cell
    return experiment, case, profile


if __name__ == "__main__":
    main()
