"""Length-prefixed JSON frames over a pipe, apart from stdout, so that a chatty library cannot garble them."""

import json
import os
import select
import struct
import time
from collections.abc import Iterator
from typing import Any

from lab.errors import RunError

HEADER = struct.Struct(">I")
LARGEST_FRAME_BYTES = 64 << 20


def send(descriptor: int, data: Any) -> None:
    """Write one frame, waiting for the reader where the pipe is full."""
    content = json.dumps(data, allow_nan=False).encode()
    frame = memoryview(HEADER.pack(len(content)) + content)
    while frame:
        frame = frame[os.write(descriptor, frame) :]


def frames(descriptor: int, deadline_seconds: float) -> Iterator[Any]:
    """Frames until the writer closes; TimeoutError where none comes within the deadline."""
    waiting = b""
    silent_since = time.monotonic()
    while True:
        # A reader that was itself stopped for long, as by Ctrl-Z, still takes what lies in the pipe.
        left = max(0.0, silent_since + deadline_seconds - time.monotonic())
        if not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError
        if not (chunk := os.read(descriptor, 1 << 16)):
            return
        waiting += chunk
        silent_since = time.monotonic()
        while len(waiting) >= HEADER.size:
            (size,) = HEADER.unpack_from(waiting)
            if size > LARGEST_FRAME_BYTES:
                raise RunError(f"a worker announced a frame of {size} bytes; it is not speaking our protocol")
            if len(waiting) < HEADER.size + size:
                break
            yield json.loads(waiting[HEADER.size : HEADER.size + size])
            waiting = waiting[HEADER.size + size :]
