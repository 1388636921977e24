"""The process that `warm_workers` forks: `python forked_worker.py DESCRIPTOR`; orders come through that socket.

A worker is forked, or a command line, or another program that starts workers: those get a process of their own to be
forked from, so that their workers become their own children, as if they had started them.
"""

import ctypes
import fcntl
import json
import os
import resource
import runpy
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import warm_workers

del sys.path[0]
ORDER_BYTES = 1 << 20
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
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
    numbers = list(zip(kept, (0, 1, 2, *order["descriptors"]), strict=True))
    for descriptor, number in numbers:
        os.dup2(descriptor, number)
    os.closerange(FREE_DESCRIPTORS, max(kept) + 1)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[:0] = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path not in sys.path]
    sys.orig_argv[:] = order["command"]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    tempfile.tempdir = None
    time.tzset()


def confine(order: dict[str, Any]) -> None:
    """What a command line has besides: outputs that may be pipes, where this process's were files, and limits.

    `file_bytes`: no file may grow beyond it, as on a disk that is full. `frozen`: a folder that nobody may write.
    """
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    if order["frozen"]:
        folder, users, groups = order["frozen"], os.getuid(), os.getgid()
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {users} 1")
        Path("/proc/self/gid_map").write_text(f"0 {groups} 1")
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        os.chdir(order["folder"])  # which is now another one
    if order["file_bytes"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_bytes"], order["file_bytes"]))


def run(command: Sequence[str]) -> None:
    """As `python COMMAND`, which is `-P -m MODULE …`, `-m MODULE …` or `FILE …`."""
    if command[0] == "-P":
        command = command[1:]
    else:
        sys.path.insert(0, os.getcwd() if command[0] == "-m" else str(Path(command[0]).parent))
    if command[0] == "-m":
        sys.argv[1:] = command[2:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = command
        runpy.run_path(command[0], run_name="__main__")


def main() -> None:
    for module in ("lab.worker.cpu", "lab.worker.measure_sweep"):
        import_module(module)

    order = serve(socket.socket(fileno=int(sys.argv[1])))
    become(order)
    if order["starts_workers"]:
        from lab.process import child

        confine(order)
        for module in order["preload"]:
            import_module(module)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork():
            theirs.close()
            child.subprocess = warm_workers.forking(ours)
        else:
            ours.close()
            order = serve(theirs)
            become(order)
    run(order["command"][1:])


if __name__ == "__main__":
    main()
