"""A real Ray cluster of two nodes, whose GPUs are none: an actor is killed, a node is lost, a run is interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toyshop import CELLS, TOYS, boards_here, cells_of, parent_of, records_in, workers_of
from waiting import is_running, wait_until

from lab.evidence.record import LostGpu, RunFinish
from lab.evidence.source import ROOT
from lab.verdict.judge_run import load_run

pytest.importorskip("ray", reason="ray is not installed; the optional extra 'ray' brings it")


class Disturbed:
    """Run `a` of two sweeps, held at the gate on both nodes: an actor is killed, then the other one's node is lost. Run
    `b`, on the node that is left, is interrupted by Ctrl-C and goes on."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
        try:
            self.nodes = [self.cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2)]
            self.cluster.wait_for_nodes()
            self.lose_an_actor_and_a_node()
            self.interrupt()
            self.too_many = self.start("c", 1, "--gpus", "5").communicate()[1]
        finally:
            self.cluster.shutdown()

    def lose_an_actor_and_a_node(self) -> None:
        gate = self.folder / "gate"
        gate.touch()
        run = self.start("a", sweeps=2)
        self.wait_for_cells(run, "a", CELLS)
        records = self.records("a")
        workers = [worker for sweep in (0, 1) for worker in workers_of(records, sweep)]
        assert len(workers) == 2
        killed, other = self.actors()
        os.kill(killed, signal.SIGKILL)
        self.wait_for_cells(run, "a", 2 * CELLS - 2)
        self.alive_after_the_actor = [worker for worker in workers if is_running(worker)]
        self.losses_of_the_actor = self.losses("a")
        (lost,) = [node for node in self.nodes if raylet_of(node) == parent_of(other)]
        self.cluster.remove_node(lost, allow_graceful=False)
        self.output = run.communicate()[1]
        self.code = run.returncode
        wait_until(lambda: not any(map(is_running, workers)), "a worker of the lost node lives on")
        gate.unlink()

    def interrupt(self) -> None:
        gate = self.folder / "gate"
        gate.touch()
        run = self.start("b", sweeps=1)
        self.wait_for_cells(run, "b", 2)
        workers = workers_of(self.records("b"), 0)
        run.send_signal(signal.SIGINT)
        self.interrupt_output = run.communicate()[1]
        self.interrupt_code = run.returncode
        assert len(workers) == 1
        wait_until(lambda: not is_running(workers[0]), "the worker lives on")
        wait_until(lambda: not boards_here(self.folder), "the process on the GPU lives on")
        self.after_interrupt = self.records("b")
        gate.unlink()
        again = self.start("b", sweeps=1)
        self.resume_output = again.communicate()[1]
        self.resume_code = again.returncode

    def start(self, run_id: str, sweeps: int, *options: str) -> "subprocess.Popen[str]":
        path = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(path), "LAB_PROJECT": str(TOYS),
            "LAB_RUNS": str(self.folder / "runs"),
        }  # fmt: skip
        what = ["--run-id", run_id, "--experiment", "gated", "--device", "cpu", "--sweeps", str(sweeps)]
        where = ["--executor", "ray", "--ray-address", self.cluster.address]
        return subprocess.Popen(
            [sys.executable, "-m", "lab.cli", "run", *what, *where, *options],
            cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_for_cells(self, run: "subprocess.Popen[str]", run_id: str, count: int) -> None:
        wait_until(lambda: run.poll() is not None or len(cells_of(self.records(run_id))) >= count, "no cell")
        assert run.poll() is None, run.communicate()[1]

    def records(self, run_id: str) -> Any:
        return records_in(self.folder / "runs" / run_id)

    def losses(self, run_id: str) -> list[LostGpu]:
        return [record for record in self.records(run_id) if isinstance(record, LostGpu)]

    def actors(self) -> list[int]:
        found = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"ray::Actor")
        ]
        raylets = {raylet_of(node) for node in self.nodes}
        return [process for process in found if parent_of(process) in raylets]


def raylet_of(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    return Disturbed(tmp_path_factory.mktemp("on-ray"))


def test_a_run_is_finished_though_an_actor_was_killed_and_a_node_was_lost(disturbed: Disturbed) -> None:
    assert disturbed.code == 0, disturbed.output
    cells = cells_of(disturbed.records("a"))
    assert len({(cell.sweep, cell.case, cell.profile) for cell in cells}) == len(cells) == 2 * CELLS
    assert {cell.outcome for cell in cells} == {"measured"}
    assert isinstance(disturbed.records("a")[-1], RunFinish)
    assert load_run(disturbed.folder / "runs" / "a").damages == ()


def test_the_journal_says_what_was_lost_and_names_no_host(disturbed: Disturbed) -> None:
    assert len(disturbed.losses_of_the_actor) == 1
    losses = disturbed.losses("a")
    assert len(losses) == 2
    for loss in losses:
        assert loss.reason.startswith("Ray lost it, or its node (")
        assert loss.during in ("sweep 1", "sweep 2")
    assert disturbed.output.count("is lost: Ray lost it, or its node") == 2


def test_what_measures_ends_with_its_actor_and_with_its_node(disturbed: Disturbed) -> None:
    assert len(disturbed.alive_after_the_actor) == 1


def test_ctrl_c_ends_all_on_the_nodes_and_the_same_command_goes_on(disturbed: Disturbed) -> None:
    assert disturbed.interrupt_code == 130
    assert "what was measured is kept, and the same command goes on from there" in disturbed.interrupt_output
    assert "Traceback" not in disturbed.interrupt_output
    assert disturbed.resume_code == 0, disturbed.resume_output
    assert "resuming: 2 cells are measured" in disturbed.resume_output
    records = disturbed.records("b")
    assert records[: len(disturbed.after_interrupt)] == disturbed.after_interrupt
    assert len(cells_of(records)) == CELLS


def test_more_gpus_than_the_cluster_has_are_refused(disturbed: Disturbed) -> None:
    assert "the Ray cluster has 1 GPU, and this run asks for 5" in disturbed.too_many
