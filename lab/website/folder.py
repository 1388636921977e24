"""The folder of a site, replaced as a whole: the next site is made elsewhere, and then the two change places.

A site is written part by part. A part names everything that its files are made of in one key: while the key is the
same, and nobody touched the files, they are taken over from the old folder. What a build wrote is remembered under
.cache/, and may be deleted at any time.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lab.errors import LabError
from lab.project import project
from lab.website.exchange import exchange, recover

REMEMBERED = project().cache / "site"
MOST_SITES = 8  # that are remembered, by their folders; previews come and go
Content = tuple[str, bytes]  # path in the site, what the file holds
Stamp = list[int]  # size, time of the last change, and which file it is: two may be exchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some files of a site. `make` yields them, and may add a note, which is for parts that come after it."""

    name: str
    key: str
    make: Callable[[], Iterator[Content | str]]


@dataclass(kw_only=True)
class Written:
    """What a part was when it was made."""

    key: str
    files: dict[str, str] = field(default_factory=dict)  # path → SHA-256
    note: str = ""


class NextSite:
    """The site that is being made beside the old one: what is new lies in `made` until all of it is there."""

    def __init__(self, old: Path, made: Path, before: Mapping[str, Written], stamps: Mapping[str, Stamp]) -> None:
        self._old, self._made, self._before = old, made, before
        self.present, self._folders = scan(old)
        known = {path: sha256 for part in before.values() for path, sha256 in part.files.items()}
        self._sound = {path: known.get(path) for path, stamp in self.present.items() if stamps.get(path) == stamp}
        self.parts: dict[str, Written] = {}
        self.stamps: dict[str, Stamp] = {}
        self._places: dict[str, str] = {}  # of files that were made, until they are moved

    def add(self, part: Part) -> None:
        """Make a part, or keep what it made before. LabError where another part has its name or one of its files."""
        if part.name in self.parts:
            raise LabError(f"{part.name}: two parts of the site have this name")
        before = self._before.get(part.name)
        if before and before.key == part.key and self._is_sound(before):
            self._keep(part.name, before)
            return
        written = self.parts[part.name] = Written(key=part.key)
        for made in part.make():
            if isinstance(made, str):
                written.note = made
            else:
                written.files[made[0]] = self._write(*made)

    def keep_others(self, whole: str) -> bool:
        """Keep every part that was there and was not added yet, if the site was made of the same `whole`."""
        others = {name: part for name, part in self._before.items() if name not in self.parts}
        if not any(part.key == whole for part in others.values()) or not all(map(self._is_sound, others.values())):
            return False
        for name, part in others.items():
            self._keep(name, part)
        return True

    @property
    def differs(self) -> bool:
        """From what lies there, empty folders included."""
        return bool(self._places) or self.stamps.keys() != self.present.keys() or self._wanted != self._folders

    def complete(self, spare: Path) -> None:
        """Make `spare` the next site. What it holds of it stays, and that is most of it: it was the site before."""
        spare.mkdir(parents=True, exist_ok=True)
        there, folders = scan(spare)
        same = {path for path, stamp in there.items() if self.stamps.get(path) == stamp}
        for path in there.keys() - same:
            os.unlink(f"{spare}/{path}")
        for folder in sorted(folders - self._wanted, reverse=True):
            os.rmdir(f"{spare}/{folder}")
        for folder in sorted(self._wanted - folders):
            os.mkdir(f"{spare}/{folder}")
        for path in self.stamps.keys() - same:
            self._move_or_link(path, f"{spare}/{path}")

    def _move_or_link(self, path: str, target: str) -> None:
        """A file that was made, or one that is kept."""
        if path in self._places:
            os.rename(self._places[path], target)
            return
        try:
            os.link(f"{self._old}/{path}", target)
        except OSError:  # where a file may not have two names
            shutil.copy2(f"{self._old}/{path}", target)
            self.stamps[path] = _stamp(os.stat(target))

    @cached_property
    def _wanted(self) -> set[str]:
        """Every folder of the next site; asked for when all its parts are there."""
        folders = {path.rpartition("/")[0] for path in self.stamps}
        return folders.union(*map(_folders_of, folders)) - {""}

    def _is_sound(self, part: Written) -> bool:
        return part.files.keys() <= self._sound.keys()

    def _keep(self, name: str, part: Written) -> None:
        for path in part.files:
            self._refuse_second(path)
            self.stamps[path] = self.present[path]
        self.parts[name] = part

    def _write(self, path: str, content: bytes) -> str:
        """Returns the file's SHA-256."""
        self._refuse_second(path)
        sha256 = hashlib.sha256(content).hexdigest()
        if self._sound.get(path) == sha256:
            self.stamps[path] = self.present[path]
            return sha256
        if not self._places:
            self._made.mkdir(parents=True, exist_ok=True)
        place = self._places[path] = f"{self._made}/{len(self._places)}"
        with open(place, "wb") as file:
            file.write(content)
            file.flush()
            self.stamps[path] = _stamp(os.fstat(file.fileno()))
        return sha256

    def _refuse_second(self, path: str) -> None:
        if path in self.stamps:
            raise LabError(f"{path}: two parts of the site write this file")


