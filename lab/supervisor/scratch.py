"""A folder of a process's own in the system's place for such, and the end of those whose processes were killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "lab-board-"
OLD_SECONDS = 3600.0  # a younger one may not have its lock yet


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder, which is locked while it is used. Older ones that nobody uses any more are removed."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        lock = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_abandoned(Path(name))
            yield Path(name)
        finally:
            os.close(lock)


def _remove_abandoned(new: Path) -> None:
    """Those beside a folder that was just made."""
    for folder in new.parent.glob(f"{PREFIX}*"):
        try:
            age_seconds = new.stat().st_mtime - folder.stat().st_mtime
            if folder.stat().st_uid != os.getuid() or age_seconds < OLD_SECONDS:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except OSError:  # another process has removed it meanwhile
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
