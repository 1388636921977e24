"""Run directories by their names, packages that a command needs, and what is said while it works."""

import errno
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from lab.errors import MissingPackage, RunError
from lab.evidence import journal
from lab.project import project
from lab.suggest import did_you_mean
from lab.terminal import printable

MOST_TOLD = 20  # runs that a message lists
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FOR_PAGES = ("jinja2", "markdown_it", "yaml")


def directory_of(name: str) -> Path:
    """A run id under runs/, or the path of a run directory. RunError where neither is there."""
    runs = project().runs
    for directory in (runs / name, Path(name)):
        if directory.is_dir():
            return directory
    there = sorted((path.parent.name for path in runs.glob("*/plan.json")), reverse=True)
    listed = f"runs there: {', '.join(there[:MOST_TOLD])}" if there else "no run is there yet"
    raise RunError(f"no run {name!r} under {runs}, and no directory of that path; {listed}{did_you_mean(name, there)}")


def all_runs() -> list[Path]:
    """The directories of all published runs and of all runs under runs/. RunError where there is none."""
    places = (project().evidence, project().runs)
    folders = (folder for place in places for folder in place.glob("*/"))
    if directories := sorted(folder for folder in folders if journal.find(folder)):
        return directories
    raise RunError(f"no run under {places[1]}, and none is published in {places[0]}")


def lacking(*packages: str) -> list[str]:
    return [package for package in packages if importlib.util.find_spec(package) is None]


def need(*packages: str) -> None:
    if missing := lacking(*packages):
        raise MissingPackage(f"{', '.join(missing)} not installed here")


def in_words(refusal: OSError) -> str:
    """What the system refused, where, and what to do; also that no measurement is lost by it, where that is so."""
    where = f"{refusal.filename}: " if refusal.filename else ""
    if refusal.errno == errno.ENOENT:  # nothing can be promised of what somebody has deleted
        return f"{where}{refusal.strerror}; was it moved or deleted meanwhile? Put it back, or use another run id"
    repair = "make room" if refusal.errno in FULL else "make it readable and writable"
    return (
        f"{where}{refusal.strerror or refusal}; what was measured is kept: {repair}, or name another place with "
        "LAB_RUNS or TMPDIR, and give the command again"
    )


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def tell(text: str) -> None:
    print(printable(text))


def tell_lines(lines: Iterable[str]) -> None:
    """Each as soon as it is made."""
    for line in lines:
        tell(line)
