"""Writes a site part by part, and of a site that is there already only what is no longer as it should be.

A part names everything that its files are made of in one key: while the key is the same, the files are too, and nobody
makes them again. What a build wrote is remembered under .cache/; without that memory, or where a file was touched
since, the part is made anew. Parts that have much in common form a group with a key of its own, which saves working
out theirs. Nothing of the old site changes before everything new is made, and what then fails in the middle is taken
back.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from lab.errors import LabError
from lab.evidence.source import ROOT
from lab.website.scan import Stamp, folders, scan, stamp_of, untouched

REMEMBERED = ROOT / ".cache" / "site"
MOST_SITES = 32  # that are remembered, by their folders; previews come and go
Content = tuple[str, bytes]  # path in the site, what the file holds


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some files of a site. `make` yields them, and may add a note, which is for the groups that come after it."""

    name: str
    key: str
    make: Callable[[], Iterator[Content | str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Parts that are worked out, from what was written before them, where its key is no longer the same."""

    name: str
    key: str
    parts: Callable[["Memory"], Iterator[Part]]


@dataclass(slots=True)
class Memory:
    """What a build wrote."""

    keys: dict[str, str] = field(default_factory=dict)  # by part, and by group
    groups: dict[str, list[str]] = field(default_factory=dict)  # the parts of each
    notes: dict[str, str] = field(default_factory=dict)  # by part
    files: dict[str, dict[str, str]] = field(default_factory=dict)  # part → path → SHA-256
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by path
    folders: dict[str, int] = field(default_factory=dict)  # path → time of the last change


def write_parts(parts: Iterable[Part | Group], out: Path, remembered: Path = REMEMBERED) -> Mapping[str, str]:
    """Make `out` hold the files of the parts and nothing else; returns the SHA-256 of each.

    Of two builds into one folder the later waits, and then finds made what it would make.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    remembered.mkdir(parents=True, exist_ok=True)
    memory_path = remembered / f"{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]}.json"
    with memory_path.with_suffix(".lock").open("w") as lock:  # which a process that is killed gives back
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _write(parts, out, memory_path)


def _write(parts: Iterable[Part | Group], out: Path, memory_path: Path) -> Mapping[str, str]:
    old = _recall(memory_path)
    as_left = untouched(out, old.stamps, old.folders)
    found, empty = (old.stamps, []) if as_left else scan(out)
    sound = found if found == old.stamps else {p: stamp for p, stamp in found.items() if old.stamps.get(p) == stamp}
    with _scratch(out) as scratch:
        staged = _Staged(scratch / "fresh", old, sound, new := Memory())
        for part in parts:
            if isinstance(part, Group):
                _write_group(part, staged, new)
            else:
                _write_part(part, staged, new)
        new.folders = old.folders
        if staged.count or new.stamps.keys() != found.keys() or empty:
            memory_path.unlink(missing_ok=True)
            orphans = found.keys() - new.stamps.keys()
            _move(staged.folder, out, orphans, scratch / "old")
            _remove_empty(out, [*empty, *(path.rpartition("/")[0] for path in orphans)])
            as_left = False
        if not as_left:
            new.folders = folders(out, new.stamps)
        if not as_left or new.keys != old.keys:
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
        self._made: set[str] = set()
        folder.mkdir()

    def keeps(self, part: str) -> bool:
        """Whether all files that a part made are as it made them."""
        return part in self.old.files and all(path in self._sound for path in self.old.files[part])

    def stay(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._refuse_second(path)
            self.stamps[path] = self._sound[path]

    def write(self, path: str, content: bytes) -> str:
        """Returns the file's SHA-256."""
        self._refuse_second(path)
        sha = hashlib.sha256(content).hexdigest()
        if self._same.get(path) == sha:
            self.stamps[path] = self._sound[path]
            return sha
        target = f"{self.folder}/{path}"
        parent = target.rpartition("/")[0]
        if parent not in self._made:
            os.makedirs(parent, exist_ok=True)
            self._made.add(parent)
        with open(target, "wb") as file:
            file.write(content)
            file.flush()
            told = os.fstat(file.fileno())
        self.stamps[path] = stamp_of(told)
        self.count += 1
        return sha

    def _refuse_second(self, path: str) -> None:
        if path in self.stamps:
            raise LabError(f"{path}: two parts of the site write this file")


def _write_group(group: Group, staged: _Staged, new: Memory) -> None:
    new.keys[group.name] = group.key
    parts = staged.old.groups.get(group.name, [])
    if staged.old.keys.get(group.name) == group.key and all(staged.keeps(part) for part in parts):
        for name in parts:
            _keep(name, staged, new)
    else:
        parts = []
        for part in group.parts(new):
            _write_part(part, staged, new)
            parts.append(part.name)
    new.groups[group.name] = parts


def _keep(part: str, staged: _Staged, new: Memory) -> None:
    old = staged.old
    new.keys[part], new.files[part] = old.keys[part], old.files[part]
    if part in old.notes:
        new.notes[part] = old.notes[part]
    staged.stay(new.files[part])


def _write_part(part: Part, staged: _Staged, new: Memory) -> None:
    if part.name in new.keys:
        raise LabError(f"{part.name}: two parts of the site have this name")
    if staged.old.keys.get(part.name) == part.key and staged.keeps(part.name):
        _keep(part.name, staged, new)
        return
    new.keys[part.name] = part.key
    written = new.files[part.name] = {}
    for made in part.make():
        if isinstance(made, str):
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
        for path in sorted(scan(fresh)[0]):
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


def _replace(source: Path, target: Path) -> None:
    if target.is_dir():  # somebody's, of that name, and empty by now
        _remove_empty(target.parent, [*(f"{target.name}/{path}" for path in scan(target)[1] if path), target.name])
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _copy(source: Path, target: Path) -> None:
    """Another name for the same file, where the file system has that; what takes its place leaves it as it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _remove_empty(out: Path, folders: Iterable[str]) -> None:
    """Those of these folders that hold nothing, and what is empty without them."""
    for path in {path for path in folders if path}:
        for folder in (out / path, *(out / path).parents):
            if folder == out or not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()


def _recall(path: Path) -> Memory:
    """What was remembered; nothing where that cannot be read."""
    try:
        held = json.loads(path.read_bytes())
        return Memory(**held) if all(isinstance(each, dict) for each in held.values()) else Memory()
    except (OSError, ValueError, TypeError, AttributeError):
        return Memory()


def _remember(memory: Memory, path: Path) -> None:
    fresh = path.with_suffix(".part")
    held = {each.name: getattr(memory, each.name) for each in fields(memory)}
    fresh.write_text(json.dumps(held, separators=(",", ":")), encoding="utf-8")
    fresh.replace(path)
    for stale in sorted(path.parent.glob("*.json"), key=lambda found: found.stat().st_mtime_ns)[:-MOST_SITES]:
        stale.unlink(missing_ok=True)
