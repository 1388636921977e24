"""A published site as `lab verify` finds it: a folder or a zip, and whether its files are those of its manifest."""

import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.errors import EvidenceError
from lab.website.files.inventory import MANIFEST, manifest_text, read_files

FRONT = "index.html"
# What judging and page-making raise of evidence that nobody measured: names that are none, times of nought.
UNMEASURED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
MOST_UNPACKED_BYTES = 8 << 30  # a site of ten thousand experiments has less
# What Python's zipfile raises of files that are none, or are of kinds that it does not know.
UNPACKING = (
    zipfile.BadZipFile, zlib.error, EOFError, struct.error, RuntimeError, ValueError, OverflowError
)  # fmt: skip
PACKED, ENCRYPTED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), 1  # what every reader of zips unpacks


@dataclass(frozen=True, slots=True)
class Mismatch:
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
                    _refuse_unsound(site, packed)
                    packed.extractall(scratch)
            except UNPACKING as problem:
                raise EvidenceError(f"{site}: cannot be unpacked ({problem}); download it again") from None
            except OSError as problem:
                raise EvidenceError(
                    f"{site}: cannot be unpacked into {scratch} ({problem.strerror or problem}); "
                    "TMPDIR names the folder where that happens"
                ) from None
            yield _root(Path(scratch), site)


def _refuse_unsound(site: Path, packed: zipfile.ZipFile) -> None:
    """EvidenceError where a zip is not the same to everybody who unpacks it, or fills the disk."""
    entries = packed.infolist()
    names = [entry.filename for entry in entries]
    if strange := next((name for name in names if not _is_inside(name)), None):
        raise EvidenceError(f"{site}: holds {strange!r}, which leads out of it; ask for a zip of the folder alone")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise EvidenceError(f"{site}: holds {twice!r} twice, so that what is read depends on who reads it")
    if other := next((e.filename for e in entries if e.compress_type not in PACKED or e.flag_bits & ENCRYPTED), None):
        raise EvidenceError(f"{site}: holds {other!r} encrypted or packed in a way of its own; accepted is deflate")
    if (size := sum(entry.file_size for entry in entries)) > MOST_UNPACKED_BYTES:
        raise EvidenceError(f"{site}: would unpack to {size:,} bytes, and at most {MOST_UNPACKED_BYTES:,} are accepted")


def _is_inside(name: str) -> bool:
    """Whether a path of a zip stays in the folder where it is unpacked, on every system."""
    return not name.startswith("/") and not {"..", "."} & set(name.split("/")) and not set(":\\\0") & set(name)


def _root(folder: Path, site: Path) -> Path:
    """The folder that holds the front page: itself, or, as zips often have it, the only thing in it.

    EvidenceError where anything lies beside that one, for a reader of the zip may take it for the site.
    """
    if (folder / FRONT).is_file():
        return folder
    entries = sorted(folder.iterdir())
    inner = [path for path in entries if (path / FRONT).is_file()]
    if not inner:
        raise EvidenceError(f"{site}: holds no {FRONT}; name the folder or the zip of a whole site")
    if beside := next((path.name for path in entries if path != inner[0]), ""):
        raise EvidenceError(
            f"{site}: holds {beside!r} beside {inner[0].name!r}, which looks like a site; name the folder of the site, "
            "or a zip with nothing else in it"
        )
    return inner[0]


def check_manifest(root: Path) -> Iterator[Mismatch]:
    """Every file against the SHA-256 that the manifest gives for it, and the manifest against all of them."""
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield Mismatch(path.relative_to(root).as_posix(), "is a link or a device, and no file of a site")
    if not (root / MANIFEST).is_file():
        yield Mismatch(MANIFEST, "is missing; it lists every file of a site")
        return
    listed = _told(read_json(root, MANIFEST))
    present = read_files(root)
    wrong = False
    for name in sorted(listed.keys() | present.keys()):
        says = ""
        if name not in present:
            says = f"is missing; {MANIFEST} lists it"
        elif name not in listed:
            says = f"is not listed in {MANIFEST}"
        elif listed[name] != present[name].sha256:
            says = f"is not the file whose SHA-256 {MANIFEST} gives"
        if says:
            wrong = True
            yield Mismatch(name, says)
    if not wrong and (root / MANIFEST).read_bytes() != manifest_text(present).encode():
        yield Mismatch(MANIFEST, "says something else than which files there are, how large, and their SHA-256")


def _told(manifest: Any) -> Mapping[str, str]:
    """SHA-256 by path."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise EvidenceError(f"{MANIFEST}: holds no `files`; publish the site again")
    return {name: str(entry.get("sha256") if isinstance(entry, dict) else entry) for name, entry in files.items()}


def read_json(root: Path, name: str) -> Any:
    """A JSON file of the site. EvidenceError where it is missing or damaged."""
    try:
        return json.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise EvidenceError(f"{name}: cannot be read ({problem}); publish the site again") from None


def apart(published: Any, computed: Any, place: str) -> Iterator[Mismatch]:
    """Every value in which two JSON documents differ, by its pointer."""
    if isinstance(published, dict) and isinstance(computed, dict):
        for key in sorted(published.keys() | computed.keys()):
            below = f"{place}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in computed:
                yield Mismatch(below, "is published, and nothing computes it")
            elif key not in published:
                yield Mismatch(below, f"is missing; computed is {_short(computed[key])}")
            else:
                yield from apart(published[key], computed[key], below)
    elif isinstance(published, list) and isinstance(computed, list) and len(published) == len(computed):
        for number, pair in enumerate(zip(published, computed, strict=True)):
            yield from apart(*pair, f"{place}/{number}")
    elif published != computed or isinstance(published, bool) != isinstance(computed, bool):
        yield Mismatch(place, f"published is {_short(published)}, computed {_short(computed)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
