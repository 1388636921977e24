"""Length-prefixed JSON frames over a pipe, apart from stdout, so that a chatty library cannot garble them."""

import json
import os
import select
import struct
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

HEADER = struct.Struct(">I")
LARGEST_FRAME_BYTES = 64 << 20
LOOK_SECONDS = 0.5  # between two looks at whether the writer still lives


class Garbled(Exception):
    """The pipe delivered something that is not a valid frame."""


class FramesTimeout(TimeoutError):
    """All frames together take longer than they may."""


def send(descriptor: int, data: Any) -> None:
    """Write one frame, waiting for the reader where the pipe is full."""
    content = json.dumps(data, allow_nan=False).encode()
    frame = memoryview(HEADER.pack(len(content)) + content)
    while frame:
        frame = frame[os.write(descriptor, frame) :]


class Reader:
    """The end of the pipe that frames come out of."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = b""

    def frames(
        self, silence_seconds: float, limit_seconds: float = 0.0, ended: Callable[[], bool] = lambda: False
    ) -> Iterator[Any]:
        """Frames until the writer closes, or has `ended` and left its end to a child. TimeoutError where patience with
        its silence (from now or the last frame) ends; FramesTimeout where there is a limit for it all, and that is
        reached. Garbled for what is no frame."""
        began = heard = monotonic()
        while True:
            while (frame := self._cut()) is not None:
                yield frame[0]
            now = monotonic()
            if limit_seconds and now > began + limit_seconds:
                raise FramesTimeout(f"took more than {limit_seconds:.0f} s in all")
            # A reader that was itself stopped for long, as by Ctrl-Z, still takes what lies in the pipe.
            left = max(0.0, heard + silence_seconds - now)
            waits = min(left, began + limit_seconds - now) if limit_seconds else left
            over = ended()  # before the last look into the pipe, so that nothing is left in it
            if select.select([self._descriptor], [], [], 0.0 if over else min(waits, LOOK_SECONDS))[0]:
                if not (chunk := os.read(self._descriptor, 1 << 16)):
                    return
                self._waiting += chunk
                heard = monotonic()
            elif over:
                return
            elif monotonic() >= heard + silence_seconds:
                raise TimeoutError(f"gave no sign of life for {silence_seconds:.0f} s")

    def _cut(self) -> tuple[Any] | None:
        """The next whole frame, if there is one; in a tuple, because a frame may hold null."""
        if len(self._waiting) < HEADER.size:
            return None
        (size,) = HEADER.unpack_from(self._waiting)
        if size > LARGEST_FRAME_BYTES:
            raise Garbled(f"announced a frame of {size} bytes: this breaks the protocol")
        end = HEADER.size + size
        if len(self._waiting) < end:
            return None
        content, self._waiting = self._waiting[HEADER.size : end], self._waiting[end:]
        try:
            return (json.loads(content),)
        except (ValueError, RecursionError):
            raise Garbled("sent a frame that is not JSON: this breaks the protocol") from None
