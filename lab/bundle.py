"""A run in one zip, to be handed to a colleague: written by `lab export --bundle`, taken in by `lab import`.

A bundle is not trusted: only the files of a run are unpacked, by their names, piece by piece, within limits of size;
each has the digest that the bundle lists; the journal is read up to its first damaged line before it is judged; nothing
of the bundle is executed.
"""

import gzip
import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from lab.definition import plan_file
from lab.errors import EvidenceError, LabError, RunError
from lab.evidence import journal
from lab.evidence.source import NoRepository, commit_of
from lab.verdict.judge_run import load_run
from lab.verdict.results import RunResult

LIST = "bundle.json"
SCHEMA = 1
EVIDENCE = "evidence.json"
FILES = (plan_file.NAME, journal.NAME)
JOURNALS = (journal.NAME, journal.PACKED)
KNOWN = (LIST, plan_file.NAME, *JOURNALS, EVIDENCE)
SMALL_BYTES = 16 << 20  # of a file that is no journal: read whole, as JSON
MOST_ENTRIES = 16
PIECE_BYTES = 1 << 20


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
    contents = {plan_file.NAME: (directory / plan_file.NAME).read_bytes(), journal.NAME: journal.content_of(path)}
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
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".importing-") as scratch:
        unpacked, whole = Path(scratch) / "unpacked", Path(scratch) / "run"
        _unpack(path, unpacked)
        _check_list(path, unpacked)
        _check_journal(path, unpacked / journal.NAME)
        whole.mkdir()
        for name in FILES:
            (unpacked / name).rename(whole / name)
        try:
            run = load_run(whole)
        except RunError as problem:
            raise EvidenceError(f"{path}: {str(problem).replace(f'{whole}/', '')}") from None
        target = runs / run.plan.run_id
        if target.exists():
            raise EvidenceError(f"{target}: a run of this id is here already; move it away, or import into other runs")
        whole.rename(target)
        listed = (unpacked / LIST).exists()
    return Imported(directory=target, run=run, commit=_commit(run), listed=listed)


def _commit(run: RunResult) -> str:
    try:
        return commit_of(run.start.source_digest)
    except NoRepository:
        return ""
    except EvidenceError:
        return ""


def _unpack(path: Path, into: Path) -> None:
    """Write what the bundle holds into a new folder, by its plain names, the journal unpacked."""
    into.mkdir()
    try:
        with zipfile.ZipFile(path) as bundle:
            for entry in _entries(path, bundle):
                target = into / PurePosixPath(entry.filename).name
                most_bytes = journal.MOST_BYTES if target.name in JOURNALS else SMALL_BYTES
                with bundle.open(entry) as packed:
                    _copy(packed, target, most_bytes, f"{path}: {entry.filename!r}")
    except FileNotFoundError:
        raise EvidenceError(f"{path}: no such file; accepted is a zip that `lab export --bundle` wrote") from None
    # RuntimeError: the zip is encrypted, or packed in a way that Python does not know.
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as problem:
        raise EvidenceError(f"{path}: is no zip that can be read: {problem}") from None
    if (into / journal.PACKED).exists() and not (into / journal.NAME).exists():
        try:
            with gzip.open(into / journal.PACKED) as packed:
                _copy(packed, into / journal.NAME, journal.MOST_BYTES, f"{path}: {journal.PACKED!r}")
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            raise EvidenceError(f"{path}: {journal.PACKED!r} cannot be unpacked: {problem}") from None
    if lacking := [name for name in FILES if not (into / name).exists()]:
        raise EvidenceError(f"{path}: holds no {lacking[0]}; a bundle holds {', '.join(FILES)}")


def _copy(packed: IO[bytes] | gzip.GzipFile, target: Path, most_bytes: int, name: str) -> None:
    """Write what is unpacked, piece by piece. EvidenceError where it is more than so many bytes."""
    left_bytes = most_bytes
    with target.open("wb") as unpacked:
        while piece := packed.read(PIECE_BYTES):
            left_bytes -= len(piece)
            if left_bytes < 0:
                raise EvidenceError(f"{name} unpacks to more than {most_bytes:,} bytes")
            unpacked.write(piece)


def _entries(path: Path, bundle: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    """The files of a run in the bundle. EvidenceError where there is anything else."""
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
        seen.add(place.name)
        yield entry


def _is_plain(name: str) -> bool:
    """Whether it is a known file, at most one folder down, and its path does not leave the bundle."""
    place = PurePosixPath(name)
    leads_out = place.is_absolute() or ".." in place.parts or "\\" in name
    return not leads_out and len(place.parts) <= 2 and place.name in KNOWN


def _check_list(path: Path, folder: Path) -> None:
    """Each file has the digest that the bundle, or published evidence, lists for it."""
    for name in (LIST, EVIDENCE):
        if not (folder / name).exists():
            continue
        try:
            files = dict(json.loads((folder / name).read_bytes())["files"])
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise EvidenceError(f"{path}: {name} cannot be read: {problem}") from None
        for file in FILES:
            with (folder / file).open("rb") as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
            if files.get(file) != found:
                raise EvidenceError(f"{path}: {file} is not the file that {name} lists; ask for the bundle again")


def _check_journal(path: Path, unpacked: Path) -> None:
    try:
        damage = journal.first_damage(unpacked)
    except RunError as problem:
        raise EvidenceError(f"{path}: {str(problem).replace(f'{unpacked.parent}/', '')}") from None
    if damage:
        raise EvidenceError(
            f"{path}: {journal.NAME}, line {damage.line_number} is damaged: {damage.reason}; ask for the bundle again"
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
