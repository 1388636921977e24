"""The supervisor with real worker processes: what was measured survives crashes and kills."""

import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import fake_ncu
import pytest
import small_caches
from factory import machine, plan_of, records_of, write_run
from fake_ncu import Ncu
from waiting import clock_that_runs_while, is_running, wait_until, wait_until_ended
from warm_workers import Fork, Forks

from lab.definition.plan import Plan, Protocol
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.machine import fingerprint
from lab.evidence.record import (
    Cell,
    Control,
    Counters,
    Reading,
    Record,
    RunFinish,
    RunStart,
    SweepFinish,
    SweepStart,
    Watch,
)
from lab.evidence.source import source_digest, timed_digest
from lab.supervisor.run import run
from lab.supervisor.worker_process import LOG_BYTES

pytestmark = pytest.mark.usefixtures("warm_workers")
TOYS = Path(__file__).parents[1] / "toys"
QUICK = Protocol(
    sweeps=1, rounds=2, fewest_rounds=2, block=3, warmup_seconds=0.01, deadline_seconds=600.0, crashes=2
)  # fmt: skip


def _load_toys() -> ModuleType:
    """The toys under a name of their own: `experiments` is the lab's, in this process."""
    spec = importlib.util.spec_from_file_location("toys", TOYS / "experiments" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


toys = _load_toys()


def toy_plan(*names: str, run_id: str = "toy", protocol: Protocol = QUICK, profiling: bool = False) -> Plan:
    experiments = [experiment for experiment in toys.EXPERIMENTS if experiment.name in names]
    return plan_of(run_id, device="cpu", experiments=experiments, protocol=protocol, profiling=profiling)


def with_toys(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let workers find the toys as `experiments`."""
    patch.setenv("LAB_PROJECT", str(TOYS))
    patch.chdir(folder)


def measure(plan: Plan, directory: Path) -> tuple[Record, ...]:
    run(plan, directory, lambda text: None)
    contents = journal.read(directory / journal.NAME)
    assert contents.damages == ()
    return contents.records


def cells_of(records: tuple[Record, ...]) -> list[Cell]:
    return [record for record in records if isinstance(record, Cell)]


@pytest.fixture
def toyshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_toys(monkeypatch, tmp_path)
    return tmp_path


# One profile's fault is one cell's loss


@pytest.fixture(scope="module")
def mischief_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mischief") / "toy"


@pytest.fixture(scope="module")
def mischief(mischief_directory: Path) -> Iterator[tuple[Record, ...]]:
    """The journal of one sweep in which nearly every profile misbehaves in its own way."""
    folder = mischief_directory.parent
    with pytest.MonkeyPatch.context() as patch:
        with_toys(patch, folder)
        patch.setattr("lab.process.channel.monotonic", clock_that_runs_while(folder / toys.HANGING_PROCESSES))
        yield measure(toy_plan("mischief"), mischief_directory)


@pytest.mark.parametrize(
    ("profile", "outcome", "reason"),
    [
        ("good", "measured", ""),
        ("chatty", "measured", ""),
        ("floods", "measured", ""),
        ("spoils-its-input", "wrong", "an input was changed by the call"),
        ("crashes", "crashed", r"the worker was killed by SIGSEGV \(check\); see logs/sweep-0.log"),
        ("crashes-when-timed", "crashed", r"the worker was killed by SIGSEGV \(time\); see logs/sweep-0.log"),
        ("hangs-deaf-to-sigterm", "crashed", r"the worker gave no sign of life for 600 s \(check\); see logs/.*"),
        ("leaves", "crashed", r"the worker ended with code 3 \(check\); see logs/sweep-0.log"),
        ("garbles", "crashed", r"the worker announced a frame of \d+ bytes: this breaks the protocol .*"),
        (
            "needs-too-much",
            "failed",
            r"OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 TiB. \(__init__.py, line \d+\)",
        ),
        ("refuses", "failed", r"ValueError: not today, said \(path\) \(__init__.py, line \d+\)"),
        ("wrong", "wrong", "the error is .* times the tolerance; at .*"),
        ("wrong-when-timed", "wrong", "a timed output was wrong: the error is .* times the tolerance; at .*"),
        ("no-tensor", "wrong", "the result is a ReportTensor, not a plain tensor"),
        ("needs-a-gpu", "skipped", "needs a CUDA GPU, and this run measures the CPU"),
        ("needs-a-package", "skipped", "no_such_package_anywhere is not installed"),
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
    assert mischief[-1].wall_seconds is not None
    assert mischief[-1].wall_seconds > 0
    assert Counter(cell.profile for cell in cells_of(mischief)) == {p.name: 1 for p in toys.MISCHIEF.profiles}


def test_the_good_profiles_are_timed_by_one_process(mischief: tuple[Record, ...]) -> None:
    processes = {cell.process for cell in cells_of(mischief) if cell.outcome == "measured"}
    assert len(processes) == 1
    assert processes < {record.process for record in mischief if isinstance(record, SweepStart)}


def test_a_flood_of_output_leaves_a_small_log(mischief_directory: Path, mischief: tuple[Record, ...]) -> None:
    log = mischief_directory / "logs" / "sweep-0.log"
    assert LOG_BYTES < log.stat().st_size < LOG_BYTES + 1000


def test_every_timed_round_is_watched_and_every_process_says_where_its_time_went(
    mischief: tuple[Record, ...],
) -> None:
    timed = {cell.process for cell in cells_of(mischief) if cell.outcome == "measured"}
    (watch,) = [record for record in mischief if isinstance(record, Watch)]
    assert {watch.process} == timed
    assert [(r.polls, r.foreign_processes, r.violation_seconds) for r in watch.rounds] == [(0, None, {})] * 2
    assert all(r.seconds > 0 for r in watch.rounds)
    assert {r.process for r in mischief if isinstance(r, SweepFinish)} == timed
    assert {(r.profile, r.process) for r in mischief if isinstance(r, Control)} == {("chatty", *timed)}


def test_samples_are_taken_as_the_protocol_says(mischief: tuple[Record, ...]) -> None:
    (cell,) = [cell for cell in cells_of(mischief) if cell.profile == "good"]
    assert [len(block) for block in cell.timings[0].rounds] == [3, 3]
    assert cell.correctness is not None
    assert len(set(cell.correctness.seeds)) == 3


# More faults, all in one run


class Faults:
    """A run of several experiments with faults: its records, its live display, and the folder that it ran in."""

    def __init__(self, folder: Path) -> None:
        self.folder, live = folder, io.StringIO()
        plan = toy_plan("no-room", "forged", "forking", "flooding", "leaving", "killed")
        with contextlib.redirect_stderr(live):
            run(plan, folder / "r", lambda text: None)
        self.live = live.getvalue()
        self.records = journal.read(folder / "r" / journal.NAME).records

    def cells(self, experiment: str) -> dict[str, Cell]:
        """By profile, in the one case that can be measured."""
        cells = [cell for cell in cells_of(self.records) if cell.experiment == experiment]
        return {cell.profile: cell for cell in cells if cell.case == "doubling-64x64-float32"}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        with_toys(patch, folder)
        patch.setattr("lab.supervisor.worker_process.FLOOD_BYTES", 2 * LOG_BYTES)
        yield Faults(folder)


def test_a_case_whose_inputs_cannot_be_made_costs_its_own_cells_only(faults: Faults) -> None:
    cells = [cell for cell in cells_of(faults.records) if cell.experiment == "no-room"]
    outcomes = {(cell.case, cell.profile): (cell.outcome, cell.reason) for cell in cells}
    for profile in ("one", "two"):
        outcome, reason = outcomes["lost-64x64-float32", profile]
        assert outcome == "failed"
        assert re.fullmatch(r"inputs: MemoryError: no room for the inputs \(__init__.py, line \d+\)", reason)
        assert outcomes["doubling-64x64-float32", profile] == ("measured", "")


def test_a_profile_that_writes_records_of_its_own_is_blamed_and_none_of_them_is_kept(faults: Faults) -> None:
    cells = faults.cells("forged")
    for profile in ("forges", "forges-when-timed"):
        assert cells[profile].outcome == "crashed"
        assert re.match(r"the worker sent .*: this breaks the protocol \(", cells[profile].reason)
    assert {cells[name].outcome for name in ("one", "two")} == {"measured"}
    assert len({cells[name].process for name in ("one", "two")}) == 1


def test_a_crash_is_seen_at_once_though_a_child_of_the_worker_holds_its_pipe(faults: Faults) -> None:
    cells = faults.cells("forking")
    assert cells["forks-and-crashes"].reason.startswith("the worker was killed by SIGSEGV (check)")
    assert (cells["one"].outcome, cells["two"].outcome) == ("measured", "measured")


def test_a_flood_of_output_is_cut_while_it_goes_on(faults: Faults) -> None:
    assert {cell.outcome for cell in faults.cells("flooding").values()} == {"measured"}


def test_what_a_profile_started_in_sessions_of_their_own_ends_with_its_worker(faults: Faults) -> None:
    assert faults.cells("leaving")["leaves-a-session"].outcome == "measured"
    left = (faults.folder / "left").read_text().split()
    assert len(left) == 2
    assert not [process for process in left if is_running(int(process))]


def test_a_cell_whose_worker_somebody_else_killed_is_measured_once_more(faults: Faults) -> None:
    assert (faults.folder / "killed").exists()
    cells = faults.cells("killed")
    assert cells["killed-once"].outcome == "measured"
    killed = "the worker was killed by SIGKILL"
    assert f"\n{killed} at doubling-64x64-float32 with killed-once (check). Another process, or" in faults.live
    # One that is killed twice is blamed: who sent the signal cannot be told.
    assert cells["kills-itself"].outcome == "crashed"
    assert cells["kills-itself"].reason.startswith(f"{killed} (check)")


def test_a_worker_that_dies_before_it_measures_ends_the_run_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "broken.py").write_text("raise ImportError('a broken experiment')\n")
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    with pytest.raises(RunError, match=r"(?s)ended with code 1 before it measured .*ImportError: a broken experiment"):
        run(toy_plan("steady"), tmp_path / "toy", lambda text: None)


def test_a_profile_that_crashes_its_process_twice_is_not_run_again(toyshop: Path) -> None:
    said: list[str] = []
    plan = toy_plan("fragile", protocol=dataclasses.replace(QUICK, sweeps=2))
    run(plan, toyshop / "r", said.append)
    records = journal.read(toyshop / "r" / journal.NAME).records
    crashed = [cell for cell in cells_of(records) if cell.profile == "crashes"]
    assert {cell.outcome for cell in crashed} == {"crashed"}
    ran = [cell for cell in crashed if cell.process]
    assert [cell.sweep for cell in ran] == [0, 0]
    assert {cell.reason for cell in crashed if not cell.process} == {
        f"quarantined: crashed twice, last at {ran[1].case} in sweep 1"
    }
    others = [cell for cell in cells_of(records) if cell.profile != "crashes"]
    assert {cell.outcome for cell in others} == {"measured"}
    assert len(others) == 2 * 3 * 2
    assert len({cell.process for cell in others if cell.sweep == 1}) == 1
    text = "\n".join(said)
    assert re.search(r"^time: [\d.]+ s; in seconds of 2 worker processes together:$", text, re.MULTILINE)
    assert re.search(r"^  loading, several workers at once +[\d.]+ s$", text, re.MULTILINE)


def test_edge_inputs_are_asked_until_they_are_answered_and_then_no_more(toyshop: Path) -> None:
    plan = toy_plan("edgy", protocol=dataclasses.replace(QUICK, sweeps=3))
    cells = {(c.sweep, c.profile): c for c in cells_of(measure(plan, toyshop / "r"))}
    edges = {key: len(c.correctness.edges) for key, c in cells.items() if c.correctness}
    assert edges[0, "one"] > 3
    assert edges == {(sweep, name): edges[0, "one"] * (sweep == 0) for sweep in range(3) for name in ("one", "two")}
    crashed = [cells[sweep, "crashes-on-zeros"] for sweep in range(3)]
    assert {cell.outcome for cell in crashed} == {"crashed"}
    assert [bool(cell.process) for cell in crashed] == [True, True, False]


def test_crashes_are_counted_across_a_resume(tmp_path: Path) -> None:
    """No worker is needed: what is missing belongs to a profile in quarantine."""
    plan = toy_plan("steady", protocol=dataclasses.replace(QUICK, sweeps=3))
    directory = begun(
        tmp_path / "toy", plan, keep=lambda r: not (isinstance(r, Cell) and (r.sweep, r.profile) == (2, "one")),
        outcomes={"one": ("crashed", "the worker was killed by SIGSEGV (time); see logs/sweep-0.log")},
    )  # fmt: skip
    last = cells_of(measure(plan, directory))[-1]
    assert (last.sweep, last.profile, last.process, last.outcome) == (2, "one", "", "crashed")
    assert last.reason == "quarantined: crashed twice, last at doubling-64x64-float32 in sweep 2"


def test_a_profile_that_crashes_while_it_is_loaded_costs_its_own_cells_only(toyshop: Path) -> None:
    plan = toy_plan("unloadable", protocol=dataclasses.replace(QUICK, sweeps=2))
    outcomes = {(c.sweep, c.profile): (c.outcome, c.reason) for c in cells_of(measure(plan, toyshop / "r"))}
    assert outcomes[0, "crashes-when-loaded"][1].startswith("the worker was killed by SIGSEGV (load)")
    assert outcomes[1, "crashes-when-loaded"][1] == "quarantined: crashed while it was loaded, in sweep 1"
    assert {outcomes[sweep, name][0] for sweep in (0, 1) for name in ("one", "two")} == {"measured"}


def test_a_profile_whose_process_was_killed_once_while_it_was_loaded_is_loaded_again(toyshop: Path) -> None:
    said: list[str] = []
    plan = toy_plan("short-of-memory", protocol=dataclasses.replace(QUICK, sweeps=2))
    run(plan, toyshop / "r", said.append)
    assert (toyshop / "loaded-before").exists()
    cells = cells_of(journal.read(toyshop / "r" / journal.NAME).records)
    assert {cell.outcome for cell in cells} == {"measured"}
    assert len(cells) == 6


def test_a_sweep_that_takes_too_long_in_all_loses_the_case_it_was_at_and_blames_nobody(
    toyshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "lab.process.channel.monotonic", clock_that_runs_while(toyshop / toys.HANGING_PROCESSES, 1500.0)
    )
    protocol = dataclasses.replace(QUICK, sweeps=2, sweep_deadline_seconds=4000.0, deadline_seconds=1e6)
    cells = cells_of(measure(toy_plan("slow", protocol=protocol), toyshop / "r"))
    assert len(cells) == 2 * 2 * 3
    slow = [cell for cell in cells if cell.case == "doubling-16x64-float32"]
    assert {(cell.outcome, cell.reason) for cell in slow} == {
        (
            "failed",
            "the worker took more than 4000 s in all, which is the sweep's deadline, and had not measured this case",
        )
    }
    assert {cell.outcome for cell in cells if cell not in slow} == {"measured"}


# Interrupted and resumed


def places(folder: Path) -> dict[str, str]:
    """Of a command line: it measures the toys, and has its runs in the folder."""
    return {"PYTHONPATH": small_caches.PYTHONPATH, "LAB_PROJECT": str(TOYS), "LAB_RUNS": str(folder / "runs")}


class Interrupted:
    """A run of three cases that is interrupted by Ctrl-C in its second case, goes on, is killed in its third, and goes
    on to its end; what was seen on the way. A file `gate` holds it in the second case of each process.

    Where it was started lies a stranger called `experiments`, which is not to be run.
    """

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder, self._forks = folder, forks
        (folder / "experiments.py").write_text("raise ImportError('not the lab')\n")
        self.directory = folder / "runs" / "broken-off"
        self.plan = ["--run-id", "broken-off", "--experiment", "gated", "--device", "cpu", "--sweeps", "1"]
        gate = folder / "gate"
        gate.touch()
        first = self._start_and_measure(2)
        with pytest.raises(RunError) as refusal:
            run(toy_plan("gated"), self.directory, lambda text: None)
        self.second_output = str(refusal.value)
        os.kill(first.pid, signal.SIGINT)
        self.interrupt_output = first.communicate()[1]
        self.code_on_interrupt = first.returncode
        self.after_interrupt = self._journal()
        again = self._start_and_measure(4)
        os.kill(again.pid, signal.SIGKILL)
        again.communicate()
        self.after_kill = self._journal()
        gate.unlink()
        last = self._start()
        self.resume_output = last.communicate()[1]
        self.code_at_last = last.returncode
        self.at_last = self._journal()
        self.bytes_at_last = (self.directory / journal.NAME).read_bytes()

    def _start(self) -> Fork:
        command = ["-m", "lab.cli", "run", *self.plan]
        return self._forks.start(command, cwd=self.folder, env=os.environ | places(self.folder))

    def _start_and_measure(self, cells: int) -> Fork:
        """A run that goes on until so many cells are on record."""
        started = self._start()
        wait_until(lambda: started.poll() is not None or len(cells_of(self._journal().records)) == cells, "no cell")
        assert started.poll() is None
        return started

    def _journal(self) -> journal.Journal:
        return journal.read(self.directory / journal.NAME)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Interrupted:
    return Interrupted(tmp_path_factory.mktemp("interrupted"), forks)


def test_ctrl_c_keeps_what_is_measured_and_says_so(interrupted: Interrupted) -> None:
    assert interrupted.code_on_interrupt == 130
    assert "what was measured is kept, and the same command goes on from there" in interrupted.interrupt_output
    assert "Traceback" not in interrupted.interrupt_output
    assert cells_of(interrupted.after_interrupt.records)
    assert not [r for r in interrupted.after_interrupt.records if isinstance(r, RunFinish)]


def test_a_second_process_in_the_same_run_directory_is_refused(interrupted: Interrupted) -> None:
    assert "another process is measuring this run" in interrupted.second_output


def test_a_killed_supervisor_loses_nothing_that_was_recorded(interrupted: Interrupted) -> None:
    before = interrupted.after_interrupt.records
    assert interrupted.after_kill.records[: len(before)] == before
    assert len(interrupted.after_kill.records) > len(before)


def test_the_same_command_resumes_with_what_is_missing(interrupted: Interrupted) -> None:
    assert "resuming: 4 of 6 cells are measured" in interrupted.resume_output
    assert interrupted.code_at_last == 0
    records = interrupted.at_last.records
    assert records[: len(interrupted.after_kill.records)] == interrupted.after_kill.records
    cases = {f"doubling-{rows}x64-float32" for rows in (8, 16, 32)}
    assert {(c.case, c.profile) for c in cells_of(records)} == {(case, p) for case in cases for p in ("one", "waits")}
    assert len(cells_of(records)) == 6
    assert {c.outcome for c in cells_of(records)} == {"measured"}
    assert isinstance(records[-1], RunFinish)
    assert (records[-1].wall_seconds, records[-1].profiling_seconds) == (None, None)
    assert re.search(r"s since it was resumed; in seconds.*, earlier ones included:", interrupted.resume_output)
    assert interrupted.at_last.damages == ()


def test_a_finished_run_is_refused_and_left_as_it_is(interrupted: Interrupted) -> None:
    with pytest.raises(RunError, match="run 'broken-off' is finished and will not be overwritten: choose another"):
        run(toy_plan("gated", run_id="broken-off"), interrupted.directory, lambda text: None)
    assert (interrupted.directory / journal.NAME).read_bytes() == interrupted.bytes_at_last


def test_no_worker_outlives_its_supervisor(interrupted: Interrupted) -> None:
    workers = {int(r.process.split("-")[1]) for r in interrupted.at_last.records if isinstance(r, SweepStart)}
    assert len(workers) >= 3
    assert not {worker for worker in workers if is_running(worker)}


def children_of(process: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def test_workers_die_with_a_supervisor_that_is_killed_also_those_deaf_to_sigterm(tmp_path: Path) -> None:
    options = ("--run-id", "r", "--experiment", "hanging", "--device", "cpu", "--sweeps", "2")
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "lab.cli", "run", *options],
        cwd=tmp_path, env=os.environ | places(tmp_path), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    hanging = tmp_path / toys.HANGING_PROCESSES
    wait_until(lambda: supervisor.poll() is not None or hanging.exists(), "no call hangs")
    workers = children_of(supervisor.pid)
    assert len(workers) >= 2  # one that measures, one that is loaded ahead; a tool that reads the machine may run
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.communicate()
    for worker in workers:
        wait_until_ended(worker)


def test_a_case_that_is_half_on_record_is_measured_again_as_a_whole(toyshop: Path) -> None:
    measure(toy_plan("pair"), toyshop / "r")
    path = toyshop / "r" / journal.NAME
    before = journal.read(path).records
    lines = path.read_bytes().splitlines(keepends=True)
    cut = lines[: next(n for n, record in enumerate(before) if isinstance(record, Watch))]
    group = b"".join(lines[len(cut) : len(cut) + 4])  # the watch, the control and two cells of the first case
    assert len(cells_of(before[len(cut) : len(cut) + 4])) == 2
    path.write_bytes(b"".join(cut) + group[: round(0.6 * len(group))])
    records = measure(toy_plan("pair"), toyshop / "r")
    assert len(cells_of(records)) == 4
    timed = [record for record in records if isinstance(record, Cell | Control | Watch)]
    assert len(timed) == 8
    assert {record.process for record in timed} == {[r.process for r in records if isinstance(r, SweepStart)][-1]}


# More sweeps where precision asks for them


def imprecise_until(sweeps: int, asked: list[int]) -> Callable[..., set[tuple[str, str, str]]]:
    """The second case is not precise enough before it has so many sweeps."""

    def imprecise_claims(plan: Plan, records: list[Record]) -> set[tuple[str, str, str]]:
        measured = {cell.sweep for cell in records if isinstance(cell, Cell) and cell.case == PAIRED[1]}
        asked.append(len(measured))
        return {("pair", PAIRED[1], "one-beats-two")} if len(measured) < sweeps else set()

    return imprecise_claims


PAIRED = ("doubling-8x64-float32", "doubling-16x64-float32")
EXTENDED = dataclasses.replace(QUICK, most_sweeps=4)


def test_cases_with_imprecise_claims_and_only_those_are_measured_again(
    toyshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("lab.supervisor.extra_sweeps.imprecise_claims", imprecise_until(3, asked))
    cells = cells_of(measure(toy_plan("pair", protocol=EXTENDED), toyshop / "r"))
    assert asked == [1, 2, 3]
    assert Counter((cell.sweep, cell.case) for cell in cells) == {
        (0, PAIRED[0]): 2, (0, PAIRED[1]): 2, (1, PAIRED[1]): 2, (2, PAIRED[1]): 2,
    }  # fmt: skip
    assert {cell.outcome for cell in cells} == {"measured"}


def test_no_more_sweeps_are_measured_than_the_protocol_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("lab.supervisor.extra_sweeps.imprecise_claims", imprecise_until(9, asked))
    plan = toy_plan("pair", protocol=dataclasses.replace(QUICK, most_sweeps=QUICK.sweeps))
    assert len(cells_of(measure(plan, begun(tmp_path / "toy", plan)))) == 4
    assert asked == []


def test_a_resumed_run_asks_for_the_same_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker is needed: the second sweep of the second case was measured before the run broke off."""
    asked: list[int] = []
    monkeypatch.setattr("lab.supervisor.extra_sweeps.imprecise_claims", imprecise_until(2, asked))
    plan = toy_plan("pair", protocol=EXTENDED)
    directory = begun(tmp_path / "toy", plan)
    for cell in cells_of(journal.read(directory / journal.NAME).records):
        if cell.case == PAIRED[1]:
            journal.append(directory / journal.NAME, dataclasses.replace(cell, sweep=1))
    records = measure(plan, directory)
    assert asked == [1, 2]
    assert Counter(cell.sweep for cell in cells_of(records)) == {0: 4, 1: 2}
    assert isinstance(records[-1], RunFinish)


# What may be resumed. No worker is needed where no cell is missing.

TIMES = {"one": 1e-3, "two": 1e-3}


def begun(directory: Path, plan: Plan, keep: Callable[[Record], bool] = lambda record: True, **how: object) -> Path:
    """A run whose cells are all measured, but which is not finished."""
    facts: dict[str, object] = {"finished": False, "on": fingerprint("cpu", {})}
    records = records_of(plan, TIMES, **(facts | how))  # type: ignore[arg-type]
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
    with pytest.raises(RunError, match="nothing was measured"):
        measure(other, directory)
    (start,) = journal.read(directory / "nothing-measured.jsonl").records
    assert isinstance(start, RunStart)
    assert (start.source_digest, start.timed_digest) == (source_digest(), timed_digest())
    assert start.plan_digest == other.digest


# Nothing measured, and a journal that others write to


def test_a_run_that_measured_nothing_ends_with_an_error_and_can_be_started_again(toyshop: Path) -> None:
    only_a_gpu = toy_plan("needy", run_id="r")
    with pytest.raises(RunError) as refusal:
        run(only_a_gpu, toyshop / "r", lambda text: None)
    assert "nothing was measured: needs a CUDA GPU, and this run measures the CPU (2 cells)" in str(refusal.value)
    assert "can be started again under its name" in str(refusal.value)
    records = measure(toy_plan("steady", run_id="r"), toyshop / "r")
    assert {cell.outcome for cell in cells_of(records)} == {"measured"}


def test_a_journal_that_is_cut_while_the_run_goes_on_ends_the_run(tmp_path: Path) -> None:
    plan = toy_plan("steady", profiling=True)
    directory = begun(tmp_path / "toy", plan, keep=lambda record: not isinstance(record, Counters))
    path = directory / journal.NAME

    def cut_it(said: str) -> None:
        if said.startswith("profiling"):
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))

    with pytest.raises(RunError, match=r"another program has altered it while the run went on"):
        run(plan, directory, cut_it)
    assert not any(isinstance(record, RunFinish) for record in journal.read(path).records)


