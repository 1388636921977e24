"""Where the time of a process goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StageTimer:
    """Seconds by stage: `with stage_timer("check"): ...`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - began
