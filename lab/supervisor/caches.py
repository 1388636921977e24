"""Compiler caches for the workers of a run: a fresh one for each process, with binaries but without autotuning choices.

Source, constants and compiler determine a Triton binary, so an earlier one can be used again. Which configuration is
launched depends on timing the candidates, and every sweep must time them again. So Inductor's folder, which has its
choices and the graphs made with them, is empty when a worker starts, and Triton's folder has only compiled code.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "caches"  # in the run's directory, while the run goes on
BINARIES = (".cubin", ".ptx", ".json", ".so")  # what a compiled kernel is loaded from, and Triton's own modules
CHOICES = ".autotune.json"  # what an autotuner of Triton's own chose
GROUP = "__grp__"  # Triton's list of the files of a kernel, by path


@dataclass(frozen=True, slots=True)
class Cache:
    """The folders of one process."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "TRITON_CACHE_DIR": str(self.triton),
        }

    @property
    def triton(self) -> Path:
        return self.folder / "triton"


class Caches:
    """All caches of a run. Use as a context manager: none outlives it."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / NAME
        self._binaries = self._folder / "binaries"
        self._made = 0
        self.kept: Cache | None = None  # of the first worker that has ended: with the choices that it made

    def __enter__(self) -> "Caches":
        shutil.rmtree(self._folder, ignore_errors=True)  # of a run that was killed
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def fresh(self) -> Cache:
        """An empty cache, for a process that is about to start."""
        self._made += 1
        cache = Cache(self._folder / str(self._made))
        cache.triton.mkdir(parents=True)
        return cache

    def fill(self, cache: Cache) -> None:
        """Put every binary that is known into a cache, whose process has compiled nothing yet."""
        copy_binaries(self._binaries, cache.triton)

    def gather(self, cache: Cache) -> None:
        """Take over what a process compiled, which has ended."""
        copy_binaries(cache.triton, self._binaries)

    def drop(self, cache: Cache) -> None:
        """The process has ended. The first cache of a sweep stays: later passes are to launch what was timed."""
        if self.kept is None:
            self.kept = cache
        else:
            shutil.rmtree(cache.folder, ignore_errors=True)

    def for_passes(self) -> Cache:
        """For the passes after timing: with the choices of a sweep, where this process has seen one."""
        if self.kept is None:
            self.kept = self.fresh()
            self.fill(self.kept)
        return self.kept

    def discard(self, cache: Cache) -> None:
        shutil.rmtree(cache.folder, ignore_errors=True)


def copy_binaries(source: Path, target: Path) -> None:
    """Copy the compiled kernels of one Triton cache that another lacks; whole ones, without any choice among them."""
    for entry in sorted(source.iterdir()) if source.is_dir() else ():
        place = target / entry.name
        if entry.is_dir() and not entry.is_symlink() and not place.exists() and _is_whole(entry):
            _copy_entry(entry, place)


def _is_whole(entry: Path) -> bool:
    """Triton writes the list of a kernel's files after the files; its own modules are one file each."""
    return any(file.name.startswith(GROUP) or file.suffix == ".so" for file in entry.iterdir())


def _copy_entry(entry: Path, place: Path) -> None:
    files = [file for file in entry.iterdir() if _is_binary(file)]
    place.mkdir(parents=True)
    for file in files:
        if file.name.startswith(GROUP):
            (place / file.name).write_text(_moved(file, place, {each.name for each in files}), encoding="utf-8")
        else:
            shutil.copyfile(file, place / file.name)


def _is_binary(file: Path) -> bool:
    plain = file.is_file() and not file.is_symlink()
    return plain and file.suffix in BINARIES and not file.name.endswith(CHOICES)


def _moved(group: Path, place: Path, names: set[str]) -> str:
    """The list of a kernel's files at their new place, without intermediate code."""
    try:
        listed = json.loads(group.read_text(encoding="utf-8"))["child_paths"]
        return json.dumps({"child_paths": {name: str(place / name) for name in listed if name in names}})
    except (ValueError, LookupError, TypeError):
        return "{}"  # Triton takes it for a kernel that it does not have
