"""An order for a program that another program starts, such as a profiler, which need not hand on stdin or descriptors.

It goes through a named pipe. The program opens the pipe once it has loaded everything, and so tells that it waits.
"""

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class OrderPipe:
    """The end of the pipe that the order goes into. Always call `close`: a program that still waits then gets none."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        self.path = path
        self._writer: int | None = None

    def is_awaited(self) -> bool:
        """Whether the program has opened its end, now or before."""
        if self._writer is None:
            try:
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as refusal:
                if refusal.errno != errno.ENXIO:  # nobody has opened it for reading
                    raise
            else:
                self.path.unlink()  # a copy of the folder must not wait for what comes out of it
        return self._writer is not None

    def give(self, order: Mapping[str, Any]) -> None:
        """To a program that awaits it. One that has ended meanwhile says how by its exit status."""
        assert self._writer is not None
        os.set_blocking(self._writer, True)
        with suppress(BrokenPipeError), os.fdopen(self._writer, "wb") as pipe:
            self._writer = None
            pipe.write(json.dumps(order).encode())

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None


def awaited(path: Path) -> Mapping[str, Any] | None:
    """For the program: wait for its order. None if there will be none, because who would give it has ended."""
    text = path.read_text(encoding="utf-8")
    return dict(json.loads(text)) if text else None
