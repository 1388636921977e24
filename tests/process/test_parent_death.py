"""A child that begins when its parent has ended already. One that is left later: see test_run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import fake_ncu
import pytest
from waiting import wait_until, wait_until_ended

from lab.evidence.source import ROOT
from lab.process.parent_death import mark_parent

BEGINS = "from lab.process.parent_death import die_with_parent; die_with_parent(); print('lives')"


@pytest.mark.parametrize(
    ("marked", "code", "output"),
    [(mark_parent(), 0, "lives\n"), ({}, 0, "lives\n"), ({"LAB_SUPERVISOR_PROCESS": "1"}, -signal.SIGKILL, "")],
)
def test_only_a_child_of_a_parent_that_is_gone_ends_at_once(marked: dict[str, str], code: int, output: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", BEGINS], cwd=ROOT, env=os.environ | marked, capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stdout) == (code, output)


# As a profiler does: it starts what it looks at, which starts more.
PROFILES = """
import os, subprocess, sys, time
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({file!r} + ".new", "w") as file:
    print(os.getpid(), started.pid, file=file)
os.rename({file!r} + ".new", {file!r})
time.sleep(600)
"""
SUPERVISES = """
from pathlib import Path
import sys
from lab.profiler.ncu import _run
_run([sys.executable, "-c", {profiles!r}], Path({log!r}), 600.0)
"""


def test_a_profiler_and_what_it_started_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = SUPERVISES.format(profiles=PROFILES.format(file=str(started)), log=str(tmp_path / "log"))
    supervisor = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    wait_until(started.exists, "nothing was started")
    supervisor.kill()
    supervisor.wait()
    for process in started.read_text().split():
        wait_until_ended(int(process))


WAITS = """
(report.parent / "started").write_text(str(os.getpid()))
order()
time.sleep(600)
"""
LOADS_AHEAD = """
import sys, time
from pathlib import Path
from lab.profiler.ncu import Capture, CaptureRequest
request = CaptureRequest(name="try", program=(), metrics=(), metric_set="chosen", cache_control="all")
loaded = Capture(sys.argv[1], request, Path(sys.argv[2]))
loaded.wait_until_loaded(600.0)
(Path(sys.argv[2]) / "waits").touch()
time.sleep(600)
"""


def test_a_profiler_that_waits_for_its_order_ends_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    fake_ncu.install(tmp_path, WAITS)
    supervisor = subprocess.Popen([sys.executable, "-c", LOADS_AHEAD, tmp_path / "ncu", tmp_path / "reports"], cwd=ROOT)
    wait_until((tmp_path / "reports" / "waits").exists, "nothing waits for an order")
    supervisor.kill()
    supervisor.wait()
    wait_until_ended(int((tmp_path / "reports" / "started").read_text()))


def test_what_ended_by_a_signal_or_never_started_is_reported_by_a_code() -> None:
    def code(*command: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "lab.process.parent_death", *command], cwd=ROOT, check=False
        ).returncode

    assert code(sys.executable, "-c", "import os; os.abort()") == 128 + signal.SIGABRT
    assert code(sys.executable, "-c", "raise SystemExit(7)") == 7
    assert code("/no/such/program") == 1
