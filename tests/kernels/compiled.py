"""What kernels become for a GPU that need not be there."""

import io
import json
import multiprocessing
import os
import sys
import traceback
from contextlib import redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from lab.evidence.source import ROOT

# Kernels ask for the GPU that is active, and find one of compute capability 9.0.
ON_A_HOPPER = """
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

HOPPER = GPUTarget("cuda", 90, 32)
driver.set_active(type("Driver", (), {"get_current_target": lambda self: HOPPER})())
"""

# Each program has a process of its own, forked from one that has imported torch and Triton, which takes seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["triton.compiler", "triton.experimental.gluon", "lab.kernels.launch"])


def printed(program: str, asked: Any = None, *, folder: Path | None = None, cache: Path | None = None) -> str:
    """What a program prints that finds `asked` as JSON in its input. There kernels are compiled, here interpreted.

    It runs in `folder`, and Triton keeps in `cache` what it compiles.
    """
    reader, writer = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_run, args=(program, json.dumps(asked), folder, cache, writer))
    with mock.patch.dict(os.environ, {"TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)}):
        process.start()
    writer.close()
    failure, output = reader.recv()
    process.join()
    assert not failure, failure
    return output


def _run(program: str, given: str, folder: Path | None, cache: Path | None, answer: Connection) -> None:
    if folder:
        os.chdir(folder)
    if cache:
        os.environ["TRITON_CACHE_DIR"] = str(cache)
    sys.stdin, failure = io.StringIO(given), ""
    with redirect_stdout(io.StringIO()) as output:
        try:
            exec(ON_A_HOPPER + program, {"__name__": "__main__"})
        except Exception:
            failure = traceback.format_exc()
    answer.send((failure, output.getvalue()))
