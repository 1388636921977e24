"""Which code was measured: a digest of the source, by which the commit can be found later, with or without .git."""

import functools
import hashlib
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from lab.errors import EvidenceError
from lab.project import CODE, VARIABLE, project

ROOT = CODE
# What decides a measurement. Templates, documents and published evidence do not, nor does the judge: every run is
# judged by today's policy, and runs that differ in the judge alone are repeats of each other.
STAGES = ("definition", "process", "supervisor", "worker", "profiler", "evidence")
MEASURED = ("lab/quantities.py", *(f"lab/{stage}/*.py" for stage in STAGES), "pyproject.toml")
# Runs of before 2026-11-28 counted these too. Their commits are found by it.
MEASURED_BEFORE = (*MEASURED, "lab/*.py", "lab/verdict/*.py")
# Of these none changes what is timed, or how. Runs that differ here alone are repeats of one another.
NOT_TIMED = ("lab/definition/", "lab/profiler/", "lab/evidence/", "lab/quantities.py", "pyproject.toml")
MAKES_INPUTS = "lab/definition/default_inputs.py"  # of the experiments that do not make their own
# Here at any depth: an experiment may be a package of packages, and bring CUDA sources of its own.
DEEP, CODE_FILES = ("lab/kernels/", "experiments/"), (".py", ".cu", ".cuh", ".h", ".cpp", ".ptx")
NOT_MEASURED = ("experiments/audits/", "experiments/decisions/", "experiments/evidence/")
INSTALLED = "installed "  # before the paths of a lab that is not the project itself
OWN_PLACES = ("lab", "experiments", "pyproject.toml")  # where all of these are
# Names the file in which a notebook hands an experiment to the processes that measure it.
HANDED_OVER = "LAB_HANDED_OVER"
# In another project all of its code may take part in a measurement, but for what certainly does not.
NO_CODE_OF_IT = frozenset({"tests", "site", "runs", "build", "dist", "node_modules", "__pycache__"})


# How a child process runs a module of this tree: -P keeps a folder that happens to lie in the user's working
# directory, and is called `experiments`, from taking the place of the lab's.
OWN_MODULE = ("-P", "-m")


def child_environment() -> dict[str, str]:
    """This process's variables, with the lab importable where it is not installed, and the project's own modules."""
    root = project().root
    path = [part for part in (os.environ.get("PYTHONPATH", ""), str(ROOT), str(root)) if part]
    # CUDA's own order is by speed: its device 0 need not be the one that NVML, which is asked beside it, calls 0.
    path = list(dict.fromkeys(os.pathsep.join(path).split(os.pathsep)))
    return {
        **os.environ, VARIABLE: str(root), "PYTHONPATH": os.pathsep.join(path), "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }  # fmt: skip


class NoRepository(EvidenceError):
    """There is no git repository to look for a commit in."""


class NoCommit(EvidenceError):
    """The git repository has no commit yet."""


def source_digest(root: Path | None = None) -> str:
    """SHA-256 over the git blob ids and paths of the measuring source in the working tree.

    In another project than the lab's own this covers the project's code and the measuring source of the installed lab.
    """
    return _digest(_measured_in(root or project().root))


def timed_digest(root: Path | None = None) -> str:
    """SHA-256 of the part that is timed and times: kernels, experiments, workers. What defines and records is left out.

    By it runs are told to be repeats; `source_digest` tells their commit.
    """
    root = root or project().root
    labs_own = "" if _holds_the_lab(root) else INSTALLED
    kept = {path: blob for path, blob in _measured_in(root).items() if _is_timed(path, labs_own)}
    return _digest(kept)


def _is_timed(path: str, labs_own: str) -> bool:
    name = path.removeprefix(labs_own)
    return not (path.startswith(labs_own) and name.startswith(NOT_TIMED)) or name == MAKES_INPUTS


def _measured_in(root: Path) -> dict[str, str]:
    """Git blob ids of the measuring source in the working tree, by path."""
    if _holds_the_lab(root):
        blobs = _measured_below(root)
    else:
        blobs = _installed_lab() | {name: _blob_id(_content(root / name)) for name in project_code(root)}
    if handed := os.environ.get(HANDED_OVER):  # no commit has it, and so it is never taken for one that has
        blobs["handed over"] = _blob_id(Path(handed).read_bytes())
    return blobs


def _tree(commit: str, root: Path) -> dict[str, str]:
    """Git blob ids of a commit's tree, by path; of the lab's own tree those of the places that may be measured."""
    blobs = {}
    listed = _git(root, "ls-tree", "-r", "-z", commit, *(OWN_PLACES if _holds_the_lab(root) else ()))
    for line in filter(None, listed.split("\0")):
        about, path = line.split("\t", 1)
        blobs[path] = about.split()[2]
    return blobs


def _measured_of(tree: Mapping[str, str], root: Path, measured: tuple[str, ...] = MEASURED) -> dict[str, str]:
    if _holds_the_lab(root):
        return {path: blob for path, blob in tree.items() if _is_measured(path, measured)}
    return _installed_lab() | {path: tree[path] for path in _code_among(tree)}


def project_code(root: Path) -> list[str]:
    """The files of a project that may decide a measurement; what git ignores does not."""
    try:
        listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        return sorted(name for name in _code_among(listed) if (root / name).is_file())
    except (EvidenceError, OSError):
        return sorted(_project_code_below(root, root))


def _code_among(listed: Collection[str]) -> set[str]:
    """The code of a project. What pip installed into an environment that git does not ignore is nobody's experiment."""
    environments = tuple(name.removesuffix("pyvenv.cfg") for name in listed if name.endswith("/pyvenv.cfg"))
    return {name for name in listed if _is_project_code(name) and not name.startswith(environments)}


def _project_code_below(folder: Path, root: Path) -> Iterator[str]:
    if folder != root and (folder / "pyvenv.cfg").exists():
        return
    for path in folder.iterdir():
        name = path.relative_to(root).as_posix()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".") and path.name not in NO_CODE_OF_IT:
            yield from _project_code_below(path, root)
        elif path.is_file() and _is_project_code(name):
            yield name


