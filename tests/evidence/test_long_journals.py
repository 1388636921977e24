"""A journal may be larger than the memory: it is read line by line, and what is kept of it is smaller than the file."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from factory import cell

from lab.evidence import journal
from lab.evidence.journal import read, seal_of
from lab.evidence.record import Record, Timing

SHORT, LONG = 250, 1000  # records
CASES = 50


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    short, long = (tmp_path_factory.mktemp("journals") / journal.NAME for _ in range(2))
    journal.append(short, *(measured(number) for number in range(SHORT)))
    journal.append(long, *(measured(number) for number in range(LONG)))
    return short, long


def measured(number: int) -> Record:
    samples = tuple(tuple((number + r + s + 1) * 1.25e-7 for s in range(12)) for r in range(6))
    timing = Timing(scope="device_cold", rounds=samples, void=(0,) * 6, enqueue_seconds=5e-6, spin_seconds=2e-4)
    return cell("doubling", f"case-{number % CASES}", "fast", number // CASES, timings=(timing,))


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python's objects took meanwhile, with what it returns."""
    before = work()  # what is made once and kept for all does not count
    tracemalloc.start()
    after = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del before, after
    return peak


def test_checking_a_journal_takes_no_more_memory_for_more_records(journals: tuple[Path, Path]) -> None:
    short, long = (peak_bytes(lambda path=path: seal_of(path)) for path in journals)
    assert long < 1.5 * short


def test_reading_a_journal_takes_less_memory_than_it_has_bytes(journals: tuple[Path, Path]) -> None:
    _, long = journals
    assert peak_bytes(lambda: read(long)) < long.stat().st_size
