"""A run in one zip, to be handed to a colleague: written by `lab export --bundle`, taken in by `lab import`.

A bundle is not trusted: only the files of a run are read, by their names, within limits of size; each has the
digest that the bundle lists; plan and journal are read as data and judged; nothing of it is executed.
"""

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lab.definition import plan
from lab.errors import EvidenceError, LabError, RunError
from lab.evidence import journal
from lab.evidence.source import NoRepository, commit_of
from lab.verdict.results import RunResult, load_run

LIST = "bundle.json"
SCHEMA = 1
FILES = (plan.NAME, journal.NAME)
KNOWN = (LIST, plan.NAME, journal.NAME, journal.PACKED, "evidence.json")
MOST_BYTES = 2 << 30  # of one file, unpacked
MOST_ENTRIES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """Where a run lies now, and what is known of its origin."""

    directory: Path
    run: RunResult
    commit: str  # of this project, with the measured source; empty if there is none
    listed: bool  # whether the bundle said which digests its files have


def write_bundle(directory: Path, out: Path) -> None:
    """RunError where the run cannot be read; LabError where the bundle cannot be written."""
    run = load_run(directory)
    path = journal.find(directory)
    assert path, "a run that was read has a journal"
    contents = {plan.NAME: (directory / plan.NAME).read_bytes(), journal.NAME: journal.content_of(path)}
    listed = {
        "schema": SCHEMA, "run_id": run.plan.run_id, "source_digest": run.start.source_digest,
        "commit": run.start.commit, "files": {name: _sha256(content) for name, content in contents.items()},
    }  # fmt: skip
    try:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr(LIST, json.dumps(listed, indent=1) + "\n")
            for name, content in contents.items():
                bundle.writestr(name, content)
    except OSError as refusal:
        raise LabError(f"{out}: the bundle cannot be written there: {refusal.strerror}") from None


def import_bundle(path: Path, runs: Path) -> Imported:
    """Check a bundle and put its run among the others. EvidenceError names what is wrong with it, and where."""
    contents = _read(path)
    _check_list(path, contents)
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".importing-") as scratch:
        whole = Path(scratch) / "run"
        whole.mkdir()
        for name in FILES:
            (whole / name).write_bytes(contents[name])
        try:
            run = load_run(whole)
        except RunError as problem:
            raise EvidenceError(f"{path}: {str(problem).replace(f'{whole}/', '')}") from None
        if run.damages:
            bad = run.damages[0]
            raise EvidenceError(
                f"{path}: {journal.NAME}, line {bad.line_number} is damaged: {bad.reason} "
                f"({len(run.damages)} lines in all); ask for the bundle again"
            )
        target = runs / run.plan.run_id
        if target.exists():
            raise EvidenceError(f"{target}: a run of this id is here already; move it away, or import into other runs")
        whole.rename(target)
    return Imported(directory=target, run=run, commit=_commit(run), listed=LIST in contents)


def _commit(run: RunResult) -> str:
    try:
        return commit_of(run.start.source_digest)
    except NoRepository:
        return ""
    except EvidenceError:
        return ""


def _read(path: Path) -> dict[str, bytes]:
    """What the bundle holds by its plain name, the journal unpacked."""
    try:
        with zipfile.ZipFile(path) as bundle:
            contents = dict(_entries(path, bundle))
    except FileNotFoundError:
        raise EvidenceError(f"{path}: no such file; accepted is a zip that `lab export --bundle` wrote") from None
    # RuntimeError: the zip is encrypted, or packed in a way that Python does not know.
    except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as problem:
        raise EvidenceError(f"{path}: is no zip that can be read: {problem}") from None
    if journal.PACKED in contents and journal.NAME not in contents:
        contents[journal.NAME] = _unpacked(path, contents[journal.PACKED])
    if lacking := [name for name in FILES if name not in contents]:
        raise EvidenceError(f"{path}: holds no {lacking[0]}; a bundle holds {', '.join(FILES)}")
    return contents


def _entries(path: Path, bundle: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    entries = bundle.infolist()
    if len(entries) > MOST_ENTRIES:
        raise EvidenceError(f"{path}: has {len(entries)} entries; accepted are at most {MOST_ENTRIES}")
    folders: set[PurePosixPath] = set()
    seen: set[str] = set()
    for entry in sorted(entries, key=lambda entry: _is_plain(entry.filename)):  # the worst problem is reported first
        if entry.is_dir():
            continue
        place = PurePosixPath(entry.filename)
        folders.add(place.parent)
        if not _is_plain(entry.filename) or len(folders) > 1 or place.name in seen:
            raise EvidenceError(
                f"{path}: has the entry {entry.filename!r}; accepted are {', '.join(KNOWN)}, each once, in one folder"
            )
        if entry.external_attr >> 28 not in (0, 8):  # what is set there in a link, a device or the like
            raise EvidenceError(f"{path}: {entry.filename!r} is no plain file")
        if entry.file_size > MOST_BYTES:
            raise EvidenceError(f"{path}: {entry.filename!r} is {entry.file_size} bytes; at most {MOST_BYTES} are read")
        seen.add(place.name)
        with bundle.open(entry) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise EvidenceError(f"{path}: {entry.filename!r} unpacks to more than {MOST_BYTES} bytes")
        yield place.name, content


def _is_plain(name: str) -> bool:
    """Whether it is a known file, at most one folder down, and its path does not leave the bundle."""
    place = PurePosixPath(name)
    leads_out = place.is_absolute() or ".." in place.parts or "\\" in name
    return not leads_out and len(place.parts) <= 2 and place.name in KNOWN


def _unpacked(path: Path, content: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    unpacked = unpacker.decompress(content, MOST_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise EvidenceError(f"{path}: {journal.PACKED} is cut, or unpacks to more than {MOST_BYTES} bytes")
    return unpacked


def _check_list(path: Path, contents: dict[str, bytes]) -> None:
    """Each file has the digest that the bundle, or published evidence, lists for it."""
    for name in (LIST, "evidence.json"):
        if name not in contents:
            continue
        try:
            files = dict(json.loads(contents[name])["files"])
        except (ValueError, KeyError, TypeError) as problem:
            raise EvidenceError(f"{path}: {name} cannot be read: {problem}") from None
        for file in FILES:
            if files.get(file) != _sha256(contents[file]):
                raise EvidenceError(f"{path}: {file} is not the file that {name} lists; ask for the bundle again")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
