"""Two real processes that stand for the GPUs of a host: one is killed, a worker is killed, and the run interrupted."""

import argparse
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import small_caches
from toyshop import CELLS, TOYS, boards_here, cells_of, gated_plan, parent_of, records_in, workers_of
from waiting import is_running, wait_until, wait_until_ended

from lab.cluster.board_process import BoardProcess
from lab.cluster.choice import crew_of
from lab.cluster.link import GpuGone
from lab.cluster.local import LocalCrew, gpus_of_this_host
from lab.cluster.on_ray import RayCrew
from lab.cluster.run import run_on_several
from lab.commands.plan_of_options import device_of
from lab.errors import MissingPackage, PlanError, RunError
from lab.evidence.record import CHOSEN_BY, LostGpu, Record, RunFinish, SweepStart
from lab.evidence.source import child_environment
from lab.options import add_gpu_options
from lab.verdict.judge_run import load_run


class Disturbed:
    """A run of two sweeps of three cases on two GPUs. Each holds a process at the gate: one sweep 1, the other sweep 2.
    The worker of sweep 1 is killed; then the process on the GPU that measures sweep 2; then the run is interrupted. It
    goes on without the gate."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "r"
        self.folder = folder
        self.workers: list[int] = []
        self.board = 0
        self.said: list[str] = []
        gate = folder / "gate"
        gate.touch()
        plan = gated_plan("r", sweeps=2)
        with pytest.raises(KeyboardInterrupt):
            run_on_several(plan, self.directory, LocalCrew(["0", "1"]), self._disturb)
        self.left = [process for process in self.workers if is_running(process)] + boards_here(folder)
        self.after_interrupt = records_in(self.directory)
        gate.unlink()
        run_on_several(plan, self.directory, LocalCrew(["0"]), self.said.append)
        self.at_last = records_in(self.directory)

    def _disturb(self, text: str) -> None:
        self.said.append(text)
        if f"[{CELLS}/" in text:
            records = records_in(self.directory)
            (first,), (second,) = (workers_of(records, sweep) for sweep in (0, 1))
            self.workers += [first, second]
            self.board = parent_of(second)
            os.kill(first, signal.SIGKILL)
        elif f"[{2 * CELLS - 2}/" in text:
            os.kill(self.board, signal.SIGKILL)
        elif "is lost" in text:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    folder = tmp_path_factory.mktemp("disturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_PROJECT", str(TOYS))
        patch.setenv("PYTHONPATH", small_caches.PYTHONPATH)
        patch.chdir(folder)
        return Disturbed(folder)


def counted(records: tuple[Record, ...]) -> Counter[tuple[int, str, str]]:
    return Counter((cell.sweep, cell.case, cell.profile) for cell in cells_of(records))


def test_every_cell_is_measured_once_in_the_end(disturbed: Disturbed) -> None:
    assert len(counted(disturbed.at_last)) == 2 * CELLS
    assert set(counted(disturbed.at_last).values()) == {1}
    assert {cell.outcome for cell in cells_of(disturbed.at_last)} == {"measured"}
    assert isinstance(disturbed.at_last[-1], RunFinish)
    assert load_run(disturbed.directory).damages == ()


def test_a_worker_that_is_killed_costs_no_cell(disturbed: Disturbed) -> None:
    starts = [r for r in disturbed.after_interrupt if isinstance(r, SweepStart) and r.sweep == 0]
    assert len(starts) == 3  # two parts, and one of them again
    assert len([cell for cell in cells_of(disturbed.after_interrupt) if cell.sweep == 0]) == CELLS


def test_a_gpu_whose_process_is_killed_is_on_record_and_takes_its_worker_with_it(disturbed: Disturbed) -> None:
    (loss,) = [record for record in disturbed.after_interrupt if isinstance(record, LostGpu)]
    assert (loss.during, loss.reason) == ("sweep 2", "its process ended, or was killed")
    assert len(cells_of(disturbed.after_interrupt)) == 2 * CELLS - 2


def test_after_ctrl_c_no_process_is_left(disturbed: Disturbed) -> None:
    assert disturbed.workers
    assert disturbed.left == []


def test_an_interrupted_run_loses_nothing_and_goes_on(disturbed: Disturbed) -> None:
    before = disturbed.after_interrupt
    assert disturbed.at_last[: len(before)] == before
    assert f"resuming: {2 * CELLS - 2} cells are measured" in disturbed.said


def test_every_process_has_a_gpu_and_a_name_of_its_own(disturbed: Disturbed) -> None:
    starts = [record for record in disturbed.after_interrupt if isinstance(record, SweepStart)]
    assert {start.machine.environment[CHOSEN_BY] for start in starts} == {"0", "1"}
    assert len({start.process for start in starts}) == len(starts)
    sides: dict[tuple[int, str], set[str]] = {}
    for cell in cells_of(disturbed.at_last):
        sides.setdefault((cell.sweep, cell.case), set()).add(cell.process)
    assert {len(processes) for processes in sides.values()} == {1}


def test_logs_of_all_gpus_come_to_the_runs_directory(disturbed: Disturbed) -> None:
    assert {path.name for path in (disturbed.directory / "logs").iterdir()} == {"sweep-0.log", "sweep-1.log"}


def test_the_process_on_a_gpu_ends_when_whoever_gives_its_orders_is_gone(tmp_path: Path) -> None:
    """Also while it does nothing. Its starter has ended, so no signal to a process group reaches it."""
    board = BoardProcess({**child_environment(), "LAB_PROJECT": str(TOYS)}, tmp_path)
    wait_until(lambda: boards_here(tmp_path), "it did not start")
    (process,) = boards_here(tmp_path)
    board.end()
    wait_until_ended(process)
    assert board.wait_until_ended(60.0)
    with pytest.raises(GpuGone):
        list(board.ask({"kind": "sweep"}))


# Options


@pytest.mark.parametrize(
    ("options", "device", "refusal"),
    [
        (["--gpus", "0"], "cuda", "--gpus 0: accepted are 1 and more"),
        (["--gpus", "2"], "cpu", "--gpus 2: this run measures the CPU"),
        (["--ray-address", "auto"], "cuda", "--ray-address auto: is for --executor ray"),
        (["--in-turn"], "cuda", "--in-turn is for a run on several GPUs; ask for them by --gpus K or --executor ray"),
        (["--gpu-model", "H100", "--gpus", "1"], "cuda", "--gpu-model is for a run on several GPUs"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: list[str], device: str, refusal: str) -> None:
    with pytest.raises(PlanError, match=refusal):
        crew_of(parsed(options), device)


@pytest.mark.parametrize("options", [[], ["--gpus", "1"], ["--executor", "local"]])
def test_one_gpu_needs_no_crew(options: list[str]) -> None:
    assert crew_of(parsed(options), "cuda") is None


def test_ray_takes_all_that_is_free_or_as_many_as_asked() -> None:
    assert isinstance(crew_of(parsed(["--executor", "ray", "--gpus", "3"]), "cuda"), RayCrew)


@pytest.mark.parametrize(("asked", "device"), [("auto", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_a_host_without_a_gpu_plans_for_a_clusters(monkeypatch: pytest.MonkeyPatch, asked: str, device: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    options = parsed(["--executor", "ray"])
    options.device = asked
    assert device_of(options) == device


def test_ray_that_is_not_installed_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match="ray is not installed; the optional extra 'ray' brings it"):
        RayCrew("", None).__enter__()


def test_gpus_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN_BY, "3, 5,GPU-ab")
    assert gpus_of_this_host(2) == ["3", "5"]
    with pytest.raises(RunError, match="--gpus 4: this host has 3 GPUs in CUDA_VISIBLE_DEVICES"):
        gpus_of_this_host(4)
    monkeypatch.delenv(CHOSEN_BY)
    monkeypatch.setattr("lab.cluster.local.gpu_names", lambda: ("NVIDIA H100",) * 4)
    crew = crew_of(parsed(["--gpus", "4"]), "cuda")
    assert isinstance(crew, LocalCrew)
    assert crew.size == 4


def parsed(options: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_gpu_options(parser)
    return parser.parse_args(options)