# Fresh caches


def test_every_worker_has_a_cache_of_its_own_that_holds_binaries_and_no_choices(toyshop: Path) -> None:
    protocol = dataclasses.replace(QUICK, sweeps=2, fresh_caches=True)
    measure(toy_plan("caching", protocol=protocol), toyshop / "r")
    seen = [json.loads(line) for line in (toyshop / "caches-seen.jsonl").read_text().splitlines()]
    by_folder = {each["triton"]: each for each in reversed(seen)}  # what each process found first
    assert len(by_folder) == 3  # the one that compiled ahead, and two sweeps
    assert len({each["inductor"] for each in by_folder.values()}) == 3
    ahead, first, second = sorted(by_folder.values(), key=lambda each: each["ahead"], reverse=True)
    assert ahead["binaries"] == []
    assert first["binaries"] == second["binaries"] == ["add.cubin"]
    assert not any(each["choices"] or each["graphs"] for each in by_folder.values())
    assert not (toyshop / "r" / "caches").exists()


def test_a_profile_that_crashes_while_compiling_ahead_costs_nothing_there(toyshop: Path) -> None:
    plan = toy_plan("fragile", protocol=dataclasses.replace(QUICK, fresh_caches=True))
    cells = cells_of(measure(plan, toyshop / "r"))
    assert {cell.outcome for cell in cells if cell.profile != "crashes"} == {"measured"}


