"""One run on a GPU, with real processes."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import RunError
from lab.evidence.source import ROOT
from lab.supervisor import lock
from lab.supervisor.lock import gpu_lock

HOLD = """
import sys, time
from pathlib import Path
from lab.supervisor import lock
from lab.errors import RunError
lock.FOLDER = Path(sys.argv[1])
print("waits", flush=True)
while not Path(sys.argv[1], "go").exists():
    time.sleep(0.001)
try:
    with lock.gpu_lock("cuda", sys.argv[2]):
        print("holds", flush=True)
        sys.stdin.read()
except RunError as refusal:
    print(f"refused: {refusal}", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    return tmp_path


def holder(folder: Path, identity: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), identity],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_gpu_that_another_process_holds_is_refused_and_the_holder_is_named(folder: Path) -> None:
    (folder / "go").touch()
    with holder(folder, "GPU-a") as other:
        assert [said(other), said(other)] == ["waits", "holds"]
        with pytest.raises(RunError, match=rf"another run is on this GPU: process {other.pid} holds"):  # noqa: SIM117
            with gpu_lock("cuda", "GPU-a"):
                pass
        with gpu_lock("cuda", "GPU-b"):
            pass
        other.kill()
    with gpu_lock("cuda", "GPU-a"):  # it went with its process
        pass


def test_of_many_that_race_for_a_gpu_one_wins(folder: Path) -> None:
    racers = [holder(folder, "GPU-a") for _ in range(6)]
    assert {said(racer) for racer in racers} == {"waits"}
    (folder / "go").touch()
    answers = {racer.pid: said(racer) for racer in racers}
    winners = [pid for pid, text in answers.items() if text == "holds"]
    assert len(winners) == 1
    assert all(text.startswith("refused: another run is on this GPU") for text in answers.values() if text != "holds")
    for racer in racers:
        racer.communicate()
    assert [racer.returncode for racer in racers] == [0] * 6


def test_the_file_can_be_locked_by_any_user_whatever_the_umask(folder: Path) -> None:
    mask = os.umask(0o077)
    try:
        with gpu_lock("cuda", "GPU-a"):
            (path,) = folder.glob("lab-gpu-*.lock")
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
            assert "GPU-a" not in path.name
            assert path.read_text() == f"{os.getpid()}\n"
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(mask)


def test_a_link_in_the_place_of_the_lock_is_not_followed(folder: Path) -> None:
    with gpu_lock("cuda", "GPU-a"):
        (path,) = folder.glob("lab-gpu-*.lock")
    precious = folder / "precious"
    precious.write_text("keep me")
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(RunError, match="the GPU's lock cannot be opened"), gpu_lock("cuda", "GPU-a"):
        pass
    assert precious.read_text() == "keep me"


def test_a_process_started_under_the_lock_does_not_keep_it(folder: Path) -> None:
    (folder / "go").touch()
    with gpu_lock("cuda", "GPU-a"):
        child = subprocess.Popen(["sleep", "60"], start_new_session=True, close_fds=False)
    try:
        with gpu_lock("cuda", "GPU-a"):
            pass
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


def test_runs_on_the_cpu_take_no_lock(folder: Path) -> None:
    with gpu_lock("cpu", "anything"), gpu_lock("cpu", "anything"):
        assert not list(folder.iterdir())
