"""Two folders change places at once: readers have the whole old or the whole new one, whatever is killed when."""

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path

HERE, EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
MISSING = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # in the kernel, or in the file system


def exchange(fresh: Path, place: Path) -> None:
    """`place` becomes what `fresh` is, and `fresh` what was there; it is gone where nothing was."""
    if not place.exists():
        fresh.rename(place)
    elif not _at_once(fresh, place):
        aside = _aside(place)
        place.rename(aside)
        fresh.rename(place)
        aside.rename(fresh)


def recover(place: Path) -> None:
    """Mend what an exchange in several steps left that was killed between them."""
    aside = _aside(place)
    if aside.exists():
        if place.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(place)


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}-before")


def _at_once(one: Path, other: Path) -> bool:
    """False where this system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        return False
    if renameat2(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in MISSING:
        return False
    raise OSError(problem, os.strerror(problem), str(other))
