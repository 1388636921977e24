"""What lies in the folder of a site: the size and time of every file, and of every folder the time of its last change.

To list thousands of folders takes longer than to ask for the times of what is known to lie there. A folder's time
changes when anything comes, goes or gets another name in it, so that nothing is overlooked.
"""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

TICK_SECONDS = 0.02  # file systems tell times by the kernel's tick, of which two changes may share one
Stamp = list[int]  # size, time of the last change, and which file it is: two may be exchanged


def stamp_of(told: os.stat_result) -> Stamp:
    return [told.st_size, told.st_mtime_ns, told.st_ino]


def scan(out: Path) -> tuple[dict[str, Stamp], list[str]]:
    """The stamp of every file, by its path from there; and the folders that hold nothing."""
    found: dict[str, Stamp] = {}
    empty: list[str] = []
    waiting = [(str(out), "")] if out.is_dir() else []
    while waiting:
        place, prefix = waiting.pop()
        with os.scandir(place) as scanned:
            entries = list(scanned)
        if not entries:
            empty.append(prefix.removesuffix("/"))
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, f"{prefix}{entry.name}/"))
            else:
                found[prefix + entry.name] = stamp_of(entry.stat(follow_symlinks=False))
    return found, empty


def folders(out: Path, files: Iterable[str]) -> dict[str, int]:
    """The time of every folder that holds one of these files, or such a folder; whatever comes after has another."""
    time.sleep(TICK_SECONDS)
    found = {"."}
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return {path: os.lstat(f"{out}/{path}").st_mtime_ns for path in found}


def untouched(out: Path, files: Mapping[str, Stamp], folders: Mapping[str, int]) -> bool:
    """Whether these files lie there as they did, and nothing else."""
    if not folders:
        return False
    try:
        at = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        for path, changed in folders.items():
            if os.stat(path, dir_fd=at, follow_symlinks=False).st_mtime_ns != changed:
                return False
        for path, stamp in files.items():
            if stamp_of(os.stat(path, dir_fd=at, follow_symlinks=False)) != stamp:
                return False
    except OSError:
        return False
    finally:
        os.close(at)
    return True
