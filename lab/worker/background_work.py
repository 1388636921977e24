"""Detects threads and children that a profile leaves behind and that work while another profile is timed."""

import os
import time
from _thread import _count as python_threads
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

TASKS = Path("/proc/self/task")
TASK = f"{TASKS}/"
LARGEST_SHARE = 0.02  # of the time that others were timed
MOST_STARTS = 2  # of threads that outlive their call, in one block: a pool may still be growing
START_SECONDS = 0.5  # of a child's work: it has to start, and to import what it will need
SHORTEST_SECONDS = 0.005  # of work: less could be a thread's last steps
ENOUGH_TO_SPLIT = 1 << 20  # elements: torch starts its own threads for so many


@dataclass(slots=True)
class _Member:
    """A thread or a child: whose it is, its processor time when last seen, and that spent beside others."""

    owner: str
    seconds: float
    beside: float = 0.0
    elapsed: float = 0.0


class BackgroundWork:
    """Knows the threads and children of this process, and which profile ran when each of them appeared."""

    def __init__(self) -> None:
        torch.ones(ENOUGH_TO_SPLIT).add_(1.0)  # torch's own threads work for every profile
        self._threads = self._usual = python_threads()
        self._known = set(_present())
        self._members: dict[str, _Member] = {}
        self._seen = time.monotonic()
        self._inside = self._outside = 0.0  # seconds that a profile's own threads worked in its calls and between them
        self._last: float | None = None
        self._at_call = self._rises = 0

    def before_call(self, profile: str) -> None:
        """A call of it is about to be prepared."""
        self._at_call = python_threads()
        if self._at_call > self._usual:
            self._outside += self._since_last(profile)

    def after_call(self, profile: str) -> None:
        """A call has returned and its clock has stopped."""
        threads = python_threads()
        if threads > self._usual:
            self._inside += self._since_last(profile)
        self._rises += threads > self._at_call

    def look(self, profile: str) -> Iterator[tuple[str, str]]:
        """(profile, what it did) of each whose thread or child worked while `profile`, which ran last, was timed."""
        if self._outside > max(SHORTEST_SECONDS, self._inside) or self._rises > MOST_STARTS:
            yield profile, "its threads worked on when its calls had returned"
        self._inside, self._outside, self._rises = 0.0, 0.0, 0
        now, present, threads = time.monotonic(), _present(), python_threads()
        elapsed, self._seen = now - self._seen, now
        for path in present:
            own = path.startswith(TASK) and threads <= self._threads and path not in self._members
            if own:
                self._known.add(path)  # a library's, such as OpenMP's: it may serve all
            elif path not in self._known and (seconds := _processor_seconds(path)) is not None:
                member = self._members.setdefault(path, _Member(profile, seconds))
                allowed_seconds = SHORTEST_SECONDS if path.startswith(TASK) else START_SECONDS
                if _worked_beside_others(member, profile, seconds, elapsed, allowed_seconds):
                    yield member.owner, "a thread or process that it started worked while another profile was timed"
        self._threads = max(self._threads, threads)
        self._last = None

    def _since_last(self, profile: str) -> float:
        """How long the threads that the profile started have worked since this was asked of it in this block."""
        own = (path for path, member in self._members.items() if member.owner == profile and path.startswith(TASK))
        before, self._last = self._last, sum(_processor_seconds(path) or 0.0 for path in own)
        return 0.0 if before is None else self._last - before


def _worked_beside_others(
    member: _Member, profile: str, seconds: float, elapsed: float, allowed_seconds: float
) -> bool:
    if member.owner != profile:
        member.beside += seconds - member.seconds
        member.elapsed += elapsed
    member.seconds = seconds
    return member.beside > max(allowed_seconds, LARGEST_SHARE * member.elapsed)


def _present() -> list[str]:
    """Where the kernel tells of each thread of this process, and of each of its children."""
    paths = []
    for thread in os.listdir(TASKS) if TASKS.is_dir() else ():
        paths.append(f"{TASKS}/{thread}/schedstat")
        with suppress(OSError):
            children = (TASKS / thread / "children").read_text().split()
            paths += [f"/proc/{child}/schedstat" for child in children]
    return paths


def _processor_seconds(path: str) -> float | None:
    """None where the kernel does not tell, or no longer."""
    try:
        with open(path) as file:
            return int(file.read().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):
        return None
