"""The process on one GPU, `lab.supervisor.board`, from the host that the GPU is in."""

import json
import math
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.cluster.link import LAST, GpuGone
from lab.evidence.source import OWN_MODULE
from lab.process.channel import Garbled, Reader


class BoardProcess:
    """`environment` is all that the process is given; it works in `folder`. It is nobody's child, and ends when this
    one does."""

    def __init__(self, environment: Mapping[str, str], folder: Path | None = None) -> None:
        self._frames, writer = os.pipe()
        self._reader = Reader(self._frames)
        try:
            starter = subprocess.Popen(
                [sys.executable, *OWN_MODULE, "lab.supervisor.board", str(writer)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[writer],
                env=dict(environment), cwd=folder,
            )  # fmt: skip
        finally:
            os.close(writer)
        assert starter.stdin is not None
        self._orders = starter.stdin
        starter.wait()  # it has left another process behind

    def ask(self, order: Mapping[str, Any]) -> Iterator[Any]:
        """As Link.ask."""
        try:
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()
            for frame in self._reader.frames(math.inf):
                yield frame
                if frame["kind"] in LAST:
                    return
        except (OSError, ValueError, Garbled) as problem:  # ValueError: `end` has closed the file
            raise GpuGone(f"its process cannot be talked to ({type(problem).__name__})") from None
        raise GpuGone("its process ended, or was killed")

    def end(self) -> None:
        """Let it end all that it does. Returns at once."""
        with suppress(OSError):
            self._orders.close()

    def wait_until_ended(self, patience_seconds: float) -> bool:
        """Whether it has ended within the time."""
        poll = select.poll()
        poll.register(self._frames, 0)  # only whether all writers have closed it
        return bool(poll.poll(patience_seconds * 1000))