def replace_site(out: Path, remembered: Path, fill: Callable[[NextSite], None]) -> Mapping[str, Written]:
    """Make `out` hold the parts that `fill` adds and nothing else; returns them by name.

    A second build into the same folder waits, and then finds its work done. One that fails changes nothing. The folder
    that was replaced stays beside what is remembered: the next build changes it and lets both change places.
    """
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    remembered.mkdir(parents=True, exist_ok=True)
    memory = remembered / f"{hashlib.sha256(str(out).encode()).hexdigest()[:16]}.json"
    with memory.with_suffix(".lock").open("w") as lock:  # which a process that is killed gives back
        fcntl.flock(lock, fcntl.LOCK_EX)
        recover(out)
        before, stamps = _recall(memory)
        work = _on_its_disk(out, memory.with_suffix(""))
        spare, made = work / "spare", work / "made"
        shutil.rmtree(made, ignore_errors=True)  # what a build left that was killed
        stays = work.parent == remembered
        site = NextSite(out, made, before, stamps)
        try:
            fill(site)
            if site.differs:
                site.complete(spare)
                exchange(spare, out)
        finally:
            shutil.rmtree(made if stays else work, ignore_errors=True)
        if site.parts != before or site.stamps != stamps:
            _remember(site, memory)
    return site.parts


def scan(out: Path) -> tuple[dict[str, Stamp], set[str]]:
    """The stamp of every file, by its path from there; and every folder below."""
    files: dict[str, Stamp] = {}
    folders: set[str] = set()
    waiting = [(str(out), "")] if out.is_dir() else []
    while waiting:
        place, prefix = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.add(prefix + entry.name)
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                else:
                    files[prefix + entry.name] = _stamp(entry.stat(follow_symlinks=False))
    return files, folders


def _folders_of(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _stamp(status: os.stat_result) -> Stamp:
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _on_its_disk(out: Path, folder: Path) -> Path:
    """A place for a folder that changes places with the site: there, or beside it where that is another disk."""
    near = out.parent.stat().st_dev == folder.parent.stat().st_dev
    return folder if near else out.with_name(f".{out.name}-building")


def _recall(path: Path) -> tuple[dict[str, Written], dict[str, Stamp]]:
    """What was remembered; nothing where that cannot be read."""
    try:
        memory = json.loads(path.read_bytes())
        return {name: Written(**part) for name, part in memory["parts"].items()}, dict(memory["stamps"])
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return {}, {}


def _remember(site: NextSite, path: Path) -> None:
    fresh = path.with_suffix(".part")
    memory = {"parts": {name: vars(part) for name, part in site.parts.items()}, "stamps": site.stamps}
    fresh.write_text(json.dumps(memory, separators=(",", ":")), encoding="utf-8")
    fresh.replace(path)
    for stale in sorted(path.parent.glob("*.json"), key=_changed_ns)[:-MOST_SITES]:
        _forget(stale)


def _changed_ns(path: Path) -> int:
    """0 where another process has just forgotten it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _forget(memory: Path) -> None:
    """Unless a process is building that site."""
    with memory.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        memory.unlink(missing_ok=True)
        shutil.rmtree(memory.with_suffix(""), ignore_errors=True)