def test_a_file_where_the_runs_directory_would_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "toy").write_text("in the way")
    for directory in (tmp_path / "toy", tmp_path / "toy" / "run"):
        with pytest.raises(RunError, match="cannot be made a run's directory: "):
            run(toy_plan("steady"), directory, lambda text: None)


def refused(plan: Plan, directory: Path) -> str:
    before = (directory / journal.NAME).read_bytes()
    with pytest.raises(RunError) as refusal:
        run(plan, directory, lambda text: None)
    assert (directory / journal.NAME).read_bytes() == before
    return str(refusal.value)


def test_a_changed_plan_is_refused_and_says_what_changed(tmp_path: Path) -> None:
    directory = begun(tmp_path / "toy", toy_plan("steady"))
    message = refused(toy_plan("steady", protocol=dataclasses.replace(QUICK, block=5), profiling=True), directory)
    assert "the plan differs from the one that this unfinished run began with" in message
    assert "profiling (False → True)" in message
    assert "protocol.block (3 → 5)" in message


def test_a_changed_claim_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan)
    (experiment,) = plan.experiments
    weaker = dataclasses.replace(experiment.claims[0], threshold=1.5)
    other = dataclasses.replace(plan, experiments=(dataclasses.replace(experiment, claims=(weaker,)),))
    assert "experiments[0].claims[0].threshold (1.02 → 1.5)" in refused(other, directory)


