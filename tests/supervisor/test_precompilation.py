"""How what is compiled ahead is spread over processes."""

import os

import pytest

from lab.supervisor import precompilation
from lab.supervisor.precompilation import deal, most_processes

CELLS = [("e", "case", str(number)) for number in range(7)]


def test_cells_are_dealt_in_turn_and_no_process_is_started_for_none() -> None:
    shares = deal(CELLS, 3)
    assert [len(share) for share in shares] == [3, 2, 2]
    assert [share[0] for share in shares] == CELLS[:3]
    assert len(deal(CELLS, 20)) == 7
    assert deal([], 4) == []


def test_cells_that_need_much_memory_share_one_process() -> None:
    large = {CELLS[1], CELLS[4], CELLS[6]}
    shares = deal(CELLS, 3, large)
    assert shares == [[CELLS[1], CELLS[4], CELLS[6]], [CELLS[0], CELLS[3]], [CELLS[2], CELLS[5]]]
    assert deal(CELLS, 1, large) == [[*(CELLS[i] for i in (0, 2, 3, 5)), *(CELLS[i] for i in (1, 4, 6))]]
    assert deal(CELLS[:1], 4, CELLS) == [CELLS[:1]]


@pytest.mark.parametrize(("cores", "gigabytes", "processes"), [(16, 100, 8), (64, 100, 12), (16, 9, 2), (2, 1, 1)])
def test_processes_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, cores: int, gigabytes: int, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr(precompilation, "_available_bytes", lambda: gigabytes << 30)
    assert most_processes() == processes
