"""Which Triton kernels a piece of code launches: a profile that names its own kernel must launch it."""

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
