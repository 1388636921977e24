"""What kernels become for a GPU that need not be there."""

import os
import subprocess
import sys
from pathlib import Path

from lab.evidence.source import ROOT

# Kernels ask for the GPU that is active, and find one of compute capability 9.0.
ON_A_HOPPER = """
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

HOPPER = GPUTarget("cuda", 90, 32)
driver.set_active(type("Driver", (), {"get_current_target": lambda self: HOPPER})())
"""


def printed(program: str, cache: Path) -> str:
    """By a process of its own: in this one kernels are interpreted."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", ON_A_HOPPER + program], env=environment, capture_output=True, text=True, check=True
    ).stdout
