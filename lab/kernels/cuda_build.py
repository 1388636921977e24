"""Compiles the CUDA C++ kernels with nvcc, on the machine that runs them and for its GPU.

Each `cuda/NAME.cu` becomes a shared library with a plain C entry, one library for each element dtype. Compiling takes
two to four seconds a library. The library is then kept in `~/.cache/kernel-evidence-lab/cuda`, under a digest of
sources, compiler, architecture and flags.
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
# Wide rows need thread block clusters, which exist from Hopper on.
LEAST_CAPABILITY = 90

# Callbacks that get the seconds that nvcc took, after each compilation.
compile_listeners: list[Callable[[float], None]] = []


class CompilerMissing(RuntimeError):
    """This machine has no nvcc, or no GPU that the kernels can be compiled for."""


class CompilerFailed(RuntimeError):
    """nvcc failed. The message begins with its first error, followed by its whole output."""


def nvcc() -> Path:
    """The path of nvcc: in CUDA_HOME or CUDA_PATH, on PATH, or in /usr/local/cuda. CompilerMissing if in none."""
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
    """As nvcc prints it: 'Cuda compilation tools, release 13.0, V13.0.88'. CompilerMissing as `nvcc`."""
    done = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()]
    return next((line for line in lines if "release" in line), lines[-1] if lines else "")


def architecture(capability: int) -> str:
    """nvcc's name of an architecture, 'sm_90a' for capability 90. CompilerMissing for GPUs without clusters."""
    if capability < LEAST_CAPABILITY:
        raise CompilerMissing(f"the GPU has compute capability {capability / 10}; accepted are 9.0 and later")
    return f"sm_{capability}a"


def only_for(arch: str) -> str:
    """nvcc's option to compile for this architecture alone; `-arch` compiles all once more, for its family's PTX."""
    return f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"


def missing_compiler() -> str:
    """Why no CUDA C++ can be compiled here; an empty string if nvcc is installed."""
    try:
        nvcc()
    except CompilerMissing as problem:
        return str(problem)
    return ""


@cache
def library(name: str, element: torch.dtype, capability: int) -> ctypes.CDLL:
    """The loaded library of `cuda/NAME.cu` for an element dtype and a compute capability. Compiles it if necessary.

    Raises CompilerMissing or CompilerFailed if it cannot be compiled.
    """
    return ctypes.CDLL(str(built(name, element, architecture(capability))))


def built(name: str, element: torch.dtype, arch: str) -> Path:
    """The path of the shared library. Compiles it unless it exists for the same sources, compiler and flags."""
    path = _kept_in() / f"{name}-{ELEMENTS[element].strip('_')}-{arch}-{build_digest(name, element, arch)[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            fresh = Path(folder) / path.name
            _compile(name, element, arch, fresh)
            os.replace(fresh, path)  # atomic, since another process may be compiling the same library
    return path


def source_digest(name: str) -> str:
    """SHA-256 of `cuda/NAME.cu` and the headers beside it."""
    digest = hashlib.sha256()
    for path in (SOURCES / f"{name}.cu", *sorted(SOURCES.glob("*.cuh"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build_digest(name: str, element: torch.dtype, arch: str) -> str:
    """SHA-256 of sources, compiler, architecture, dtype and flags, which determine the machine code."""
    facts = (source_digest(name), compiler_version(), arch, ELEMENTS[element], *FLAGS)
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _compile(name: str, element: torch.dtype, arch: str, to: Path) -> None:
    command = [nvcc(), *FLAGS, only_for(arch), f"-DElement={ELEMENTS[element]}", "-o", to, SOURCES / f"{name}.cu"]
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
