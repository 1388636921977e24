"""Why a profile cannot run here, and its exceptions as text for a record."""

import re
import traceback
from importlib.util import find_spec
from pathlib import Path

from lab.definition.experiment import Profile
from lab.kernels.cuda_build import missing_compiler
from lab.project import project

PATHS = re.compile(r"/[\w.~-]+/[\w./~+-]+")


def skip_reason(profile: Profile, device: str) -> str:
    """Why a profile cannot run here, or nothing."""
    if device not in profile.devices:
        needed, measured = ("a CUDA GPU", "the CPU") if device == "cpu" else ("a CPU", "a GPU")
        return f"needs {needed}, and this run measures {measured}"
    if profile.package and find_spec(profile.package) is None:
        extra = "models" if profile.package == "transformers" else "peers"
        return f"{profile.package} is not installed; the optional extra '{extra}' brings it"
    return missing_compiler() if profile.needs_nvcc else ""


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