def test_an_unfinished_run_of_an_older_lab_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", dataclasses.replace(plan, schema=1))
    path = directory / journal.NAME
    records = journal.read(path).records
    path.unlink()
    for record in records:
        older = dataclasses.replace(record, schema=1) if isinstance(record, RunStart) else record
        journal.append(path, older)
    message = refused(plan, directory)
    assert "was begun by an older version of the lab, with records of schema 1" in message
    assert message.endswith("Use another run id")


def test_changed_code_is_refused(tmp_path: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(tmp_path / "toy", plan, source="0" * 64)
    assert "changed: the measured code" in refused(plan, directory)


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
    before, marker, after = path.read_bytes().partition(b'"outcome":"measured"')
    path.write_bytes(before + b'"outcome":"Measured"' + after)
    assert marker
    altered = before.count(b"\n") + 1
    assert f"journal.jsonl: line {altered}: checksum does not match" in refused(plan, directory)


def test_a_run_is_not_continued_on_another_machine(toyshop: Path) -> None:
    plan = toy_plan("steady")
    directory = begun(
        toyshop / "toy", plan,
        keep=lambda record: not (isinstance(record, Cell) and record.profile == "two"),
        on=machine("cpu", cpu="Another Processor", driver="1.2.3"),
    )  # fmt: skip
    message = refused(plan, directory)
    assert "this is not the machine that the run began on" in message
    assert "cpu was 'Another Processor'" in message
    assert "driver was '1.2.3', is ''" in message


def test_a_run_whose_sweeps_are_done_is_not_explained_on_another_machine(tmp_path: Path) -> None:
    plan = toy_plan("steady", profiling=True)
    directory = begun(
        tmp_path / "toy", plan, keep=lambda record: not isinstance(record, Counters),
        on=machine("cpu", cpu="Another Processor"),
    )  # fmt: skip
    message = refused(plan, directory)
    assert "this is not the machine that the run began on" in message
    assert "cpu was 'Another Processor'" in message


def test_variables_that_torch_sets_in_a_worker_make_no_other_machine(tmp_path: Path) -> None:
    plan = toy_plan("steady", profiling=True)
    seen = fingerprint("cpu", {"environment": {"CUDA_MODULE_LOADING": "LAZY"}, "gpu": "NVIDIA H100", "cuda": "13.0"})
    assert isinstance(measure(plan, begun(tmp_path / "toy", plan, on=seen))[-1], RunFinish)


# Counters


def no_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.profiler.ncu.ncu_path", lambda: "")


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
    assert "profiling steady with Nsight Compute, all cells in one pass; its log is ncu/steady.log" in said
    assert any(re.fullmatch(r"  counters of 0 of 2 cells in \d+ s", line) for line in said)


def test_the_pass_is_reported_what_the_sweeps_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Cell] = []

    def profile(
        plan: Plan, experiment: object, directory: Path, timed: Iterable[Cell], *rest: object
    ) -> Iterator[Counters]:
        received.extend(timed)
        return iter(())

    monkeypatch.setattr("lab.supervisor.passes.profile_experiment", profile)
    plan = toy_plan("steady", profiling=True)
    records = measure(plan, begun(tmp_path / "toy", plan, keep=lambda record: not isinstance(record, Counters)))
    assert received == cells_of(records)


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


