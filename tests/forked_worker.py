"""The process that `warm_workers` forks: `python forked_worker.py DESCRIPTOR`; orders come through that socket."""

import fcntl
import json
import os
import runpy
import socket
import sys
from importlib import import_module
from typing import Any

ORDER_BYTES = 1 << 20
FREE_DESCRIPTORS = 500  # no process of the tests has so many open


def serve(orders: socket.socket) -> dict[str, Any]:
    """Fork once for each order, until there are no more. Returns in a fork: with its order."""
    while True:
        content, received, _, _ = socket.recv_fds(orders, ORDER_BYTES, 10)
        if not content:
            sys.exit()
        number, told = os.pipe()
        gate, opened = os.pipe()
        parent = os.fork()
        if parent == 0:
            if worker := os.fork():
                os.write(told, str(worker).encode())
                os._exit(0)
            os.close(opened)
            os.read(gate, 1)  # until it is a child of the process that ordered it
            return json.loads(content) | {"received": received}
        os.waitpid(parent, 0)
        orders.send(os.read(number, 100))
        for descriptor in (number, told, gate, opened, *received):
            os.close(descriptor)


def become(order: dict[str, Any]) -> None:
    """Take on what a started worker has from its parent."""
    os.setsid()
    os.chdir(order["folder"])
    kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, FREE_DESCRIPTORS) for descriptor in order["received"]]
    os.closerange(3, FREE_DESCRIPTORS)
    stdin, output, *others = kept
    numbers = [(stdin, 0), (output, 1), (output, 2), *zip(others, order["descriptors"], strict=True)]
    for descriptor, number in numbers:
        os.dup2(descriptor, number)
    os.closerange(FREE_DESCRIPTORS, max(kept) + 1)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[:0] = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path not in sys.path]
    sys.orig_argv[:] = order["command"]
    sys.argv[1:] = order["command"][4:]


def main() -> None:
    for module in ("lab.worker.cpu", "lab.worker.measure_sweep"):
        import_module(module)

    order = serve(socket.socket(fileno=int(sys.argv[1])))
    become(order)
    runpy.run_module(order["command"][3], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
