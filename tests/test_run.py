"""The supervisor with real worker processes: whatever dies, what was measured stays."""

import dataclasses
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from factory import machine, plan_of, records_of, write_run

from lab import journal
from lab.errors import RunError
from lab.plan import Plan, Protocol
from lab.record import Cell, Counters, Record, RunFinish, RunStart, SweepStart
from lab.run import run

TOYS = Path(__file__).parent / "toys"
QUICK = Protocol(
    sweeps=1, rounds=2, fewest_rounds=2, block=3, warmup_seconds=0.01, deadline_seconds=12.0
)  # fmt: skip


def _load_toys() -> ModuleType:
    """The toys under a name of their own: `experiments` is the lab's, in this process."""
    found = importlib.util.spec_from_file_location("toys", TOYS / "experiments" / "__init__.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


toys = _load_toys()


def toy_plan(name: str, run_id: str = "toy", protocol: Protocol = QUICK, profiling: bool = False) -> Plan:
    experiment = next(experiment for experiment in toys.EXPERIMENTS if experiment.name == name)
    return plan_of(run_id, device="cpu", experiments=[experiment], protocol=protocol, profiling=profiling)


def with_toys(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let workers find the toys as `experiments`."""
    patch.setenv("PYTHONPATH", str(TOYS))
    patch.chdir(folder)


def measure(plan: Plan, directory: Path) -> tuple[Record, ...]:
    run(plan, directory, lambda text: None)
    held = journal.read(directory / journal.NAME)
    assert held.damages == ()
    return held.records


def cells_of(records: tuple[Record, ...]) -> list[Cell]:
    return [record for record in records if isinstance(record, Cell)]


@pytest.fixture
def toyshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_toys(monkeypatch, tmp_path)
    return tmp_path


# One profile's fault is one cell's loss


@pytest.fixture(scope="module")
def mischief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Record, ...]]:
    """The journal of one sweep in which nearly every profile misbehaves in its own way."""
    folder = tmp_path_factory.mktemp("mischief")
    with pytest.MonkeyPatch.context() as patch:
        with_toys(patch, folder)
        yield measure(toy_plan("mischief"), folder / "toy")


@pytest.mark.parametrize(
    ("profile", "outcome", "reason"),
    [
        ("good", "measured", ""),
        ("chatty", "measured", ""),
        ("spoils-its-input", "wrong", "an input was changed by the call"),
        ("crashes", "failed", r"the worker was killed by SIGSEGV \(check\); see logs/sweep-0.log"),
        ("crashes-when-timed", "failed", r"the worker was killed by SIGSEGV \(time\); see logs/sweep-0.log"),
        ("hangs", "failed", r"the worker gave no sign of life for 12 s \(check\); see logs/sweep-0.log"),
        ("leaves", "failed", r"the worker ended with code 3 \(check\); see logs/sweep-0.log"),
        ("refuses", "failed", r"ValueError: not today, said \(path\)"),
        ("wrong", "wrong", "the error is .* times the tolerance"),
        ("wrong-when-timed", "wrong", "a timed output was wrong: the error is .* times the tolerance"),
        ("no-tensor", "wrong", "the result is a Report, not a plain tensor"),
        ("needs-a-gpu", "skipped", "needs a CUDA GPU, and this run measures the CPU"),
        ("needs-a-package", "skipped", "no_such_package_anywhere is not installed; .*"),
    ],
)
def test_each_fault_costs_its_own_cell_only_and_says_why(
    mischief: tuple[Record, ...], profile: str, outcome: str, reason: str
) -> None:
    (cell,) = [cell for cell in cells_of(mischief) if cell.profile == profile]
    assert cell.outcome == outcome
    assert re.fullmatch(reason, cell.reason), cell.reason
    assert bool(cell.timings) is (outcome == "measured")


def test_a_run_full_of_faults_is_finished_with_a_record_for_every_cell(mischief: tuple[Record, ...]) -> None:
    assert isinstance(mischief[0], RunStart)
    assert isinstance(mischief[-1], RunFinish)
    assert Counter(cell.profile for cell in cells_of(mischief)) == {p.name: 1 for p in toys.MISCHIEF.profiles}


def test_the_good_profiles_are_timed_by_one_process(mischief: tuple[Record, ...]) -> None:
    processes = {cell.process for cell in cells_of(mischief) if cell.outcome == "measured"}
    assert len(processes) == 1
    assert processes < {record.process for record in mischief if isinstance(record, SweepStart)}


def test_samples_are_taken_as_the_protocol_says(mischief: tuple[Record, ...]) -> None:
    (cell,) = [cell for cell in cells_of(mischief) if cell.profile == "good"]
    assert [len(block) for block in cell.timings[0].rounds] == [3, 3]
    assert cell.correctness is not None
    assert len(set(cell.correctness.seeds)) == 3


def test_a_case_whose_inputs_cannot_be_made_costs_its_own_cells_only(toyshop: Path) -> None:
    outcomes = {
        (c.case, c.profile): (c.outcome, c.reason) for c in cells_of(measure(toy_plan("no-room"), toyshop / "r"))
    }
    for profile in ("one", "two"):
        assert outcomes["lost-64x64-float32", profile] == ("failed", "inputs: MemoryError: no room for the inputs")
        assert outcomes["doubling-64x64-float32", profile] == ("measured", "")


def test_a_worker_that_dies_before_it_measures_ends_the_run_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments.py").write_text("raise ImportError('a broken experiment')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RunError, match=r"(?s)ended with code 1 before it measured .*ImportError: a broken experiment"):
        run(toy_plan("steady"), tmp_path / "toy", lambda text: None)


def test_a_stranger_called_experiments_where_the_user_stands_is_not_run(toyshop: Path) -> None:
    toyshop.mkdir(exist_ok=True)
    (toyshop / "experiments.py").write_text("raise ImportError('not the lab')\n")
    found = cells_of(measure(toy_plan("steady"), toyshop / "r"))
    assert {cell.outcome for cell in found} == {"measured"}


# Interrupted and resumed


class Interrupted:
    """One run that is interrupted by Ctrl-C, goes on, is killed, and goes on to its end; what was seen on the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / "runs" / "broken-off"
        self.plan = ["--run-id", "broken-off", "--experiment", "steady", "--device", "cpu", "--sweeps", "3"]
        first = self._start()
        self._wait_for_cells(1)
        with pytest.raises(RunError) as refusal:
            run(toy_plan("steady"), self.directory, lambda text: None)
        self.told_to_a_second = str(refusal.value)
        os.kill(first.pid, signal.SIGINT)
        self.told_on_interrupt = first.communicate(timeout=30)[1]
        self.code_on_interrupt = first.returncode
        self.after_interrupt = self._journal()
        again = self._start()
        self._wait_for_cells(len(cells_of(self.after_interrupt.records)) + 1)
        os.kill(again.pid, signal.SIGKILL)
        again.communicate(timeout=30)
        self.after_kill = self._journal()
        last = self._start()
        self.told_on_resume = last.communicate(timeout=120)[1]
        self.code_at_last = last.returncode
        self.at_last = self._journal()
        self.bytes_at_last = (self.directory / journal.NAME).read_bytes()
        repeated = self._start()
        self.told_on_repeat = repeated.communicate(timeout=60)[1]
        self.code_on_repeat = repeated.returncode

    def _start(self) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": str(TOYS), "LAB_RUNS": str(self.folder / "runs")}
        return subprocess.Popen(
            [sys.executable, "-m", "lab.cli", "run", *self.plan],
            cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _journal(self) -> journal.Journal:
        return journal.read(self.directory / journal.NAME)

    def _wait_for_cells(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(cells_of(self._journal().records)) < count:
            assert time.monotonic() < deadline, "no cell was measured within a minute"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    return Interrupted(tmp_path_factory.mktemp("interrupted"))


def test_ctrl_c_keeps_what_is_measured_and_says_so(interrupted: Interrupted) -> None:
    assert interrupted.code_on_interrupt == 130
    assert "what was measured is kept, and the same command goes on from there" in interrupted.told_on_interrupt
    assert "Traceback" not in interrupted.told_on_interrupt
    assert cells_of(interrupted.after_interrupt.records)
    assert not [r for r in interrupted.after_interrupt.records if isinstance(r, RunFinish)]


def test_a_second_process_in_the_same_run_directory_is_refused(interrupted: Interrupted) -> None:
    assert "another process is measuring this run" in interrupted.told_to_a_second


def test_a_killed_supervisor_loses_nothing_that_was_recorded(interrupted: Interrupted) -> None:
    before = interrupted.after_interrupt.records
    assert interrupted.after_kill.records[: len(before)] == before
    assert len(interrupted.after_kill.records) > len(before)


def test_the_same_command_resumes_with_what_is_missing(interrupted: Interrupted) -> None:
    done = len(cells_of(interrupted.after_kill.records))
    assert f"resuming: {done} of 6 cells are measured" in interrupted.told_on_resume
    assert interrupted.code_at_last == 0
    records = interrupted.at_last.records
    assert records[: len(interrupted.after_kill.records)] == interrupted.after_kill.records
    assert {(c.sweep, c.profile) for c in cells_of(records)} == {(s, p) for s in range(3) for p in ("one", "two")}
    assert len(cells_of(records)) == 6
    assert {c.outcome for c in cells_of(records)} == {"measured"}
    assert isinstance(records[-1], RunFinish)
    assert interrupted.at_last.damages == ()


def test_a_finished_run_is_refused_and_left_as_it_is(interrupted: Interrupted) -> None:
    assert interrupted.code_on_repeat == 2
    assert "run 'broken-off' is finished and will not be overwritten: choose another" in interrupted.told_on_repeat
    assert (interrupted.directory / journal.NAME).read_bytes() == interrupted.bytes_at_last


def test_no_worker_outlives_its_supervisor(interrupted: Interrupted) -> None:
    workers = {int(r.process.split("-")[1]) for r in interrupted.at_last.records if isinstance(r, SweepStart)}
    assert len(workers) >= 3
    assert not {worker for worker in workers if is_running(worker)}


def is_running(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"  # a dead child that nobody asked about
    except (FileNotFoundError, ProcessLookupError):
        return False


# What may be resumed. No worker is needed where no cell is missing.

TIMES = {"one": 1e-3, "two": 1e-3}


def begun(directory: Path, plan: Plan, keep: Callable[[Record], bool] = lambda record: True, **how: object) -> Path:
    """A run whose cells are all measured, but which is not finished."""
    records = records_of(plan, TIMES, **({"finished": False} | how))  # type: ignore[arg-type]
    return write_run(directory, plan, filter(keep, records))


def test_a_run_with_every_cell_is_finished_without_another_measurement(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    records = measure(plan, begun(tmp_path / "toy", plan))
    assert len(cells_of(records)) == 2
    assert isinstance(records[-1], RunFinish)


def test_a_torn_last_line_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan)
    with (directory / journal.NAME).open("a") as file:
        file.write('0123456789abcdef {"kind":"Cell","rec')
    assert isinstance(measure(plan, directory)[-1], RunFinish)


def test_a_directory_that_holds_a_plan_only_is_begun_anew(tmp_path: Path) -> None:
    """Killed between the plan and the first line of the journal."""
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan, keep=lambda record: False)
    other = toy_plan("steady", profiling=True, protocol=dataclasses.replace(QUICK, sweeps=0))
    records = measure(other, directory)
    assert isinstance(records[0], RunStart)
    assert records[0].plan_digest == other.digest


def refused(plan: Plan, directory: Path) -> str:
    before = (directory / journal.NAME).read_bytes()
    with pytest.raises(RunError) as refusal:
        run(plan, directory, lambda text: None)
    assert (directory / journal.NAME).read_bytes() == before
    return str(refusal.value)


def test_a_changed_plan_is_refused_and_says_what_changed(tmp_path: Path) -> None:
    directory = begun(tmp_path / "toy", toy_plan("steady"))
    told = refused(toy_plan("steady", protocol=dataclasses.replace(QUICK, block=5), profiling=True), directory)
    assert "this unfinished run was registered otherwise" in told
    assert "profiling (False → True)" in told
    assert "protocol.block (3 → 5)" in told


def test_a_changed_claim_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan)
    (experiment,) = plan.experiments
    weaker = dataclasses.replace(experiment.claims[0], threshold=1.5)
    other = dataclasses.replace(plan, experiments=(dataclasses.replace(experiment, claims=(weaker,)),))
    assert "experiments[0].claims[0].threshold (1.02 → 1.5)" in refused(other, directory)


def test_changed_code_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan, source="0" * 64)
    assert "changed: the source in lab/ or experiments/" in refused(plan, directory)


def test_a_plan_file_that_the_journal_did_not_begin_with_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan)
    other = toy_plan("steady", run_id="other")
    write_run(tmp_path / "other", other, ())
    (directory / "plan.json").write_bytes((tmp_path / "other" / "plan.json").read_bytes())
    assert "plan.json is not the plan that the journal began with" in refused(other, directory)


def test_a_damaged_journal_is_not_continued(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan)
    path = directory / journal.NAME
    path.write_bytes(path.read_bytes().replace(b'"outcome":"measured"', b'"outcome":"Measured"', 1))
    assert re.search(r"journal\.jsonl: line 3: checksum does not match", refused(plan, directory))


def test_a_run_is_not_continued_on_another_machine(toyshop: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(
        toyshop / "toy", plan,
        keep=lambda record: not (isinstance(record, Cell) and record.profile == "two"),
        on=machine("cpu", cpu="Another Processor", driver="1.2.3"),
    )  # fmt: skip
    told = refused(plan, directory)
    assert "this is not the machine that the run began on" in told
    assert "cpu was 'Another Processor'" in told
    assert "driver was '1.2.3', is ''" in told


# Counters


def no_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.nsight.ncu_path", lambda: "")


def counters_of(records: tuple[Record, ...]) -> list[Counters]:
    return [record for record in records if isinstance(record, Counters)]


def test_a_run_goes_on_where_counters_are_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_ncu(monkeypatch)
    plan = toy_plan("steady", profiling=True)
    said: list[str] = []
    directory = begun(tmp_path / "toy", plan, keep=lambda record: not isinstance(record, Counters))
    run(plan, directory, said.append)
    records = journal.read(directory / journal.NAME).records
    assert [(c.profile, c.outcome) for c in counters_of(records)] == [("one", "blocked"), ("two", "blocked")]
    assert isinstance(records[-1], RunFinish)
    assert any(line.startswith("  counters: blocked: counters are a GPU's") for line in said)


def test_counters_that_were_cut_off_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_ncu(monkeypatch)
    plan = toy_plan("steady", profiling=True)
    directory = begun(
        tmp_path / "toy", plan, keep=lambda record: not (isinstance(record, Counters) and record.profile == "two")
    )
    assert [(c.profile, c.outcome) for c in counters_of(measure(plan, directory))] == [
        ("one", "measured"), ("two", "blocked"),
    ]  # fmt: skip


def test_counters_that_are_there_are_not_captured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_ncu(monkeypatch)
    plan = toy_plan("steady", profiling=True)
    records = measure(plan, begun(tmp_path / "toy", plan))
    assert [c.outcome for c in counters_of(records)] == ["measured", "measured"]


def test_source_that_changes_while_the_run_goes_on_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toyshop: Path
) -> None:
    told = iter(["a" * 64])
    monkeypatch.setattr("lab.run.source_digest", lambda: next(told, "b" * 64))
    with pytest.raises(RunError, match="was changed while the run went on"):
        run(toy_plan("steady"), toyshop / "edited", lambda text: None)
    assert not [r for r in journal.read(toyshop / "edited" / journal.NAME).records if isinstance(r, Cell)]
