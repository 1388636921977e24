"""Tuned configurations, which a search found on this machine: the file that keeps them, and how a kernel chooses one.

An entry applies to one GPU, operator, class of shapes, dtype, version of Triton and source of the operator. If none
applies, as always in a clean checkout, the operator's rule chooses. A kernel looks entries up when it prepares a launch
for a kind of tensors, not at every call.
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

VARIABLE = "LAB_TUNED"  # the path of another file; set but empty: no file
SCHEMA = 1
PACKAGE = __package__ or "lab.kernels"
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """What an entry applies to."""

    gpu: str
    operator: str
    shapes: str
    dtype: str
    triton: str
    source: str  # digest of the operator's module and of those of this package that it imports


def by_rows(shape: Shape) -> str:
    """The class of a row-wise operator's (..., N): exactly N columns, and the power of two at or above the rows."""
    return f"{shape[-1]} columns, up to {triton.next_power_of_2(math.prod(shape[:-1]))} rows"


def by_elements(shape: Shape) -> str:
    """The class of an element-wise operator's shape: the power of two at or above its elements."""
    return f"up to {triton.next_power_of_2(math.prod(shape))} elements"


def by_heads(shape: Shape) -> str:
    """The class of an operator on heads, (B, H, S, D) or (B, Hq, Hk, S, D): exactly these heads, and the powers of two
    at or above S and B. The last feature of an odd D is not turned, so D counts as D − 1."""
    B, *heads, S, D = shape
    positions, batch = triton.next_power_of_2(S), triton.next_power_of_2(B)
    return f"{' and '.join(map(str, heads))} heads of {D // 2 * 2}, up to {positions} positions, batch up to {batch}"


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a search needs to tune an operator, and what its kernel needs to choose a configuration.

    module: where its kernels are. rule, choices: take (shape, itemsize) and give the configuration without tuning, and
    all that a search may try. shapes: gives the class of a shape, for which one tuned configuration is kept. form: the
    names of the sizes of a shape, joined by x; empty if it may have any number of sizes.
    """

    operator: str
    module: str
    rule: Callable[[Shape, int], Configuration]
    choices: Callable[[Shape, int], Iterable[Configuration]]
    shapes: Callable[[Shape], str] = by_rows
    form: str = "MxN"

    def choose(self, shape: Shape, x: Tensor) -> Configuration:
        """The tuned configuration for a call on `x` of this shape, else that of the rule.

        A configuration in the file that is not one of the choices is not used, since the file can be edited.
        """
        if (path := tuned_file()) and (entries := _entries(path)):
            key = self.key(shape, str(x.dtype).removeprefix("torch."), gpu_of(x.get_device()))
            if (configuration := entries.get(key)) and configuration in self.choices(shape, x.itemsize):
                return configuration
        return self.rule(shape, x.itemsize)

    def key(self, shape: Shape, dtype: str, gpu: str) -> Key:
        return Key(gpu, self.operator, self.shapes(shape), dtype, triton.__version__, source_digest(self.module))


def tuned_file() -> Path | None:
    """The path of this user's file, or None if LAB_TUNED is empty."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or os.path.expanduser("~/.cache")) / "kernel-evidence-lab" / "tuned.json"


def read_tuned(path: Path) -> dict[Key, tuple[Configuration, dict[str, Any]]]:
    """All entries of a file, each with notes on the search that found it; empty if there is no file.

    ValueError, with the path, if it is not a file of tuned configurations.
    """
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
    """Add or replace an entry, safely if other processes write the file too. ValueError as `read_tuned`."""
    with _alone(path):
        _write(path, read_tuned(path) | {key: (configuration, origin)})


def drop(path: Path, key: Key) -> bool:
    """Remove an entry. Returns whether there was one. ValueError as `read_tuned`."""
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
    """SHA-256 of the source of a module of this package and of all modules here that it imports, directly or not."""
    sources: dict[str, str] = {}
    waiting = {module}
    while waiting:
        name = waiting.pop()
        sources[name] = Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")
        imports = [node.module or "" for node in ast.walk(ast.parse(sources[name])) if isinstance(node, ast.ImportFrom)]
        waiting |= {other for other in imports if other.startswith(f"{PACKAGE}.")} - sources.keys()
    return hashlib.sha256("\0".join(sources[name] for name in sorted(sources)).encode()).hexdigest()


def _entries(path: Path) -> dict[Key, Configuration]:
    """The entries of a file, read again only if it has changed. A damaged file gives one warning and no entries."""
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
    """Replace the file atomically, after the new content is on disk."""
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
    """Lock the file for one writer; others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
