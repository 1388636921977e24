"""An order for a program that another program starts, such as a profiler, which need not hand on stdin or descriptors.

It goes through a named pipe. The program opens the pipe once it has loaded everything, and so tells that it waits.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class OrderPipe:
    """The end of the pipe that the order goes into. Always call `close`: a program that still waits then gets none."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="lab-order-")  # not beside the report, whose file system may have no pipes
        self.path = Path(folder) / "order"
        self._writer: int | None = None
        try:
            os.mkfifo(self.path)
        except BaseException:
            self._remove()
            raise

    def is_awaited(self) -> bool:
        """Whether the program has opened its end, now or before."""
        if self._writer is None:
            try:
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as refusal:
                if refusal.errno != errno.ENXIO:  # nobody has opened it for reading
                    raise
            else:
                self._remove()
        return self._writer is not None

    def give(self, order: Mapping[str, Any]) -> None:
        """To a program that awaits it. One that has ended meanwhile says how by its exit status."""
        assert self._writer is not None
        os.set_blocking(self._writer, True)
        with suppress(BrokenPipeError), os.fdopen(self._writer, "wb") as pipe:
            self._writer = None
            pipe.write(json.dumps(order).encode())

    def _remove(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)

    def close(self) -> None:
        self._remove()
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None


def awaited(path: Path) -> Mapping[str, Any] | None:
    """For the program: wait for its order. None if there will be none, because who would give it has ended."""
    text = path.read_text(encoding="utf-8")
    return dict(json.loads(text)) if text else None
