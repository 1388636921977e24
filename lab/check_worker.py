"""The process of `lab check`: `python -m lab.check_worker MESSAGES STACK`, see lab.check_supervisor.

Its order comes on stdin: names of experiments, profiles that are done, and the limit of each. It sends frames to the
descriptor MESSAGES, and where it is when it is terminated to the descriptor STACK.
"""

import ctypes
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lab.errors import LabError
from lab.process.channel import send
from lab.process.parent_death import die_with_parent

ORPHAN_SECONDS = 60.0  # beyond the limit, where no parent is left to end this process, and macOS does not say so


def main() -> None:
    die_with_parent()
    messages, stack, output = int(sys.argv[1]), int(sys.argv[2]), os.dup(1)  # a kernel may close its own
    order = json.loads(sys.stdin.read())
    faulthandler.register(signal.SIGTERM, file=stack, all_threads=False, chain=True)
    _limit(order["loading_seconds"])
    try:
        for kind, content in _checks(order):
            if kind == "begin":
                _limit(order["seconds"])
            send(messages, [kind, content, _printed_bytes(output)])
    except LabError as refusal:
        send(messages, ["refused", str(refusal), _printed_bytes(output)])


def _printed_bytes(output: int) -> int:
    """Of the file that stdout is here: when the result is read, the next profile may have printed more."""
    with suppress(AttributeError, OSError, ValueError):  # a kernel may have taken stdout away, or closed it
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)  # what a GPU and libraries written in C have printed
    return os.lseek(output, 0, os.SEEK_CUR)


def _limit(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds + ORPHAN_SECONDS)


def _checks(order: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    from lab.worker.device import choose_device

    device = choose_device("auto")
    if device == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # which Triton reads when an experiment first imports it
    from lab.check import cells, check_cell
    from lab.definition.catalogue import choose_experiments, file_of
    from lab.definition.mistakes import refuse_mistakes

    experiments = choose_experiments(order["names"])
    refuse_mistakes(experiments, file_of)
    yield "loaded", None
    for experiment, case, profile in cells(experiments):
        cell = [experiment.name, case.name, profile.name]
        if cell not in order["done"]:
            yield "begin", cell
            result = check_cell(experiment, case, profile, device)
            yield "result", [result.outcome, result.message]
    yield "done", None


if __name__ == "__main__":
    main()
