"""A child that begins when its parent has ended already. One that is left later: see test_run."""

import os
import signal
import subprocess
import sys

import pytest

from lab.orphan import mark_parent
from lab.source import ROOT

BEGINS = "from lab.orphan import die_with_parent; die_with_parent(); print('lives')"


@pytest.mark.parametrize(
    ("marked", "code", "told"),
    [(mark_parent(), 0, "lives\n"), ({}, 0, "lives\n"), ({"LAB_SUPERVISOR_PROCESS": "1"}, -signal.SIGKILL, "")],
)
def test_only_a_child_of_a_parent_that_is_gone_ends_at_once(marked: dict[str, str], code: int, told: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", BEGINS], cwd=ROOT, env=os.environ | marked, capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stdout) == (code, told)
