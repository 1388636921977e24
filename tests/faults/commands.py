"""The real command line in a process of its own, on a small experiment; with a disk that is full or locked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
import small_caches
from factory import plan_of, records_of, small_experiment, write_run
from forked_command import Command
from waiting import LIMIT_SECONDS
from warm_workers import Forks

PAIR = Path(__file__).parent / "pair"
SECONDS = {"plain": 40e-6, "fast": 20e-6}


def lab(
    folder: Path,
    *arguments: str,
    file_bytes: int = 0,
    frozen: Path | None = None,
    stdout: IO[str] | None = None,
    forks: Forks | None = None,
) -> "subprocess.CompletedProcess[str]":
    """`lab ARGUMENTS` with its runs in `folder`/runs, in a project of one experiment that lies in `folder`/project.

    file_bytes: no file may grow beyond it, as on a disk that is full. frozen: a folder that is mounted read-only.
    forks: where the command comes from, if it measures.
    """
    how = {"cwd": folder, "env": environment(folder), "file_bytes": file_bytes, "frozen": frozen}
    if forks:
        measuring = forks.start(["-m", "lab.cli", *arguments], **how)
        output, errors = measuring.communicate()
        return subprocess.CompletedProcess(arguments, measuring.returncode, output, errors)
    return Command(arguments, stdout=stdout.fileno() if stdout else subprocess.PIPE, **how).end()


def lab_from_scratch(folder: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """As `lab`, by a Python of its own that has imported nothing, with more variables."""
    return subprocess.run(
        [sys.executable, "-m", "lab.cli", *arguments], cwd=folder, env=environment(folder) | more,
        capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False,
    )  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    project = folder / "project"
    if not project.exists():
        shutil.copytree(PAIR, project, ignore=shutil.ignore_patterns("__pycache__"))
        (project / "experiments" / "decisions").mkdir()
    paths = {"PYTHONPATH": small_caches.PYTHONPATH, "LAB_PROJECT": str(project), "LAB_RUNS": str(folder / "runs")}
    return {**known, **paths, "PYTHONDONTWRITEBYTECODE": "1"}


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What the command says of its failure: one line, after what it told of its course, and no traceback."""
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("lab: "), done.stderr
    return line


def doubling(folder: Path, run_id: str = "night-3", finished: bool = True) -> Path:
    """A run that is measured, in `folder`/runs."""
    plan = plan_of(run_id, experiments=[small_experiment()], include=[])
    return write_run(folder / "runs" / run_id, plan, records_of(plan, SECONDS, finished=finished))


def mounts() -> None:
    """Skip a test where this machine lets nobody mount a folder read-only."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "--map-root-user", "--mount", "true"]).returncode:
        pytest.skip("needs unshare --map-root-user --mount, to mount a folder read-only")
