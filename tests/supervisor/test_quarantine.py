"""Which profiles are not run again, told by what is on record of their crashes and not by its words."""

import dataclasses

from factory import cell

from lab.evidence.record import Cell
from lab.supervisor.quarantine import crash_reason, not_loadable, quarantined


def crash(stage: str, case: str = "c", fault: str = "") -> Cell:
    reason = crash_reason("was killed by SIGSEGV", stage, fault, "sweep-0.log")
    return dataclasses.replace(cell("e", case, "p", 0, outcome="crashed", reason=reason), stage=stage)


def test_a_crash_while_loading_is_enough() -> None:
    assert quarantined([crash("load")], "e", "p", 2) == "quarantined: crashed while it was loaded, in sweep 1"
    assert not_loadable([crash("load")]) == [("e", "p")]


def test_a_fault_that_speaks_of_loading_is_none_of_loading() -> None:
    speaks = crash("time", fault="OSError: libfoo.so: undefined symbol (load)")
    assert quarantined([speaks], "e", "p", 2) == ""
    assert not_loadable([speaks]) == []


def test_crashes_of_others_and_cells_that_were_not_run_do_not_count() -> None:
    not_run = dataclasses.replace(crash("time"), stage="", reason="quarantined: crashed twice")
    assert quarantined([crash("time"), not_run], "e", "p", 2) == ""
    assert quarantined([crash("time"), crash("check")], "e", "other", 2) == ""
    assert quarantined([crash("time"), crash("check", "d")], "e", "p", 2) == (
        "quarantined: crashed twice, last at d in sweep 1"
    )
    assert quarantined([crash("time"), crash("check")], "e", "p", 0) == ""
