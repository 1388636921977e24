"""A published site as `lab verify` finds it: a folder or a zip, and whether its files are those of its manifest."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.errors import EvidenceError

FRONT = "index.html"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the site says something else than its samples do. `place` is FILE, or FILE#POINTER."""

    place: str
    says: str

    def __str__(self) -> str:
        return f"{self.place}: {self.says}"


@contextmanager
def opened(site: Path) -> Iterator[Path]:
    """The folder of a site, unpacked for the while where it is a zip. EvidenceError where it is neither."""
    if site.is_dir():
        yield _root(site, site)
    elif not site.is_file():
        raise EvidenceError(f"{site}: nothing there; name the folder or the zip of a site")
    else:
        with TemporaryDirectory(prefix="lab-verify-") as scratch:
            try:
                with zipfile.ZipFile(site) as packed:
                    packed.extractall(scratch)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as problem:
                raise EvidenceError(f"{site}: cannot be unpacked ({problem}); download it again") from None
            yield _root(Path(scratch), site)


def _root(folder: Path, site: Path) -> Path:
    """The folder that holds the front page: itself, or, as zips often have it, the only one in it."""
    inner = [path for path in folder.iterdir() if path.is_dir()]
    for root in (folder, *inner[:1]):
        if (root / FRONT).is_file():
            return root
    raise EvidenceError(f"{site}: holds no {FRONT}; name the folder or the zip of a whole site")


def check_manifest(root: Path) -> Iterator[Difference]:
    """Every file against the SHA-256 that the manifest gives for it; nothing where there is no manifest."""
    if not (root / MANIFEST).is_file():
        return
    listed = _hashes(read_json(root, MANIFEST))
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - {MANIFEST}
    for name in sorted(listed.keys() | found):
        if name not in found:
            yield Difference(name, f"is missing; {MANIFEST} lists it")
        elif name not in listed:
            yield Difference(name, f"is not listed in {MANIFEST}")
        elif hashlib.sha256((root / name).read_bytes()).hexdigest() != listed[name]:
            yield Difference(name, f"is not the file whose SHA-256 {MANIFEST} gives")


def _hashes(manifest: Any) -> dict[str, str]:
    """SHA-256 by path, of {"files": {path: digest}} or {"files": {path: {"sha256": digest, …}}}."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise EvidenceError(f"{MANIFEST}: holds no `files`; publish the site again")
    return {name: str(told.get("sha256") if isinstance(told, dict) else told) for name, told in files.items()}


def read_json(root: Path, name: str) -> Any:
    """A JSON file of the site. EvidenceError where it is missing or damaged."""
    try:
        return json.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise EvidenceError(f"{name}: cannot be read ({problem}); publish the site again") from None


def apart(published: Any, computed: Any, place: str) -> Iterator[Difference]:
    """Every value in which two JSON documents differ, by its pointer."""
    if isinstance(published, dict) and isinstance(computed, dict):
        for key in sorted(published.keys() | computed.keys()):
            below = f"{place}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in computed:
                yield Difference(below, "is published, and nothing computes it")
            elif key not in published:
                yield Difference(below, f"is missing; computed is {_short(computed[key])}")
            else:
                yield from apart(published[key], computed[key], below)
    elif isinstance(published, list) and isinstance(computed, list) and len(published) == len(computed):
        for number, pair in enumerate(zip(published, computed, strict=True)):
            yield from apart(*pair, f"{place}/{number}")
    elif published != computed or isinstance(published, bool) != isinstance(computed, bool):
        yield Difference(place, f"published is {_short(published)}, computed {_short(computed)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
