"""Which code was measured: a digest of the source that a commit can be asked for, with or without .git."""

import hashlib
import os
import subprocess
from pathlib import Path

from lab.errors import EvidenceError

ROOT = Path(__file__).resolve().parents[2]
# What decides a measurement. Templates, documents and published evidence do not.
STAGES = ("definition", "supervisor", "worker", "profiler", "evidence", "verdict")
MEASURED = (
    "lab/*.py", "lab/kernels/*.py", *(f"lab/{stage}/*.py" for stage in STAGES), "experiments/*.py",
    "experiments/*/*.py", "pyproject.toml", "lab/kernels/cuda/*.cu*",
)  # fmt: skip
NOT_MEASURED = ("experiments/audits/", "experiments/decisions/", "experiments/evidence/")


# How a child process runs a module of this tree: -P keeps a folder that happens to lie in the user's working
# directory, and is called `experiments`, from taking the place of the lab's.
OWN_MODULE = ("-P", "-m")


def child_environment() -> dict[str, str]:
    """This process's variables, with this tree importable where it is not installed."""
    path = [part for part in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if part]
    # CUDA's own order is by speed: its device 0 need not be the one that NVML, which is asked beside it, calls 0.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def source_digest(root: Path = ROOT) -> str:
    """SHA-256 over the git blob ids and paths of the measuring source in the working tree."""
    found = {path.relative_to(root).as_posix(): path for pattern in MEASURED for path in root.glob(pattern)}
    return _digest({name: _blob_id(path.read_bytes()) for name, path in found.items() if _is_measured(name)})


def commit_digest(commit: str, root: Path = ROOT) -> str:
    """The same digest of a commit's tree."""
    blobs = {}
    for line in _git(root, "ls-tree", "-r", commit).splitlines():
        about, path = line.split("\t", 1)
        if _is_measured(path):
            blobs[path] = about.split()[2]
    return _digest(blobs)


def _is_measured(path: str) -> bool:
    fits = (Path(path).match(pattern) and path.count("/") == pattern.count("/") for pattern in MEASURED)
    return any(fits) and not path.startswith(NOT_MEASURED)


def commit_of(digest: str, root: Path = ROOT) -> str:
    """The first commit whose source has this digest, which no later commit changes; EvidenceError where none has."""
    for commit in _git(root, "rev-list", "--all", "--date-order", "--reverse").split():
        if commit_digest(commit, root) == digest:
            return commit
    raise EvidenceError(
        f"no commit has the source that was measured (digest {digest[:12]}); "
        "commit first, measure the committed tree, then publish"
    )


def head(root: Path = ROOT) -> tuple[str, bool]:
    """(commit, whether the measuring source differs from it); ("", False) where there is no git tree."""
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        return commit, commit_digest(commit, root) != source_digest(root)
    except (EvidenceError, OSError):
        return "", False


def _digest(blobs: dict[str, str]) -> str:
    lines = "".join(f"{blobs[path]} {path}\n" for path in sorted(blobs))
    return hashlib.sha256(lines.encode()).hexdigest()


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EvidenceError(f"git {arguments[0]} failed: {done.stderr.strip() or 'no message'}")
    return done.stdout
