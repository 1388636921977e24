"""CUDA C++ kernels, compiled by nvcc on the machine that runs them, for the GPU that is there.

Each `cuda/NAME.cu` becomes a shared library with a plain C entry, one for each dtype of the elements: two to four
seconds a library, once. What was built is kept, by digest of the sources, compiler, architecture and flags, in
`~/.cache/kernel-evidence-lab/cuda`.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

SOURCES = Path(__file__).parent / "cuda"
ELEMENTS = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16", torch.float32: "float"}
FLAGS = ("-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC")
# A cluster, which wide rows need, is a notion of Hopper's and later chips.
LEAST_CAPABILITY = 90

# Whoever is to hear how many seconds nvcc took, each time that it compiles.
compile_listeners: list[Callable[[float], None]] = []


class CompilerMissing(RuntimeError):
    """There is no nvcc on this machine, or no GPU that it could compile these kernels for."""


class CompilerFailed(RuntimeError):
    """nvcc said no; the message has its first error, then all that it said."""


def nvcc() -> Path:
    """The compiler: of CUDA_HOME or CUDA_PATH, on PATH, or in /usr/local/cuda; CompilerMissing where there is none."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    candidates = [Path(home) / "bin" / "nvcc" for home in homes]
    if on_path := shutil.which("nvcc"):
        candidates.append(Path(on_path))
    candidates.append(Path("/usr/local/cuda/bin/nvcc"))
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise CompilerMissing(
        "CUDA's compiler, nvcc, is not on this machine: it is neither in CUDA_HOME nor on PATH nor in its usual folder"
    )


@cache
def compiler_version() -> str:
    """The compiler's own words, such as 'Cuda compilation tools, release 13.0, V13.0.88'; CompilerMissing as `nvcc`."""
    done = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()]
    return next((line for line in lines if "release" in line), lines[-1] if lines else "")


def architecture(capability: int) -> str:
    """nvcc's name of a chip, 'sm_90a' for capability 90; CompilerMissing for chips without clusters."""
    if capability < LEAST_CAPABILITY:
        raise CompilerMissing(f"the GPU has compute capability {capability / 10}; accepted are 9.0 and later")
    return f"sm_{capability}a"


def missing_compiler() -> str:
    """Why no CUDA C++ can be compiled here; nothing where nvcc is there."""
    try:
        nvcc()
    except CompilerMissing as problem:
        return str(problem)
    return ""


@cache
def library(name: str, element: torch.dtype, capability: int) -> ctypes.CDLL:
    """`cuda/NAME.cu` for elements of a dtype and a compute capability, built where it is not yet, and loaded.

    CompilerMissing and CompilerFailed where it cannot be built.
    """
    return ctypes.CDLL(str(built(name, element, architecture(capability))))


def built(name: str, element: torch.dtype, arch: str) -> Path:
    """The shared library's path, compiled now unless the same sources, compiler and flags made it before."""
    path = _kept_in() / f"{name}-{ELEMENTS[element].strip('_')}-{arch}-{build_digest(name, element, arch)[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            fresh = Path(folder) / path.name
            _compile(name, element, arch, fresh)
            os.replace(fresh, path)  # whole or not at all: another process may be building the same
    return path


def source_digest(name: str) -> str:
    """SHA-256 of `cuda/NAME.cu` and the headers beside it."""
    digest = hashlib.sha256()
    for path in (SOURCES / f"{name}.cu", *sorted(SOURCES.glob("*.cuh"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build_digest(name: str, element: torch.dtype, arch: str) -> str:
    """SHA-256 of all that decides the machine code: sources, compiler, architecture, dtype and flags."""
    facts = (source_digest(name), compiler_version(), arch, ELEMENTS[element], *FLAGS)
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _compile(name: str, element: torch.dtype, arch: str, to: Path) -> None:
    command = [nvcc(), *FLAGS, f"-arch={arch}", f"-DElement={ELEMENTS[element]}", "-o", to, SOURCES / f"{name}.cu"]
    began = time.perf_counter()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        first = next((line for line in said if "error" in line), said[0] if said else "no message")
        raise CompilerFailed("\n".join([f"nvcc could not compile {name}.cu for {arch}: {first}", *said]))
    for listen in compile_listeners:
        listen(time.perf_counter() - began)


def _kept_in() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "kernel-evidence-lab" / "cuda"
