"""What a run needs of a GPU that it shares its work with, however that is reached."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

# Kinds of frames that end the answer to an order.
LAST = ("hello", "prepared", "done", "refused", "gone")


class GpuGone(Exception):
    """A GPU answers no more. The message says why, as in 'GPU 2: ...', and names no host: it is journalled."""


class Link(Protocol):
    """To one GPU."""

    def ask(self, order: Mapping[str, Any]) -> Iterator[Any]:
        """Frames, as they come, up to one of a kind in LAST. GpuGone where they end before."""

    def end(self) -> None:
        """Let it end all that it does, at once. May be called twice, and while another thread waits for frames."""


class Crew(Protocol):
    """GPUs of one host or of a cluster. Use as a context manager: after it all that was started ends by itself, within
    seconds."""

    @property
    def size(self) -> int:
        """How many GPUs there are for this run."""

    def start(self, slot: int) -> Link:
        """Reach for a GPU, of slots 0 to size - 1; again for a slot whose GPU was lost. Does not wait for a
        free one: where there is none, the first answer takes until there is."""

    def __enter__(self) -> "Crew": ...

    def __exit__(self, *error: object) -> None: ...
