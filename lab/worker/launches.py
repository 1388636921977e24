"""Which Triton and CUDA C++ kernels a piece of code launches: a profile that names its own must launch it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def seen() -> Iterator[set[str]]:
    """Names of the kernels launched inside the block, through Triton or as the lab's CUDA C++, as they come."""
    from triton import knobs

    from lab.kernels.cuda_launch import CudaKernel, launch_listeners

    names: set[str] = set()

    def note(metadata: Any) -> None:
        names.add(str(metadata.get()["name"]))

    def note_cuda(kernel: CudaKernel) -> None:
        names.add(kernel.name)

    knobs.runtime.launch_enter_hook.add(note)
    launch_listeners.append(note_cuda)
    try:
        yield names
    finally:
        launch_listeners.remove(note_cuda)
        knobs.runtime.launch_enter_hook.remove(note)


@contextmanager
def interpreted() -> Iterator[set[str]]:
    """Names of the kernels that Triton's interpreter runs inside the block, in place of compiled ones, as they come."""
    names: set[str] = set()
    if os.environ.get("TRITON_INTERPRET") != "1":
        yield names
        return
    from triton.runtime.interpreter import GridExecutor

    original = GridExecutor.__call__

    def noting(executor: Any, *arguments: Any, **named: Any) -> Any:
        names.add(executor.fn.__name__)
        return original(executor, *arguments, **named)

    GridExecutor.__call__ = noting
    try:
        yield names
    finally:
        GridExecutor.__call__ = original
