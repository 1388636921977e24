"""A measuring process: `python -m lab.worker RUN_DIRECTORY DESCRIPTOR [LEFT_OUT]`, started by lab.supervisor.process.

It loads everything heavy, says so, and waits for its order on stdin: a sweep, the cells to measure in it, and those
of them to be asked for edge inputs.
Records and signs of life go out as frames. LEFT_OUT is JSON: (experiment, profile) pairs that cannot be loaded.
"""

import json
import sys
from pathlib import Path
from typing import Any

from lab.definition.plan import load_plan
from lab.supervisor.channel import send
from lab.supervisor.orphan import die_with_parent
from lab.worker import audit
from lab.worker.stages import Stages


def main() -> None:
    die_with_parent()
    directory, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    left_out = {tuple(pair) for pair in json.loads(sys.argv[3])} if len(sys.argv) > 3 else set()
    plan = load_plan(directory)

    def emit(kind: str, content: Any) -> None:
        send(descriptor, {"kind": kind, "content": content})

    stages = Stages()
    with stages("load"):
        from lab.worker import sweeping  # torch takes seconds, and the parent may end meanwhile

        audit.install(descriptor)
        guard, functions = sweeping.load(plan, left_out, emit)
    emit("loaded", None)
    if order := sys.stdin.read():
        asked = json.loads(order)
        todo, edges = ({tuple(key) for key in asked[name]} for name in ("todo", "edges"))
        sweeping.measure(plan, asked["sweep"], todo, edges, guard, functions, stages, emit)
        emit("done", None)


if __name__ == "__main__":
    main()
