"""The toys of tests/toys, measured by real processes on GPUs that are none: the plan is for a CPU."""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from factory import plan_of
from waiting import is_running

from lab.definition.plan import Plan, Protocol
from lab.evidence import journal
from lab.evidence.record import Cell, Record, SweepStart

TOYS = Path(__file__).parents[1] / "toys"
CASES = 3  # of the experiment `gated`, of two profiles each
CELLS = 2 * CASES


def toys() -> ModuleType:
    """Under a name of their own: `experiments` is the lab's, in this process."""
    spec = importlib.util.spec_from_file_location("toys", TOYS / "experiments" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gated_plan(run_id: str, sweeps: int) -> Plan:
    """A process is held at the second of its cases while there is a file `gate` in its working directory."""
    protocol = Protocol(sweeps=sweeps, rounds=2, fewest_rounds=2, block=3, warmup_seconds=0.01, deadline_seconds=600.0)
    (gated,) = (each for each in toys().EXPERIMENTS if each.name == "gated")
    return plan_of(run_id, device="cpu", experiments=[gated], protocol=protocol)


def records_in(directory: Path) -> tuple[Record, ...]:
    contents = journal.read(directory / journal.NAME)
    assert contents.damages == ()
    return contents.records


def cells_of(records: Sequence[Record]) -> list[Cell]:
    return [record for record in records if isinstance(record, Cell)]


def workers_of(records: Sequence[Record], sweep: int) -> list[int]:
    """The processes that measure a sweep now."""
    processes = [int(r.process.split("-")[1]) for r in records if isinstance(r, SweepStart) and r.sweep == sweep]
    return [process for process in processes if is_running(process)]


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def boards_here(folder: Path) -> list[int]:
    """Processes of lab.supervisor.board that work in a folder."""
    boards = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_running(int(entry.name)):
            try:
                command = (entry / "cmdline").read_bytes()
                if b"lab.supervisor.board" in command and os.readlink(entry / "cwd") == str(folder):
                    boards.append(int(entry.name))
            except OSError:  # it has ended, or is another user's
                continue
    return boards