# The process that takes counters is loaded before the first sweep

WAITS = """
if reading:
    print(table)
else:
    run = report.parents[1]
    noted = (run / "processes").open("a")
    print(os.getpid(), file=noted, flush=True)
    finished = lambda: (run / "journal.jsonl").read_text().count('"kind":"SweepFinish"')
    before = finished()
    told = order()
    (run / "told").write_text(json.dumps([before, finished(), told]))
    report.write_bytes(b"a report")
"""
DIES = """
if reading:
    print(table)
else:
    (report.parents[1] / "processes").open("a").write("another ")
    pathlib.Path(arguments[-1]).open()
    sys.exit(9)
"""


@pytest.fixture
def ncu(toyshop: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    """A program in the place of ncu that counts on the CPU too."""
    folder = toyshop / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("lab.profiler.ncu.COUNTED_DEVICE", "cpu")
    return partial(fake_ncu.install, folder)


def test_counters_are_taken_after_the_last_sweep_by_a_process_that_was_loaded_before_the_first(
    toyshop: Path, ncu: Ncu
) -> None:
    ncu(WAITS)
    measure(toy_plan("steady", profiling=True, protocol=dataclasses.replace(QUICK, sweeps=2)), toyshop / "r")
    loaded, told, order = json.loads((toyshop / "r" / "told").read_text())
    assert (loaded, told, order) == (0, 2, {"left_out": [], "environment": {}})
    (process,) = (toyshop / "r" / "processes").read_text().split()
    assert not is_running(int(process))


def test_what_was_loaded_for_the_first_experiment_is_not_asked_again_for_the_next(toyshop: Path, ncu: Ncu) -> None:
    ncu(WAITS)
    records = measure(toy_plan("steady", "fragile", profiling=True), toyshop / "r")
    counted = {(c.experiment, c.outcome) for c in counters_of(records)}
    assert {experiment for experiment, _ in counted} == {"steady", "fragile"}
    assert isinstance(records[-1], RunFinish)
    assert len((toyshop / "r" / "processes").read_text().split()) == 2


def test_the_program_that_ncu_runs_goes_through_all_cells_when_it_is_told_to(toyshop: Path, ncu: Ncu) -> None:
    ncu("""
        if reading:
            print(table)
        else:
            code = subprocess.call(arguments[arguments.index(sys.executable):])
            report.write_bytes(b"a report")
            sys.exit(code)
    """)
    records = measure(toy_plan("steady", profiling=True), toyshop / "r")
    assert (toyshop / "r" / "ncu" / "steady.failures.jsonl").exists()  # it writes that once it has its order
    assert {(c.outcome, c.blocker) for c in counters_of(records)} == {("blocked", "empty")}


def test_counters_are_of_what_a_sweep_compiled_and_not_of_what_took_its_process_down(toyshop: Path, ncu: Ncu) -> None:
    ncu(WAITS)
    plan = toy_plan("fragile", profiling=True, protocol=dataclasses.replace(QUICK, fresh_caches=True))
    records = measure(plan, toyshop / "r")
    *_, order = json.loads((toyshop / "r" / "told").read_text())
    crashed = [f"{cell.case}|{cell.profile}" for cell in cells_of(records) if cell.outcome == "crashed"]
    assert crashed
    assert sorted(order["left_out"]) == sorted(crashed)
    assert order["environment"]["TRITON_CACHE_DIR"].startswith(str(toyshop / "r" / "caches"))


@pytest.mark.parametrize("interrupted", ["in a sweep", "before the order"])
def test_an_interrupted_run_leaves_no_process_that_waits(
    toyshop: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    ncu(WAITS)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if interrupted == "in a sweep":
        monkeypatch.setattr("lab.supervisor.sweep.WorkerProtocol", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(
            toy_plan("steady", profiling=True), toyshop / "r", lambda said: said.startswith("profiling") and interrupt()
        )
    (process,) = (toyshop / "r" / "processes").read_text().split()
    wait_until_ended(int(process))
    assert not (toyshop / "r" / "told").exists()


def test_a_process_that_dies_while_it_waits_costs_what_one_that_dies_later_does(toyshop: Path, ncu: Ncu) -> None:
    ncu(DIES)
    records = measure(toy_plan("steady", profiling=True), toyshop / "r")
    assert {(c.blocker, c.reason) for c in counters_of(records)} == {("crash", "ncu ended with code 9")}
    assert len((toyshop / "r" / "processes").read_text().split()) == 2  # the pass starts another
    assert isinstance(records[-1], RunFinish)


def test_nothing_is_loaded_before_the_pass_where_no_cell_or_no_counters_are_lacking(toyshop: Path, ncu: Ncu) -> None:
    ncu(WAITS)
    plan = toy_plan("steady", profiling=True)
    so_far = [record for record in measure(plan, toyshop / "r") if not isinstance(record, RunFinish)]
    uncounted = write_run(toyshop / "uncounted", plan, (r for r in so_far if not isinstance(r, Counters)))
    measure(plan, uncounted)
    assert json.loads((uncounted / "told").read_text())[:2] == [1, 1]
    counted = write_run(toyshop / "counted", plan, (r for r in so_far if not isinstance(r, Cell) or r.profile == "one"))
    measure(plan, counted)
    assert not (counted / "processes").exists()


# Readings


def test_readings_are_kept_as_they_come_and_only_what_is_missing_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[tuple[str, str, str]]] = []

    def read(
        plan: Plan, experiment: object, directory: Path, waiting: list[tuple[str, str, str]], environment: object
    ) -> Iterator[Reading]:
        asked.append(waiting)
        for number, (case, profile, instrument) in enumerate(waiting):
            if len(asked) == 1 and number == 2:
                raise KeyboardInterrupt
            yield Reading(
                experiment="steady", case=case, profile=profile, instrument=instrument, seconds=1e-5, reason=""
            )

    monkeypatch.setattr("lab.supervisor.passes.read_instruments", read)
    plan = dataclasses.replace(toy_plan("steady"), instruments=True)
    directory = begun(tmp_path / "toy", plan, keep=lambda record: not isinstance(record, Reading))
    with pytest.raises(KeyboardInterrupt):
        measure(plan, directory)
    said: list[str] = []
    run(plan, directory, said.append)
    records = journal.read(directory / journal.NAME).records
    items = [(r.case, r.profile, r.instrument) for r in records if isinstance(r, Reading)]
    assert items == asked[0]
    assert asked[1] == asked[0][2:]
    assert "  6 of 6 readings" in said
    assert isinstance(records[-1], RunFinish)


def test_source_that_changes_while_the_run_goes_on_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toyshop: Path
) -> None:
    monkeypatch.setattr("lab.supervisor.resume.source_digest", lambda: "a" * 64)
    with pytest.raises(RunError, match="was changed while the run went on"):
        run(toy_plan("steady"), toyshop / "edited", lambda text: None)
    assert not [r for r in journal.read(toyshop / "edited" / journal.NAME).records if isinstance(r, Cell)]
