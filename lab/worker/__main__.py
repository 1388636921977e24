"""A measuring process: `python -m lab.worker RUN_DIRECTORY DESCRIPTOR [LEFT_OUT]`, see lab.supervisor.worker_process.

It loads everything heavy, says so, and waits for its order on stdin: a sweep, the cells to measure in it, and those
of them to check with edge inputs too.
Records and signs of life go out as frames. LEFT_OUT is JSON: (experiment, profile) pairs that cannot be loaded.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from lab.definition.plan_file import load_plan
from lab.process.channel import send
from lab.process.parent_death import die_with_parent
from lab.worker import audit_hook
from lab.worker.stage_timer import StageTimer


def main() -> None:
    die_with_parent()
    directory, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    left_out = {tuple(pair) for pair in json.loads(sys.argv[3])} if len(sys.argv) > 3 else set()
    plan = load_plan(directory)

    def emit(kind: str, content: Any) -> None:
        send(descriptor, {"kind": kind, "content": content})

    stage_timer = StageTimer()
    with stage_timer("load"):
        from lab.worker import measure_sweep  # torch takes seconds, and the parent may end meanwhile

        audit_hook.install(descriptor)
        guard, functions = measure_sweep.load(plan, left_out, emit)
    emit("loaded", None)
    if order := sys.stdin.read():
        asked = json.loads(order)
        todo, edges = ({tuple(key) for key in asked[name]} for name in ("todo", "edges"))
        measure_sweep.measure(
            plan, asked["sweep"], todo, edges, guard, functions, stage_timer, emit, place=asked["place"]
        )
        emit("done", None)
    _end_at_once()


def _end_at_once() -> None:
    """Without taking Python and torch down piece by piece: that takes half a second, while the supervisor waits."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)  # what libraries written in C have printed
    os._exit(0)


if __name__ == "__main__":
    main()
