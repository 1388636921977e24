"""Locks of a run directory and of a GPU. The system releases a lock when its process ends."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import RunError

# Not tempfile's: two users, or two jobs, may have a TMPDIR each.
FOLDER = Path("/tmp")
ATTEMPTS = 10


@contextmanager
def run_lock(directory: Path) -> Iterator[None]:
    """Be alone in a run directory; RunError where another process is."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{directory}: another process is measuring this run; wait for it, or use another run id"
            ) from None
        yield


@contextmanager
def gpu_lock(device: str, identity: str) -> Iterator[None]:
    """Be the only run on the GPU of this identity, among all users and checkouts of this machine; RunError where
    another is. Runs on the CPU take no lock."""
    if device != "cuda":
        yield
        return
    path = FOLDER / f"lab-gpu-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.lock"
    descriptor = _open_shared(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "that has just begun"
            raise RunError(
                f"another run is on this GPU: process {holder} holds {path}. Wait for it, "
                "or choose another GPU with CUDA_VISIBLE_DEVICES"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open_shared(path: Path) -> int:
    """Open a file that any user may lock, made where it is not there yet."""
    how = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(ATTEMPTS):
        try:
            # Linux refuses O_CREAT on another user's file in a sticky folder (fs.protected_regular).
            return os.open(path, how)
        except FileNotFoundError:
            mask = os.umask(0)
            try:
                return os.open(path, how | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:  # another run made it in the meantime
                continue
            finally:
                os.umask(mask)
        except OSError as refusal:
            raise RunError(f"{path}: the GPU's lock cannot be opened: {refusal.strerror}") from None
    raise RunError(f"{path}: the GPU's lock file was removed repeatedly; nothing but the lab should touch it")
