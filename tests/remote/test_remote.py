"""A run on another box: a real sshd on loopback, connections that break, Ctrl-C, and a box that is rented."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from forked_command import Command
from sshd import LACKING, Proxy, Sshd, sshd
from waiting import wait_until

from lab.cli import main
from lab.commands.measuring import command_there
from lab.errors import LabError, PlanError, RunError
from lab.evidence import journal
from lab.evidence.record import Cell, RunFinish
from lab.evidence.source import ROOT
from lab.remote.box import Box, box_of
from lab.remote.measure import Journey, measure_on_box
from lab.remote.session import HostError

pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed here: {', '.join(LACKING)}")
LINES = 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh") / "d") as served:
        yield served


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project whose `measure` writes a run, and says a line for each of many cells; a big file comes with it."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "measure").write_text(
        f'echo once >>../started; mkdir -p "$LAB_RUNS/r"; n=0; while [ $n -lt {LINES} ]; do n=$((n + 1)); '
        'echo "cell $n is measured"; echo "line $n" >>"$LAB_RUNS/r/journal.jsonl"; done; cp big "$LAB_RUNS/r/samples"\n'
    )
    (root / "big").write_bytes(random.Random(1).randbytes(200_000))
    (root / "runs").mkdir()
    return root


def journey_of(server: Sshd, tree: Path, command: str = "sh measure", ssh: str = "", **how: str) -> Journey:
    box = Box(host="127.0.0.1", folder=str(tree.parent / "box folder"), ssh=tuple((ssh or server.ssh).split()))
    return Journey(
        box=box, root=tree, runs=tree / "runs", run_id="r", command=command, left_out=("/runs/", "/site/"), **how
    )


# The bytes after which each connection breaks, and None for one that does not, in the order of the steps of a run:
# prepare, state, push, start, follow, state. What comes then is `holds`, and the fetch, which alone is so long.
BREAKS = (0, 2500, None, 5000, None, 4000, 90_000, None, 4800, 5900, None, 6500, None, 3000)
FETCH_BYTES = 90_000


def test_connections_that_break_cost_nothing(server: Sshd, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("lab.remote.session.sleep", waits.append)
    said: list[str] = []
    with Proxy(server.port, BREAKS, FETCH_BYTES) as proxy:
        measure_on_box(journey_of(server, tree, ssh=server.through(proxy)), said.append)
    assert proxy.broken == [*(number for number, limit in enumerate(BREAKS) if limit is not None), proxy.broken[-1]]
    assert proxy.broken[-1] >= len(BREAKS)
    again = [line.partition("trying again in ")[2] for line in said if "trying again" in line]
    assert again == ["1 s", "2 s", "1 s", "1 s", "2 s", "1 s", "2 s", "1 s", "1 s", "1 s"]
    assert [wait for wait in waits if wait >= 1] == [float(text.split()[0]) for text in again]
    assert [line for line in said if line.startswith("cell")] == [f"cell {n} is measured" for n in range(1, LINES + 1)]
    assert (tree.parent / "started").read_text() == "once\n"
    assert (tree / "runs" / "r" / "journal.jsonl").read_text().count("\n") == LINES
    assert (tree / "runs" / "r" / "samples").read_bytes() == (tree / "big").read_bytes()
    assert not (tree / "runs" / ".incoming-r").exists()


def test_what_git_ignores_and_what_is_not_measured_stays_here(server: Sshd, tree: Path) -> None:
    (tree / ".gitignore").write_text("*.secret\n")
    for name in ("my.secret", "site/index.html", "kept.py"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")
    measure_on_box(journey_of(server, tree), lambda text: None)
    there = tree.parent / "box folder"
    assert {path.name for path in there.iterdir()} == {".gitignore", ".remote", "big", "kept.py", "measure", "runs"}


def test_the_box_is_stopped_whatever_happens(server: Sshd, tree: Path) -> None:
    log = tree.parent / "log"
    rented = {"up": f"echo up $LAB_HOST >>{log}", "down": f"echo down >>{log}"}
    with pytest.raises(HostError, match=r"nothing was measured on 127.0.0.1 .status 3., and the box said nothing"):
        measure_on_box(journey_of(server, tree, "exit 3", **rented), lambda text: None)
    assert log.read_text() == "up 127.0.0.1\ndown\n"
    with pytest.raises(LabError, match=r"--up 'false' failed with status 1"):
        measure_on_box(journey_of(server, tree, **{**rented, "up": "false"}), lambda text: None)
    assert log.read_text() == "up 127.0.0.1\ndown\ndown\n"
    with pytest.raises(LabError, match=r"--down 'exit 7' failed with status 7. THE BOX 127.0.0.1 MAY STILL RUN"):
        measure_on_box(journey_of(server, tree, down="exit 7"), lambda text: None)
    assert (tree / "runs" / "r" / "journal.jsonl").exists()


NO_PYTHON = {
    "a project": (False, "", "exec: python3: not found"),
    "a named interpreter": (False, "/none/python", "/none/python: No such file or directory"),
    "the lab's own": (True, "", "setup: Python 3.11, 3.12 or 3.13 is needed; none is on the PATH"),
}


@pytest.mark.parametrize(("own", "python", "cause"), NO_PYTHON.values(), ids=NO_PYTHON)
def test_a_box_without_python_is_told_from_one_that_measured_nothing(
    server: Sshd, tree: Path, monkeypatch: pytest.MonkeyPatch, own: bool, python: str, cause: str
) -> None:
    """The cause is in the message, and not only among what was printed before."""
    monkeypatch.setattr("lab.commands.measuring.project", lambda: SimpleNamespace(is_the_labs_own=own))
    tools = tree.parent / "tools"
    tools.mkdir()
    for tool in ("bash", "cat", "cksum", "dirname", "head", "sed", "tr", "sort", "paste"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    shutil.copytree(ROOT / "scripts", tree / "scripts")
    (tree / "pyproject.toml").write_text("")
    # bash reads ~/.bashrc where ssh starts it, and that may put a Python on the PATH
    command = f"export PATH={tools} HOME={tools}; {command_there(['--run-id', 'r'], python)}"
    with pytest.raises(HostError, match=re.escape(cause) + ".*; --host-python names an interpreter there"):
        measure_on_box(journey_of(server, tree, command), lambda text: None)


def test_another_run_of_that_name_is_not_overwritten(server: Sshd, tree: Path) -> None:
    there = tree.parent / "box folder" / "runs" / "r"
    there.mkdir(parents=True)
    (tree / "runs" / "r").mkdir()
    (tree / "runs" / "r" / "journal.jsonl").write_text("something else\n")
    with pytest.raises(RunError, match=r"is another run than 'r' of 127.0.0.1"):
        measure_on_box(journey_of(server, tree), lambda text: None)
    assert (tree / "runs" / "r" / "journal.jsonl").read_text() == "something else\n"
    assert (tree / "runs" / ".incoming-r" / "journal.jsonl").exists()


def test_a_run_that_was_begun_elsewhere_is_refused_before_anything_is_measured(server: Sshd, tree: Path) -> None:
    (tree / "runs" / "r").mkdir()
    (tree / "runs" / "r" / "journal.jsonl").write_text("a part\n")
    with pytest.raises(RunError, match=r"run 'r' was begun elsewhere: .* A run stays on its machine"):
        measure_on_box(journey_of(server, tree), lambda text: None)
    assert not (tree.parent / "started").exists()


def test_a_run_that_goes_on_with_other_options_is_left_alone(server: Sshd, tree: Path) -> None:
    gate = tree.parent / "gate"
    gate.touch()
    waiting = f"while [ -e {gate} ]; do sleep 0.1; done; sh measure"
    said: list[str] = []
    holder = subprocess.Popen(
        [*journey_of(server, tree).box.shell], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    journey = journey_of(server, tree, waiting)
    shutil.copytree(tree, journey.box.folder)
    holder.communicate(f"{journey.scripts.prepare}\n{journey.scripts.start(waiting, attempt='0')}\n")
    with pytest.raises(HostError, match=r"run 'r' goes on at 127.0.0.1 with other options: while"):
        measure_on_box(journey_of(server, tree), said.append)
    gate.unlink()
    measure_on_box(journey, said.append)  # joins it, or finds it ended
    assert (tree.parent / "started").read_text() == "once\n"
    assert f"cell {LINES} is measured" in said


def test_a_box_that_does_not_answer_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.remote.measure.FIRST_SECONDS", 0.0)
    box = Box(host="127.0.0.1", folder="x", ssh=("ssh", "-F", "none", "-p", "1"))
    journey = Journey(box=box, root=tree, runs=tree / "runs", run_id="r", command="true")
    with pytest.raises(HostError, match=r"127.0.0.1 cannot be reached: .*refused; try: ssh 127.0.0.1 true"):
        measure_on_box(journey, lambda text: None)


def box_that(tree: Path, does: str) -> Journey:
    """A box whose ssh is a script."""
    ssh = tree.parent / "ssh"
    ssh.write_text(f"#!/bin/sh\n{does}\n")
    ssh.chmod(0o755)
    box = Box(host="127.0.0.1", folder=str(tree.parent / "there"), ssh=(str(ssh),))
    return Journey(box=box, root=tree, runs=tree / "runs", run_id="r", command="true")


def test_a_box_that_lets_one_in_and_hangs_is_given_up(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.remote.measure.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("lab.remote.session.ANSWER_SECONDS", 0.2)
    with pytest.raises(HostError, match=r"127.0.0.1 cannot be reached: no answer for 0 s; try: ssh"):
        measure_on_box(box_that(tree, "exec sleep 1000"), lambda text: None)


def test_what_a_box_lacks_is_named(tree: Path) -> None:
    programs = tree.parent / "programs"
    programs.mkdir()
    for name in ("sh", "mkdir"):
        os.symlink(shutil.which(name) or "", programs / name)
    (programs / "flock").write_text("#!/bin/sh\nexit 69\n")  # as on a network drive without locks
    (programs / "flock").chmod(0o755)
    there = tree.parent / "there"
    with pytest.raises(HostError, match=rf"127.0.0.1 lacks rsync, setsid, file locks in {there}; needed there are"):
        measure_on_box(box_that(tree, f"PATH={programs} exec sh"), lambda text: None)


def test_a_run_that_vanished_is_told_from_a_disk_that_is_full(
    server: Sshd, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journey = journey_of(server, tree, "kill -9 $(cat .remote/r/pid)")
    with pytest.raises(HostError, match=r"the run on 127.0.0.1 was killed, or the box restarted"):
        measure_on_box(journey, lambda text: None)
    monkeypatch.setattr("lab.remote.session.FULL_KIB", 1 << 60)
    with pytest.raises(HostError, match=r"the disk of 127.0.0.1 is full: free some space for /.*box folder, then"):
        measure_on_box(journey, lambda text: None)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "", "box:", "me@", "box:-x"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(PlanError, match=r"accepted is .USER@.HOST or .USER@.HOST:FOLDER"):
        box_of(host, "mine", "ssh")


def test_a_folder_is_named_as_for_scp() -> None:
    assert box_of("me@box", "mine", "ssh").folder == "kernel-evidence-lab/mine"
    assert box_of("box:~/there/", "mine", "ssh").folder == "there"
    assert box_of("box:/scratch/a b", "mine", "ssh -p 2").ssh == ("ssh", "-p", "2")


def test_a_dry_run_shows_every_command_and_runs_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    code = main([
        "benchmark", "--run-id", "r", "--host", "me@box", "--dry-run", "--up", f"touch {trace}", "--down", "bye",
        "--experiment", "cpu-fused-calls", "--sweeps", "2", "--host-python", "py",
    ])  # fmt: skip
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert not trace.exists()
    order = [f"touch {trace}", "mkdir -p", "rsync ", "setsid -f", "wc -c", "me@box:kernel-evidence-lab/", "\nbye\n"]
    places = [shown.out.rindex(text) if text.startswith("me@") else shown.out.index(text) for text in order]
    assert places == sorted(places)
    assert "lab --run-id r --experiment cpu-fused-calls --sweeps 2\n" in shown.out  # without what is for here
    assert "export LAB_PYTHON=py; source scripts/setup" in shown.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run-id", "../x", "--host", "box"], "run id '../x' is not a plain slug"),
        (["--run-id", "x", "--host", "-v"], "expected one argument"),
        (["--run-id", "x", "--host", "box", "--experiment", "sofmax"], "no experiment 'sofmax'"),
        (["--run-id", "x", "--down", "true"], "--down is for a run on another box; name it with --host USER@BOX"),
    ],
)
def test_a_mistake_is_reported_before_the_box_is_asked(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["benchmark", *options])
    except SystemExit as end:  # of the parser of options
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err


class Here:
    """`lab benchmark --host` as a user has it, on a project with the toys; a file `gate` holds their second case."""

    def __init__(self, server: Sshd, folder: Path) -> None:
        self.root, self.box, self.log = folder / "toys", folder / "box", folder / "log"
        shutil.copytree(ROOT / "tests" / "toys", self.root, ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "gate").touch()
        self.run = self.root / "runs" / "r"
        self._options = [
            "--run-id", "r", "--host", f"127.0.0.1:{self.box}", "--ssh", server.ssh, "--host-python", sys.executable,
            "--experiment", "gated", "--device", "cpu", "--sweeps", "1", "--down", f"echo down >>{self.log}",
        ]  # fmt: skip

    def start(self) -> Command:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAB_PROJECT": str(self.root)}
        return Command(["benchmark", *self._options], cwd=self.root, env=environment, stderr=subprocess.STDOUT)

    def cells_there(self) -> int:
        return sum(isinstance(record, Cell) for record in journal.read(self.box / "runs" / "r" / journal.NAME).records)

    def measured(self, process: Command, cells: int) -> None:
        wait_until(lambda: process.poll() is not None or self.cells_there() >= cells, "no cell is measured there")
        assert process.poll() is None, process.end().stdout

    def open_gate(self) -> None:
        (self.root / "gate").unlink()
        (self.box / "gate").unlink()


def test_a_run_is_left_joined_stopped_and_brought_to_its_end(server: Sshd, tmp_path: Path) -> None:
    here = Here(server, tmp_path)
    killed = here.start()
    here.measured(killed, 2)
    os.kill(killed.pid, signal.SIGKILL)  # as a laptop that dies; its ssh ends with the next line of output
    killed.wait()
    wait_until(lambda: here.log.exists() and here.log.read_text() == "down\n", "a rented box would go on for ever")
    assert not here.run.exists()

    joined = here.start()
    output = ""
    while "[2/6" not in output:
        output += joined.stdout.readline()
    assert "run r goes on at 127.0.0.1: following it" in output
    os.kill(joined.pid, signal.SIGINT)
    ended = joined.end()
    output += ended.stdout
    assert ended.returncode == 130, output
    assert "stopping the run on the box, then bringing it back" in output
    records = journal.read(here.run / journal.NAME).records
    assert sum(isinstance(record, Cell) for record in records) == 2
    assert not isinstance(records[-1], RunFinish)
    assert here.log.read_text() == "down\ndown\n"

    here.open_gate()
    last = here.start()
    ended = last.end()
    assert ended.returncode == 0, ended.stdout
    records = journal.read(here.run / journal.NAME).records
    assert sum(isinstance(record, Cell) for record in records) == 6
    assert isinstance(records[-1], RunFinish)
    assert (here.run / "preview" / "index.html").is_file()
    box = Box(host="127.0.0.1", folder=str(here.box), ssh=tuple(server.ssh.split()))
    with pytest.raises(RunError, match="run 'r' is finished and will not be overwritten"):
        measure_on_box(Journey(box=box, root=here.root, runs=here.root / "runs", run_id="r", command=""), print)
