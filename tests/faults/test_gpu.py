"""Faults that only a GPU can have, through the real supervisor: each costs its own cell, and nothing else."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import fake_ncu
import pytest
from factory import plan_of

from lab.definition.plan import Plan, Protocol
from lab.evidence import journal
from lab.evidence.record import Cell, Counters, Record, RunFinish, Watch
from lab.supervisor.run import run

FOLDER = Path(__file__).parent / "gpu"
QUICK = Protocol(
    sweeps=1, rounds=3, fewest_rounds=3, block=5, warmup_seconds=0.02, deadline_seconds=20.0, crashes=2
)  # fmt: skip
# A neighbour that leaves the GPU no rest, until nobody reads from it.
NEIGHBOUR = """
import torch
x = torch.randn(4096, 4096, device="cuda")
while True:
    for _ in range(20):
        y = x @ x
    torch.cuda.synchronize()
    print("busy", flush=True)
"""
# Starts a program and ends. The program then descends from nobody here; what descends from the lab is no neighbour.
ORPHAN = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True).pid, flush=True)
"""
pytestmark = pytest.mark.gpu


def _load() -> ModuleType:
    """The experiments under a name of their own: `experiments` is the lab's, in this process."""
    spec = importlib.util.spec_from_file_location("gpu_faults", FOLDER / "experiments" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plan(name: str, profiling: bool = False) -> Plan:
    experiments = [each for each in _load().EXPERIMENTS if each.name == name]
    return plan_of("faulty", device="cuda", include=(), experiments=experiments, protocol=QUICK, profiling=profiling)


def measure(plan: Plan, directory: Path) -> tuple[Record, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_PROJECT", str(FOLDER))
        patch.chdir(directory.parent)
        run(plan, directory, print)
    contents = journal.read(directory / journal.NAME)
    assert contents.damages == ()
    assert isinstance(contents.records[-1], RunFinish)
    return contents.records


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cell]:
    records = measure(plan("gpu-faults"), tmp_path_factory.mktemp("gpu") / "faulty")
    return {record.profile: record for record in records if isinstance(record, Cell)}


@pytest.mark.parametrize(
    ("profile", "outcomes", "reason"),
    [
        ("one", {"measured"}, ""),
        ("two", {"measured"}, ""),
        ("needs-too-much", {"failed"}, "out of memory"),
        ("reads-out-of-bounds", {"crashed", "failed"}, ""),
        ("never-ends", {"crashed"}, "no sign of life"),
    ],
)
def test_a_fault_on_the_gpu_costs_its_own_cell_only(
    faulty: dict[str, Cell], profile: str, outcomes: set[str], reason: str
) -> None:
    assert faulty[profile].outcome in outcomes, faulty[profile].reason
    assert reason in faulty[profile].reason


@pytest.fixture
def neighbour() -> Iterator[None]:
    starter = subprocess.Popen([sys.executable, "-c", ORPHAN, NEIGHBOUR], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    orphan = int(starter.stdout.readline())
    try:
        starter.wait()
        assert starter.stdout.readline() == "busy\n"
        yield
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.usefixtures("neighbour")
def test_a_neighbour_on_the_gpu_spoils_rounds(tmp_path: Path) -> None:
    watches = [record for record in measure(plan("quiet"), tmp_path / "faulty") if isinstance(record, Watch)]
    seen = [each.foreign_processes for watch in watches for each in watch.rounds]
    if not any(number is not None for number in seen):
        pytest.skip("the driver does not show the processes of others here")
    assert any(seen)


def test_a_profiler_that_is_killed_costs_the_counters_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    fake_ncu.install(tmp_path / "bin", "os.kill(os.getpid(), 9)")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    records = measure(plan("quiet", profiling=True), tmp_path / "faulty")
    assert {record.outcome for record in records if isinstance(record, Cell)} == {"measured"}
    assert {(record.outcome, record.blocker) for record in records if isinstance(record, Counters)} == {
        ("blocked", "crash")
    }
