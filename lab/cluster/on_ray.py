"""GPUs of a Ray cluster, or of this host through Ray. The only module that imports ray.

An actor has one whole GPU, and does nothing but start the process that measures on it and hand on what that says. The
process is not the actor's child: Ray kills those without warning, and their own children would stay behind.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from lab.cluster.link import LAST, GpuGone
from lab.errors import MissingPackage, RunError
from lab.evidence.machine import ENVIRONMENT
from lab.evidence.record import CHOSEN_BY
from lab.evidence.source import ROOT, child_environment

FREE_SECONDS = 60.0  # for GPUs that another run has just given back
LOOK_SECONDS = 0.5
SAME_TREE = "every node needs the same tree at the same place, as on a shared file system"


class RayCrew:
    """`address` as in ray.init, such as "auto" or "10.0.0.1:6379"; empty starts Ray on this host for this run.

    `count`: how many GPUs to use; None takes all that are free.
    """

    def __init__(self, address: str, count: int | None) -> None:
        self._address, self._count = address, count
        self._actors: list[Any] = []
        self._own = False  # whether Ray was started or joined here
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def start(self, slot: int) -> "RayLink":
        import ray

        link = RayLink(ray.remote(_actor_class()).options(num_gpus=1).remote(_sources(), _variables(), os.getcwd()))
        self._actors.append(link)
        return link

    def __enter__(self) -> "RayCrew":
        try:
            import ray
        except ImportError:
            raise MissingPackage(
                "--executor ray: ray is not installed; the optional extra 'ray' brings it "
                "(several GPUs of one host need no Ray: --gpus K)"
            ) from None
        if not ray.is_initialized():
            try:
                ray.init(address=self._address or "local", log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as problem:
                raise RunError(f"--ray-address {self._address}: Ray cannot be reached: {problem}") from None
            self._own = True
        try:
            self._size = _wait_for_gpus(self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        import ray

        for link in self._actors:
            link.end()
        if self._own:
            ray.shutdown()


class RayLink:
    """To the process on the GPU of one actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ask(self, order: Mapping[str, Any]) -> Iterator[Any]:
        import ray

        try:
            for frame in self._actor.ask.options(num_returns="streaming").remote(dict(order)):
                content = ray.get(frame)
                yield content
                if content["kind"] in LAST:
                    return
        except ray.exceptions.RayError as problem:
            # What Ray says itself names hosts and addresses.
            raise GpuGone(f"Ray lost it, or its node ({type(problem).__name__})") from None
        raise GpuGone("its process on the node ended, or was killed")

    def end(self) -> None:
        """Kill the actor: its process hears nothing more then, and ends with its worker."""
        import ray

        with contextlib.suppress(Exception):  # Ray may be gone, or have lost the actor
            ray.kill(self._actor, no_restart=True)


def _actor_class() -> type[Any]:
    """A class that Ray sends as code, for a node's Python does not know the lab before its path is set."""

    class Actor:
        def __init__(self, sources: list[str], variables: dict[str, str | None], folder: str) -> None:
            missing = [place for place in sources if not os.path.isdir(place)]
            self._problem = f"{os.uname().nodename}: {missing[0]} is not there; {SAME_TREE}" if missing else ""
            if missing:
                return
            sys.path[:0] = sources
            from lab.cluster.board_process import BoardProcess

            changed = {name: text for name, text in {**os.environ, **variables}.items() if text is not None}
            self._board = BoardProcess(changed, Path(folder) if os.path.isdir(folder) else None)

        def ask(self, order: dict[str, Any]) -> Iterator[Any]:
            if self._problem:
                yield {"kind": "refused", "content": self._problem}
                return
            from lab.cluster.link import GpuGone

            try:
                yield from self._board.ask(order)
            except GpuGone as gone:
                yield {"kind": "gone", "content": str(gone)}

    return Actor


def _sources() -> list[str]:
    return list(dict.fromkeys([str(ROOT), *child_environment()["PYTHONPATH"].split(os.pathsep)]))


def _variables() -> dict[str, str | None]:
    """What the processes on the nodes get of this one's variables; None removes one that Ray or the node has set."""
    here = child_environment()
    names = {*ENVIRONMENT, *(name for name in here if name.startswith("LAB_")), "PYTHONPATH", "CUDA_DEVICE_ORDER"}
    return {name: here.get(name) for name in sorted(names - {CHOSEN_BY})}


def _wait_for_gpus(count: int | None) -> int:
    """How many GPUs to use. RunError where there are fewer than asked, or none is free."""
    import ray

    there = int(ray.cluster_resources().get("GPU", 0))
    if there < (count or 1):
        gpus = f"{there} GPU{'s' * (there != 1)}"
        raise RunError(f"the Ray cluster has {gpus}, and this run asks for {count or 'at least 1'}")
    give_up = monotonic() + FREE_SECONDS
    while (free := int(ray.available_resources().get("GPU", 0))) < (count or 1):
        if monotonic() >= give_up:
            raise RunError(
                f"{free} of the {there} GPUs of the Ray cluster are free, and {count or 'at least 1'} needed"
            )
        sleep(LOOK_SECONDS)
    return count or free
