"""Kernels whose PTX is changed before it is assembled, for instructions that Gluon of Triton 3.6 does not have."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton import knobs

from lab.kernels.launch import Launch, capability

TRIED = ("3.6.",)  # versions of Triton, on a GPU; the tests change the PTX of 3.7.1 too, which ran on none
_ONE_AT_A_TIME = threading.RLock()  # Triton has one hook for all threads


class Change(NamedTuple):
    """apply: the PTX of a kernel to the changed one; it finds what to change by marks with `version`, and leaves other
    kernels as they are."""

    version: str
    apply: Callable[[str], str]


def version_of(file: str) -> str:
    """For the marks of a change. Triton keeps compiled kernels under a digest of their source, which must change if the
    file with the change does, or this one."""
    return hashlib.sha256(Path(file).read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]


def not_known(found: str) -> RuntimeError:
    return RuntimeError(f"the PTX of Triton {triton.__version__} is not that of Triton 3.6: {found}")


def can_change(device: int) -> bool:
    """Whether kernels on the GPU with this index may be changed: on a Hopper, with a Triton whose PTX is known."""
    return capability(device)[0] == 9 and triton.__version__.startswith(TRIED)


class ChangedLaunch(Launch):
    """The launch of a kernel that is compiled with `changes`."""

    __slots__ = ("_changes",)

    def __init__(self, *arguments: Any, changes: tuple[Change, ...], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._changes = changes

    def _launch_by_triton(self, arguments: tuple[Any, ...]) -> None:
        with changing(*self._changes):
            super()._launch_by_triton(arguments)


@contextmanager
def changing(*changes: Change) -> Iterator[None]:
    """While this is entered, marked kernels are compiled with `changes`. It does not touch others, but another thread
    must not change Triton's hook meanwhile. One thread at a time is in here."""
    with _ONE_AT_A_TIME, _hooked(changes):
        yield


@contextmanager
def _hooked(changes: tuple[Change, ...]) -> Iterator[None]:
    before = knobs.runtime.add_stages_inspection_hook
    version = "".join(change.version for change in changes)

    def hook(backend: Any = None, stages: Any = None, *rest: Any) -> tuple[str, str] | None:
        told = None if before is None else before(*(() if backend is None else (backend, stages, *rest)))
        if backend is None:  # Triton 3.7 asks for the keys of its caches
            key, digest = told or ("", "")
            return key + version, digest + version
        make: Callable[..., str] = stages["ptx"]

        def changed(source: Any, metadata: Any) -> str:
            ptx = make(source, metadata)
            for change in changes:
                ptx = change.apply(ptx)
            return ptx

        stages["ptx"] = changed
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = before
