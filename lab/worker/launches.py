"""Which Triton kernels a piece of code launches: a profile that names its own kernel must launch it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def seen() -> Iterator[set[str]]:
    """Names of the kernels launched through Triton inside the block, as they come."""
    from triton import knobs

    names: set[str] = set()

    def note(metadata: Any) -> None:
        names.add(str(metadata.get()["name"]))

    knobs.runtime.launch_enter_hook.add(note)
    try:
        yield names
    finally:
        knobs.runtime.launch_enter_hook.remove(note)


@contextmanager
def interpreted() -> Iterator[list[None]]:
    """An item for each kernel that Triton's interpreter runs inside the block, in place of a compiled one."""
    runs: list[None] = []
    if os.environ.get("TRITON_INTERPRET") != "1":
        yield runs
        return
    from triton.runtime.interpreter import GridExecutor

    original = GridExecutor.__call__

    def noting(executor: Any, *arguments: Any, **named: Any) -> Any:
        runs.append(None)
        return original(executor, *arguments, **named)

    GridExecutor.__call__ = noting
    try:
        yield runs
    finally:
        GridExecutor.__call__ = original
