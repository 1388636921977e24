"""Why a profile cannot run here, and its exceptions as text for a record."""

import re
from importlib.util import find_spec

from lab.definition.experiment import Profile
from lab.kernels.cuda_build import missing_compiler

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
    """An exception as one line without paths."""
    lines = str(problem).strip().splitlines()
    first = lines[0] if lines else ""
    return f"{type(problem).__name__}: {PATHS.sub('(path)', first)}"[:300]
