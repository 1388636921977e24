"""What `lab doctor` can tell of the profiler before a run asks it."""

import stat
from pathlib import Path

import pytest

from lab import doctor

ROOT_USER, ROOT_IN_A_CONTAINER, USER = "000001ffffffffff", "00000000a80425fb", "0000000000000000"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with ncu, whose /proc is the folder that comes back."""
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\necho Version 2025.3.1.0\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    proc = tmp_path / "proc"
    parameters = proc / "driver" / "nvidia" / "params"
    parameters.parent.mkdir(parents=True)
    monkeypatch.setattr(doctor, "PROC", proc)
    monkeypatch.setattr(doctor, "PARAMETERS", parameters)
    return proc


def restrict(proc: Path, to_administrators: int, capabilities: str) -> None:
    doctor.PARAMETERS.write_text(f"RmMsg: \nRmProfilingAdminOnly: {to_administrators}\n")
    (proc / "self").mkdir()
    (proc / "self" / "status").write_text(f"Name:\tlab\nCapEff:\t{capabilities}\n")


def lines_about(about: str) -> list[str]:
    return [line for line in doctor.examine() if line.split()[1] == about]


def test_ncu_that_is_there_is_reported_with_its_version(machine: Path) -> None:
    assert lines_about("ncu") == ["ok     ncu        2025.3.1.0"]


@pytest.mark.parametrize(
    ("only_administrators", "capabilities", "lacks"),
    [(0, USER, False), (1, USER, True), (1, ROOT_USER, False), (1, ROOT_IN_A_CONTAINER, True)],
)
def test_counters_that_the_driver_reserves_are_reported_with_the_remedy(
    machine: Path, only_administrators: int, capabilities: str, lacks: bool
) -> None:
    restrict(machine, only_administrators, capabilities)
    lines = lines_about("counters")
    assert bool(lines) == lacks
    assert all("NVreg_RestrictProfilingToAdminUsers=0" in line and line.startswith("lacks") for line in lines)


@pytest.mark.parametrize(("process", "noted"), [("nv-hostengine", True), ("python3", False)])
def test_a_tool_that_may_hold_the_counters_is_noted(machine: Path, process: str, noted: bool) -> None:
    (machine / "4711").mkdir()
    (machine / "4711" / "comm").write_text(f"{process}\n")
    lines = lines_about("DCGM")
    assert bool(lines) == noted
    assert all("dcgmi profile --pause" in line for line in lines)
