"""What kernels become for a GPU that need not be there."""

import os
import subprocess
import sys
from pathlib import Path

from lab.evidence.source import ROOT


def printed(program: str, cache: Path) -> str:
    """By a process of its own: in this one kernels are interpreted."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
