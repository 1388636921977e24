"""Compiles before the first sweep, on many cores at once, so that nothing is compiled while a sweep measures.

Each process calls a share of the cells once. It need not succeed: a sweep compiles what is left.
"""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lab.process.child import Child
from lab.supervisor.caches import Cache, Caches
from lab.supervisor.run_state import Key

MOST_PROCESSES = 12  # each takes some gigabytes of memory
PROCESS_BYTES = 4 << 30
WAIT_SECONDS = 0.05


class Precompilation:
    """The processes that compile before the first sweep. Use as a context manager: none outlives it."""

    def __init__(self, directory: Path, limit_seconds: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._limit_seconds = limit_seconds
        self._say = say
        self._started: list[tuple[Child, Callable[[], None]]] = []  # with what to do after it has ended
        self._began = 0.0
        self.seconds = 0.0  # that the compiling took, from its start to its end

    def __enter__(self) -> "Precompilation":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(
        self, caches: Caches, cells: Sequence[Key], left_out: Sequence[tuple[str, str]], sharing: int = 1
    ) -> None:
        """Begin to compile; `cells` in the order in which they are dealt to the processes. `sharing`: how many do this
        on the same host at once."""
        self._began = time.monotonic()
        dealt = deal(cells, max(1, most_processes() // sharing))
        self._say(f"compiling {len(cells)} cells ahead, in {len(dealt)} processes")
        log = self._directory / "logs" / "ahead.log"
        log.parent.mkdir(exist_ok=True)
        for share in dealt:
            cache = caches.fresh()
            with log.open("a") as output:
                child = Child(
                    "lab.worker.precompile", [str(self._directory)], output,
                    environment={"TORCHINDUCTOR_COMPILE_THREADS": "1", **cache.environment},
                )  # fmt: skip
            self._started.append((child, partial(_hand_over, caches, cache)))
            child.order(json.dumps({"cells": share, "left_out": list(left_out)}))

    def finish(self) -> None:
        """Wait until all is compiled, or the time is up, and gather the binaries. From here on nothing compiles."""
        if not self._started:
            return
        deadline = self._began + self._limit_seconds
        while time.monotonic() < deadline and not all(child.exit_status() for child, _ in self._started):
            time.sleep(WAIT_SECONDS)
        self._end()
        self.seconds = time.monotonic() - self._began

    def _end(self) -> None:
        for child, _ in self._started:
            child.end(grace_seconds=0.0)
        for _, hand_over in self._started:
            hand_over()
        self._started.clear()


def _hand_over(caches: Caches, cache: Cache) -> None:
    caches.gather(cache)
    caches.discard(cache)


def deal(cells: Sequence[Key], processes: int) -> list[list[Key]]:
    """The cells in as many shares, as equal as can be; none is empty."""
    shares = [list(cells[number::processes]) for number in range(processes)]
    return [share for share in shares if share]


def most_processes() -> int:
    """How many can run at once: half of this process's cores, for workers load beside them, and as memory allows."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores // 2, MOST_PROCESSES, _available_bytes() // PROCESS_BYTES))


def _available_bytes() -> int:
    """Bytes of memory that are available without Linux's file cache; 0 if unknown."""
    meminfo = Path("/proc/meminfo")
    text = meminfo.read_text(encoding="utf-8") if meminfo.is_file() else ""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) << 10 if match else 0
