"""Compiles ahead of the first sweep, on many cores at once, so that sweeps need not, and nothing compiles beside them.

Each process calls a share of the cells once. It need not succeed: what it leaves out a sweep compiles for itself.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lab.evidence.source import OWN_MODULE, child_environment
from lab.supervisor.caches import Cache, Caches
from lab.supervisor.ledger import Key
from lab.supervisor.orphan import mark_parent

MOST_PROCESSES = 12  # each takes some gigabytes of memory
PROCESS_BYTES = 4 << 30
WAIT_SECONDS = 0.05


class Ahead:
    """The processes that compile ahead. Use as a context manager: none outlives it."""

    def __init__(self, directory: Path, limit_seconds: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._limit_seconds = limit_seconds
        self._say = say
        self._started: list[tuple[subprocess.Popen[Any], Callable[[], None]]] = []  # what to do once it has ended
        self._began = 0.0
        self.seconds = 0.0  # that the compiling took, from its start to its end

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self, caches: Caches, cells: Sequence[Key], left_out: Sequence[tuple[str, str]]) -> None:
        """Begin to compile; `cells` in the order in which they are dealt to the processes."""
        self._began = time.monotonic()
        dealt = deal(cells, most_processes())
        self._say(f"compiling {len(cells)} cells ahead, in {len(dealt)} processes")
        log = self._directory / "logs" / "ahead.log"
        log.parent.mkdir(exist_ok=True)
        for share in dealt:
            cache = caches.fresh()
            with log.open("a") as output:
                process = subprocess.Popen(
                    [sys.executable, *OWN_MODULE, "lab.worker.ahead", str(self._directory)],
                    stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
                    env={
                        **child_environment(), "TORCHINDUCTOR_COMPILE_THREADS": "1", **cache.environment,
                        **mark_parent(),
                    },
                )  # fmt: skip
            self._started.append((process, partial(_hand_over, caches, cache)))
            with suppress(BrokenPipeError), process.stdin as orders:  # type: ignore[union-attr]
                orders.write(json.dumps({"cells": share, "left_out": list(left_out)}).encode())

    def finish(self) -> None:
        """Wait until all is compiled, or the time is up, and gather the binaries. From here on nothing compiles."""
        if not self._started:
            return
        deadline = self._began + self._limit_seconds
        while time.monotonic() < deadline and not all(_has_ended(process) for process, _ in self._started):
            time.sleep(WAIT_SECONDS)
        self._end()
        self.seconds = time.monotonic() - self._began

    def _end(self) -> None:
        for process, _ in self._started:
            # Until it is waited for, an ended leader keeps the group's number from being given to another.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for _, hand_over in self._started:
            hand_over()
        self._started.clear()


def _hand_over(caches: Caches, cache: Cache) -> None:
    caches.gather(cache)
    caches.discard(cache)


def _has_ended(process: subprocess.Popen[Any]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def deal(cells: Sequence[Key], processes: int) -> list[list[Key]]:
    """The cells in as many shares, as equal as can be; none is empty."""
    shares = [list(cells[number::processes]) for number in range(processes)]
    return [share for share in shares if share]


def most_processes() -> int:
    """How many can run at once: half of this process's cores, for workers load beside them, and as memory allows."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores // 2, MOST_PROCESSES, _available_bytes() // PROCESS_BYTES))


def _available_bytes() -> int:
    """Memory that a process may still take, without what Linux keeps of files; 0 where it is not told."""
    meminfo = Path("/proc/meminfo")
    text = meminfo.read_text(encoding="utf-8") if meminfo.is_file() else ""
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0
