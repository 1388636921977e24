"""Configurations that a search has found on this machine: where they are kept, and how a kernel chooses one.

An entry holds for a GPU, an operator, a class of shapes, a dtype, a version of Triton and the operator's own source;
where none holds, and always from a clean checkout, the operator's rule chooses. A kernel asks when it settles a
launch, never on the way of a call, and keeps what it settled.
"""

import ast
import fcntl
import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import triton
from torch import Tensor

from lab.kernels.launch import Configuration, gpu_of

VARIABLE = "LAB_TUNED"  # names another file; set but empty, it says that there is none
SCHEMA = 1
PACKAGE = __package__ or "lab.kernels"
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """What an entry holds for."""

    gpu: str
    operator: str
    shapes: str
    dtype: str
    triton: str
    source: str  # digest of the operator's module and of those of this package that it imports


def by_rows(shape: Shape) -> str:
    """The class of a row-wise operator's (..., N): exactly N columns, and the power of two that holds the rows."""
    return f"{shape[-1]} columns, up to {triton.next_power_of_2(math.prod(shape[:-1]))} rows"


def by_elements(shape: Shape) -> str:
    """The class of an element-wise operator's shape: the power of two that holds its elements."""
    return f"up to {triton.next_power_of_2(math.prod(shape))} elements"


def by_heads(shape: Shape) -> str:
    """The class of an operator on heads, (B, H, S, D) or (B, Hq, Hk, S, D): exactly these heads, and the powers of two
    that hold the positions and the batch. The last feature of an odd D is not turned, and counts for nothing."""
    B, *heads, S, D = shape
    positions, batch = triton.next_power_of_2(S), triton.next_power_of_2(B)
    return f"{' and '.join(map(str, heads))} heads of {D // 2 * 2}, up to {positions} positions, batch up to {batch}"


@dataclass(frozen=True, slots=True)
class Tuning:
    """An operator as a search for configurations sees it, and as its kernel asks what the search has found.

    module: where its kernels are. rule and choices take (shape, itemsize): what is launched where nothing was found,
    and all that a search may try. shapes gives the class of shapes that a finding at one of them is kept for. form: the
    sizes of a shape by name, joined by x; empty where any number of sizes will do.
    """

    operator: str
    module: str
    rule: Callable[[Shape, int], Configuration]
    choices: Callable[[Shape, int], Iterable[Configuration]]
    shapes: Callable[[Shape], str] = by_rows
    form: str = "MxN"

    def choose(self, shape: Shape, x: Tensor) -> Configuration:
        """What was found here for a call on `x`, of this shape to the operator, else what the rule says.

        A finding that is none of the choices, for the file can be edited, is not used.
        """
        if (path := tuned_file()) and (entries := _entries(path)):
            key = self.key(shape, str(x.dtype).removeprefix("torch."), gpu_of(x.get_device()))
            if (configuration := entries.get(key)) and configuration in self.choices(shape, x.itemsize):
                return configuration
        return self.rule(shape, x.itemsize)

    def key(self, shape: Shape, dtype: str, gpu: str) -> Key:
        return Key(gpu, self.operator, self.shapes(shape), dtype, triton.__version__, source_digest(self.module))


def tuned_file() -> Path | None:
    """The file of this user, or None where there is to be none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or os.path.expanduser("~/.cache")) / "kernel-evidence-lab" / "tuned.json"


def read_tuned(path: Path) -> dict[Key, tuple[Configuration, dict[str, Any]]]:
    """All that is kept in a file, with what is noted of how it was found; nothing where there is no file.
    ValueError, naming it, where it is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"its schema is {data['schema']!r}; accepted is {SCHEMA}")
        return {Key(**entry["key"]): (_configuration(entry["launch"]), entry["found"]) for entry in data["entries"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise ValueError(
            f"{path}: is no file of tuned configurations ({type(problem).__name__}: {problem}); remove it, or name "
            f"another with {VARIABLE}"
        ) from None


def keep(path: Path, key: Key, configuration: Configuration, origin: dict[str, Any]) -> None:
    """Add or replace an entry, whatever other processes do to the file meanwhile. ValueError as `read_tuned`."""
    with _alone(path):
        _write(path, read_tuned(path) | {key: (configuration, origin)})


def drop(path: Path, key: Key) -> bool:
    """Remove an entry; whether there was one. ValueError as `read_tuned`."""
    if not path.exists():
        return False
    with _alone(path):
        entries = read_tuned(path)
        if known := key in entries:
            del entries[key]
            _write(path, entries)
        return known


@cache
def source_digest(module: str) -> str:
    """SHA-256 over the source of a module of this package and of all of it that it imports, directly or not."""
    sources: dict[str, str] = {}
    waiting = {module}
    while waiting:
        name = waiting.pop()
        sources[name] = Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")
        imports = [node.module or "" for node in ast.walk(ast.parse(sources[name])) if isinstance(node, ast.ImportFrom)]
        waiting |= {other for other in imports if other.startswith(f"{PACKAGE}.")} - sources.keys()
    return hashlib.sha256("\0".join(sources[name] for name in sorted(sources)).encode()).hexdigest()


def _entries(path: Path) -> dict[Key, Configuration]:
    """Read once, and again where the file has changed; a damaged one is told of once, and holds nothing."""
    try:
        state = path.stat()
    except OSError:
        return {}
    return _read_quietly(path, state.st_mtime_ns, state.st_size)


@cache
def _read_quietly(path: Path, *_state: int) -> dict[Key, Configuration]:
    try:
        return {key: configuration for key, (configuration, _) in read_tuned(path).items()}
    except ValueError as problem:
        warnings.warn(f"{problem}. Until then kernels are launched by their rules", RuntimeWarning, stacklevel=2)
        return {}


def _configuration(data: dict[str, Any]) -> Configuration:
    constants = {str(name): int(value) for name, value in data["constants"].items()}
    return Configuration(tuple(constants.items()), int(data["num_warps"]), int(data["num_stages"]))


def _write(path: Path, kept: dict[Key, tuple[Configuration, dict[str, Any]]]) -> None:
    """Whole or not at all, and on disk before the old file goes."""
    entries = [
        {"key": asdict(key), "launch": asdict(launch) | {"constants": dict(launch.constants)}, "found": origin}
        for key, (launch, origin) in kept.items()
    ]
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, "entries": entries}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Be the only writer of the file; another waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