def _is_project_code(path: str) -> bool:
    *folders, name = path.split("/")
    hidden = any(folder.startswith(".") for folder in folders)
    return name.endswith(CODE_FILES) and not hidden and NO_CODE_OF_IT.isdisjoint(folders)


def _holds_the_lab(root: Path) -> bool:
    return (root / "lab" / "kernels").is_dir()


def _measured_below(root: Path) -> dict[str, str]:
    paths = [path for pattern in MEASURED for path in root.glob(pattern)]
    # One walk: a glob for each ending reads every folder of evidence again.
    paths += [Path(place, name) for deep in DEEP for place, _, names in os.walk(root / deep) for name in names]
    named = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: _blob_id(path.read_bytes()) for name, path in named.items() if _is_measured(name)}


def _installed_lab() -> dict[str, str]:
    """Nothing else that lies beside the package is its own."""
    return {f"{INSTALLED}{name}": blob for name, blob in _measured_below(ROOT).items() if name.startswith("lab/")}


@functools.cache  # a look through all commits asks for each path again and again
def _is_measured(path: str, measured: tuple[str, ...] = MEASURED) -> bool:
    if path.startswith(DEEP):
        return path.endswith(CODE_FILES) and not path.startswith(NOT_MEASURED)
    return any(Path(path).match(pattern) and path.count("/") == pattern.count("/") for pattern in measured)


def commit_of(digest: str, root: Path | None = None) -> str:
    """The first commit whose source has this digest. EvidenceError if none has, NoRepository without a repository."""
    root = root or project().root
    rules = (MEASURED, MEASURED_BEFORE) if _holds_the_lab(root) else (MEASURED,)
    for commit in _git(root, "rev-list", "--all", "--date-order", "--reverse").split():
        tree = _tree(commit, root)
        if any(_digest(_measured_of(tree, root, measured)) == digest for measured in rules):
            return commit
    raise EvidenceError(
        f"no commit has the source that was measured (digest {digest[:12]}); commit it as it was measured, then "
        "publish again; where it has changed since, or another version of the lab is installed, measure again"
    )


def head(root: Path | None = None) -> tuple[str, bool]:
    """(commit, whether the measuring source differs from it); ("", False) where there is no git tree."""
    root = root or project().root
    try:
        return _git(root, "rev-parse", "HEAD").strip(), bool(uncommitted(root))
    except (EvidenceError, OSError):
        return "", False


def uncommitted(root: Path | None = None) -> list[str]:
    """The measuring source that the last commit lacks or has otherwise. EvidenceError where there is no commit."""
    root = root or project().root
    here, committed = _measured_in(root), _measured_of(_tree("HEAD", root), root)
    return sorted(path for path in here.keys() | committed.keys() if here.get(path) != committed.get(path))


def _digest(blobs: dict[str, str]) -> str:
    lines = "".join(f"{blobs[path]} {path}\n" for path in sorted(blobs))
    return hashlib.sha256(os.fsencode(lines)).hexdigest()


def _content(path: Path) -> bytes:
    """As git keeps it: of a link where it leads."""
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True, text=True, errors="surrogateescape", check=False,  # names are bytes
        )  # fmt: skip
    except FileNotFoundError:
        raise EvidenceError("git is not installed here, or not on PATH; it tells which commit was measured") from None
    if "not a git repository" in done.stderr:
        raise NoRepository(f"{root}: no git repository is there")
    if "Not a valid object name HEAD" in done.stderr:
        raise NoCommit(f"{root}: the git repository has no commit")
    if done.returncode != 0:
        raise EvidenceError(f"git {arguments[0]} failed: {done.stderr.strip() or 'no message'}")
    return done.stdout
