"""A child that begins when its parent has ended already. One that is left later: see test_run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.evidence.source import ROOT
from lab.supervisor.orphan import mark_parent

BEGINS = "from lab.supervisor.orphan import die_with_parent; die_with_parent(); print('lives')"


@pytest.mark.parametrize(
    ("marked", "code", "told"),
    [(mark_parent(), 0, "lives\n"), ({}, 0, "lives\n"), ({"LAB_SUPERVISOR_PROCESS": "1"}, -signal.SIGKILL, "")],
)
def test_only_a_child_of_a_parent_that_is_gone_ends_at_once(marked: dict[str, str], code: int, told: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", BEGINS], cwd=ROOT, env=os.environ | marked, capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stdout) == (code, told)


# As a profiler does: it starts what it looks at, which starts more; each writes that it lives.
BEATS = "import time\nwhile True: open({file!r}, 'a').write('.'); time.sleep(0.02)"
PROFILES = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {beats!r}])
time.sleep(60)
"""
SUPERVISES = """
from pathlib import Path
import sys
from lab.profiler.ncu import _run
_run([sys.executable, "-c", {profiles!r}], Path({log!r}), 60.0)
"""


def test_a_profiler_and_what_it_started_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    profiles = PROFILES.format(beats=BEATS.format(file=str(beats)))
    program = SUPERVISES.format(profiles=profiles, log=str(tmp_path / "log"))
    supervisor = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    give_up = time.monotonic() + 30
    while not beats.is_file():
        assert time.monotonic() < give_up, "nothing was started within half a minute"
        time.sleep(0.02)
    supervisor.kill()
    supervisor.wait()
    time.sleep(1.0)
    last = beats.stat().st_size
    time.sleep(0.5)
    assert beats.stat().st_size == last, "what the profiler started outlived the supervisor"


def test_what_ended_by_a_signal_or_never_started_is_told_by_a_code() -> None:
    def code(*command: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "lab.supervisor.orphan", *command], cwd=ROOT, check=False
        ).returncode

    assert code(sys.executable, "-c", "import os; os.abort()") == 128 + signal.SIGABRT
    assert code(sys.executable, "-c", "raise SystemExit(7)") == 7
    assert code("/no/such/program") == 1
