"""Why a profile cannot run here, and its exceptions as text for a record."""

import re
import traceback
from importlib.util import find_spec
from pathlib import Path

from lab.definition.experiment import Profile
from lab.kernels.cuda_build import missing_compiler
from lab.project import project

# Of the lab, by the package that they bring.
EXTRAS = {"transformers": "models", "liger_kernel": "peers", "quack": "peers", "flash_attn": "peers"}
NO_GPU = "needs a CUDA GPU, and this run measures the CPU"
# What Triton says where there is no GPU, and where there is one and a tensor of the CPU is given to a kernel.
TRITON_ON_A_CPU = re.compile(r"0 active drivers|cannot be accessed from Triton \(cpu tensor\?\)")
PATHS = re.compile(r"/[\w.~-]+/[\w./~+-]+")


def skip_reason(profile: Profile, device: str) -> str:
    """Why a profile cannot run here, or nothing."""
    if device not in profile.devices:
        return NO_GPU if device == "cpu" else "needs a CPU, and this run measures a GPU"
    if profile.package and find_spec(profile.package) is None:
        extra = EXTRAS.get(profile.package)
        return f"{profile.package} is not installed" + (f"; the optional extra '{extra}' brings it" if extra else "")
    return missing_compiler() if profile.needs_nvcc else ""


def not_on_a_cpu(problem: BaseException, device: str) -> str:
    """Why to skip a profile whose Triton kernel was launched where the CPU is measured, or nothing."""
    launched = device == "cpu" and TRITON_ON_A_CPU.search(str(problem))
    return f"its Triton kernel {NO_GPU}" if launched else ""


def fault(problem: BaseException) -> str:
    """An exception as one line without paths, and where in the project's experiments it arose."""
    lines = str(problem).strip().splitlines()
    first = lines[0] if lines else ""
    return f"{type(problem).__name__}: {PATHS.sub('(path)', first)}"[:300] + _place(problem)


def _place(problem: BaseException) -> str:
    """' (gelu.py, line 8)': the innermost of an author's lines that led to it; nothing where there is none."""
    folder = project().experiments
    for frame, line in reversed(list(traceback.walk_tb(problem.__traceback__))):
        if folder in (path := Path(frame.f_code.co_filename)).parents:
            return f" ({path.name}, line {line})"
    return ""
