"""Writes a site part by part, and of a site that is there already only what is no longer as it should be.

A part names everything that its files are made of in one key: while the key is the same, the files are too, and nobody
makes them again. What a build wrote is remembered under .cache/; without that memory, or where a file was touched
since, the part is made anew. Nothing of the old site changes before everything new is made, and what then fails in
the middle is taken back.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.evidence.source import ROOT

REMEMBERED = ROOT / ".cache" / "site"
MOST_SITES = 32  # that are remembered, by their folders; previews come and go
Content = tuple[str, bytes]  # path in the site, what the file holds
Stamp = tuple[int, int, int]  # size, time of the last change, and which file it is: two may be exchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some files of a site. `make` is told what the parts before it wrote, and may add a note to its files;
    the key may depend on that too."""

    name: str
    key: str | Callable[["Memory"], str]
    make: Callable[["Memory"], Iterator[Content | dict[str, Any]]]


@dataclass(slots=True)
class Memory:
    """What a build wrote."""

    keys: dict[str, str] = field(default_factory=dict)  # by part
    notes: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)  # part → path → SHA-256
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by path


def write_parts(parts: Iterable[Part], out: Path, remembered: Path = REMEMBERED) -> Mapping[str, str]:
    """Make `out` hold the files of the parts and nothing else; returns the SHA-256 of each.

    Of two builds into one folder the later waits, and then finds made what it would make.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    remembered.mkdir(parents=True, exist_ok=True)
    memory_path = remembered / f"{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]}.json"
    with memory_path.with_suffix(".lock").open("w") as lock:  # which a process that is killed gives back
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _write(parts, out, memory_path)


def _write(parts: Iterable[Part], out: Path, memory_path: Path) -> Mapping[str, str]:
    found = dict(_stamps(out))
    old = _recall(memory_path)
    sound = {path: stamp for path, stamp in found.items() if old.stamps.get(path) == stamp}
    with _scratch(out) as scratch:
        staged = _Staged(scratch / "fresh", old, sound, new := Memory())
        for part in parts:
            _write_part(part, staged, new)
        if staged.count or new.stamps.keys() != found.keys():
            memory_path.unlink(missing_ok=True)
            _move(staged.folder, out, found.keys() - new.stamps.keys(), scratch / "old")
        if (new.keys, new.stamps) != (old.keys, old.stamps):
            _remember(new, memory_path)
    return {path: sha for files in new.files.values() for path, sha in files.items()}


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder beside `out`, and so on its disk; what a build that was killed left there goes first."""
    folder = out.parent / f".{out.name}-building"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class _Staged:
    """Files that are ready to be moved to their places, and the old ones that may stay."""

    def __init__(self, folder: Path, old: Memory, sound: Mapping[str, Stamp], new: Memory) -> None:
        self.folder, self.old, self.stamps, self.count = folder, old, new.stamps, 0
        self._sound = sound
        self._same = {path: sha for files in old.files.values() for path, sha in files.items() if path in sound}
        self._made: set[Path] = set()
        folder.mkdir()

    def keeps(self, part: str, key: str) -> bool:
        """Whether all that a part would make is there."""
        old = self.old
        return old.keys.get(part) == key and all(path in self._sound for path in old.files[part])

    def stay(self, path: str) -> None:
        if path in self.stamps:
            raise LabError(f"{path}: two parts of the site write this file")
        self.stamps[path] = self._sound[path]

    def write(self, path: str, content: bytes) -> str:
        """Returns the file's SHA-256."""
        if path in self.stamps:
            raise LabError(f"{path}: two parts of the site write this file")
        sha = hashlib.sha256(content).hexdigest()
        if self._same.get(path) == sha:
            self.stamps[path] = self._sound[path]
            return sha
        target = self.folder / path
        if target.parent not in self._made:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(target.parent)
        with target.open("wb") as file:
            file.write(content)
            file.flush()
            told = os.fstat(file.fileno())
        self.stamps[path] = (told.st_size, told.st_mtime_ns, told.st_ino)
        self.count += 1
        return sha


def _write_part(part: Part, staged: _Staged, new: Memory) -> None:
    if part.name in new.keys:
        raise LabError(f"{part.name}: two parts of the site have this name")
    key = part.key if isinstance(part.key, str) else part.key(new)
    new.keys[part.name] = key
    if staged.keeps(part.name, key):
        new.files[part.name] = staged.old.files[part.name]
        if part.name in staged.old.notes:
            new.notes[part.name] = staged.old.notes[part.name]
        for path in new.files[part.name]:
            staged.stay(path)
        return
    written = new.files[part.name] = {}
    for made in part.make(new):
        if isinstance(made, dict):
            new.notes[part.name] = made
        else:
            written[made[0]] = staged.write(*made)


def _move(fresh: Path, out: Path, orphans: Iterable[str], old: Path) -> None:
    """Everything in `fresh` into its place and the orphans out; on any failure `out` is as it was.

    A file that takes another's place does so at once: no reader, and no build that was killed, finds none there.
    """
    old.mkdir()
    if not out.exists() or not any(out.iterdir()):
        if out.exists():
            out.rmdir()
        os.replace(fresh, out)
        return
    undo: list[tuple[Path, Path]] = []
    try:
        for path in orphans:
            _replace(out / path, old / path)
            undo.append((old / path, out / path))
        for path in sorted(path for path, _ in _stamps(fresh)):
            if (out / path).is_file():
                _copy(out / path, old / path)
                undo.append((old / path, out / path))
                _replace(fresh / path, out / path)
            else:
                _replace(fresh / path, out / path)
                undo.append((out / path, fresh / path))
    except BaseException:
        for source, target in reversed(undo):
            _replace(source, target)
        raise
    _remove_empty(out)


def _replace(source: Path, target: Path) -> None:
    if target.is_dir():  # somebody's, of that name, and empty by now
        _remove_empty(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _copy(source: Path, target: Path) -> None:
    """Another name for the same file, where the file system has that; what takes its place leaves it as it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _remove_empty(folder: Path) -> None:
    for path, folders, files in os.walk(folder, topdown=False):
        if not files and all(not Path(path, name).exists() for name in folders):
            Path(path).rmdir()


def _stamps(folder: Path) -> Iterator[tuple[str, Stamp]]:
    """Every file below a folder, by its path from there."""
    waiting = [(str(folder), "")] if folder.is_dir() else []
    while waiting:
        place, prefix = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                else:
                    told = entry.stat(follow_symlinks=False)
                    yield f"{prefix}{entry.name}", (told.st_size, told.st_mtime_ns, told.st_ino)


def _recall(path: Path) -> Memory:
    """What was remembered; nothing where that cannot be read."""
    try:
        held = json.loads(path.read_bytes())
        return Memory(
            keys=held["keys"],
            notes=held["notes"],
            files=held["files"],
            stamps={name: (size, changed, file) for name, (size, changed, file) in held["stamps"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return Memory()


def _remember(memory: Memory, path: Path) -> None:
    fresh = path.with_suffix(".part")
    held = {"keys": memory.keys, "notes": memory.notes, "files": memory.files, "stamps": memory.stamps}
    fresh.write_text(json.dumps(held, separators=(",", ":")), encoding="utf-8")
    fresh.replace(path)
    for stale in sorted(path.parent.glob("*.json"), key=lambda found: found.stat().st_mtime_ns)[:-MOST_SITES]:
        stale.unlink(missing_ok=True)
