"""Several GPUs of this host."""

import os
from collections.abc import Sequence
from typing import Any

from lab.cluster.board_process import BoardProcess
from lab.errors import RunError
from lab.evidence.nvml import gpu_names
from lab.evidence.record import CHOSEN_BY
from lab.evidence.source import child_environment

END_SECONDS = 90.0  # for a process to end its worker, also one that is stuck in a driver


class LocalCrew:
    """`gpus`, as CUDA_VISIBLE_DEVICES names them. One that is lost is taken again."""

    def __init__(self, gpus: Sequence[str]) -> None:
        self._gpus = gpus
        self._started: list[BoardProcess] = []

    @property
    def size(self) -> int:
        return len(self._gpus)

    def start(self, slot: int) -> BoardProcess:
        board = BoardProcess({**child_environment(), CHOSEN_BY: self._gpus[slot]})
        self._started.append(board)
        return board

    def __enter__(self) -> "LocalCrew":
        return self

    def __exit__(self, *error: Any) -> None:
        for board in self._started:
            board.end()
        for board in self._started:
            board.wait_until_ended(END_SECONDS)


def gpus_of_this_host(count: int) -> list[str]:
    """The first GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them. RunError where there are fewer."""
    chosen = os.environ.get(CHOSEN_BY)
    known = [str(index) for index in range(len(gpu_names()))] if chosen is None else chosen.split(",")
    gpus = [gpu.strip() for gpu in known if gpu.strip()]
    if len(gpus) < count:
        limited = f" in {CHOSEN_BY}" if chosen is not None else ""
        raise RunError(f"--gpus {count}: this host has {len(gpus)} GPU{'s' * (len(gpus) != 1)}{limited}")
    return gpus[:count]
