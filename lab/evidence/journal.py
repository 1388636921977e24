"""The journal of a run: one JSON line per record, appended and synced to disk before it is used.

What a line carries beside its record is told by lab/evidence/chain.py. A published journal is compressed, to about a
sixth; its digest is that of its lines.
"""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import RunError
from lab.evidence.chain import Scan, Seal, lines_after, number_and_checksum
from lab.evidence.record import Record, RunFinish

NAME = "journal.jsonl"
PACKED = f"{NAME}.gz"
LEVEL = 9
MOST_BYTES = 1 << 30  # a hundred times what a night of measuring leaves
MOST_LINE_BYTES = 16 << 20  # a thousand times the longest line that was published
PIECE_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """A line that cannot be trusted, and why."""

    line_number: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What a journal file holds. `damages` are reported, never used; what one append left torn is not damage."""

    records: tuple[Record, ...]
    damages: tuple[Damage, ...]
    intact_bytes: int  # length of the file without a torn end
    seal: Seal


def append(path: Path, *records: Record) -> int:
    """Append records atomically and sync them to disk. Returns the size of the file in bytes.

    RunError where the disk is full or may not be written.
    """
    try:
        with path.open("a+b", buffering=0) as file:
            content = _next_lines(path, file, records)
            before = file.seek(0, os.SEEK_END)
            try:
                _write(file, content)
            except OSError:
                file.truncate(before)
                raise
            return file.tell()
    except OSError as refusal:
        raise RunError(
            f"{path}: nothing can be added to it ({refusal.strerror}). What it holds is kept: make room, or make it "
            "writable, and the same command goes on from there"
        ) from None


def _next_lines(path: Path, file: io.FileIO, records: Sequence[Record]) -> bytes:
    try:
        number, before = _last(file)
        hashed = _hashed(file) if any(isinstance(record, RunFinish) for record in records) else None
        return "".join(lines_after(number, before, records, hashed)).encode()
    except RunError as problem:
        raise RunError(f"{path}: its last line: {problem}. Restore the file") from None


def _write(file: io.FileIO, content: bytes) -> None:
    """Write all bytes and sync them to disk."""
    rest = memoryview(content)
    while rest:  # a disk that is nearly full takes a part
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def find(directory: Path) -> Path | None:
    """The journal in a run's directory: as it is written, or compressed; None where there is neither."""
    return next((path for name in (NAME, PACKED) if (path := directory / name).is_file()), None)


def content_of(path: Path) -> bytes:
    """The lines of a journal, compressed or not.

    RunError if it cannot be unpacked or unpacks to more than a gigabyte; FileNotFoundError if it is not there.
    """
    path.stat()
    return b"".join(_pieces_of(path)) if path.name == PACKED else path.read_bytes()


def packed(content: bytes) -> bytes:
    """The lines of a journal in gzip, without the time at which it was made."""
    return gzip.compress(content, LEVEL, mtime=0)


def read(path: Path) -> Journal:
    """All valid records, and every damaged or misplaced line with the reason."""
    scan = Scan()
    records = [scan.take(line) for line in _lines_of(path)]
    damages = scan.damages
    return Journal(
        records=tuple(
            record
            for number, record in enumerate(records[: scan.intact_lines], start=1)
            if record is not None and number not in damages
        ),
        damages=tuple(Damage(line_number=number, reason=damages[number]) for number in sorted(damages)),
        intact_bytes=scan.intact_bytes,
        seal=scan.seal,
    )


def sha256_of(path: Path) -> str:
    """The SHA-256 of all lines, which are not looked at; of a journal without a torn end it is that of its seal."""
    hashed = hashlib.sha256()
    for piece in _pieces_of(path):
        hashed.update(piece)
    return hashed.hexdigest()


def begins_with(path: Path) -> Record | None:
    """The record in the first line; None where that cannot be read."""
    first = next(_lines_of(path), b"")
    return Scan().take(first)


def first_damage(path: Path) -> Damage | None:
    """The line at which damage is first noticed. Nothing is kept of the others, nor are they read after it."""
    scan = Scan()
    for line in _lines_of(path):
        scan.take(line)
        if scan.damages:
            number, reason = next(iter(scan.damages.items()))
            return Damage(line_number=number, reason=reason)
    return None


def seal_of(path: Path) -> Seal:
    """The seal of a journal, whose records are checked and not kept."""
    return _scanned(path).seal


def drop_torn_end(path: Path) -> None:
    """Truncate an append that a crash interrupted, so that the next one starts a new line."""
    intact_bytes = _scanned(path).intact_bytes
    if path.is_file() and path.stat().st_size > intact_bytes:
        os.truncate(path, intact_bytes)


def _scanned(path: Path) -> Scan:
    scan = Scan()
    for line in _lines_of(path):
        scan.take(line)
    return scan


def _lines_of(path: Path) -> Iterator[bytes]:
    """One line after another, for a journal may be larger than the memory. RunError as in `content_of`, and where a
    line is longer than any that the lab writes."""
    rest = b""
    for piece in _pieces_of(path):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (_of_usual_length(path, line + b"\n") for line in lines)
        _of_usual_length(path, rest)
    if rest:
        yield rest


def _pieces_of(path: Path) -> Iterator[bytes]:
    """What a journal holds, unpacked; nothing where there is none. RunError as in `content_of`."""
    if not path.is_file():
        return
    packed = path.name == PACKED
    left_bytes = MOST_BYTES
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                left_bytes -= len(piece)
                if packed and left_bytes < 0:
                    raise RunError(f"{path}: unpacks to more than {MOST_BYTES:,} bytes, which no journal has")
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise RunError(f"{path}: cannot be unpacked ({problem}); copy it here again") from None


def _of_usual_length(path: Path, line: bytes) -> bytes:
    if len(line) > MOST_LINE_BYTES:
        raise RunError(f"{path}: has a line of more than {MOST_LINE_BYTES:,} bytes, which no journal has")
    return line


def _last(file: io.FileIO) -> tuple[int | None, str]:
    """The number and the checksum of the file's last line; no number where its lines carry none."""
    size, tail = file.seek(0, os.SEEK_END), b""
    while size > len(tail) and b"\n" not in tail[:-1]:
        start = max(0, size - len(tail) - PIECE_BYTES)
        file.seek(start)
        tail = _read(file, size - len(tail) - start) + tail
    if not tail:
        return 0, ""
    return number_and_checksum(tail.removesuffix(b"\n").rpartition(b"\n")[2])


def _read(file: io.FileIO, size: int) -> bytes:
    content = b""
    while len(content) < size and (piece := file.read(size - len(content))):
        content += piece
    return content


def _hashed(file: io.FileIO) -> Any:
    """SHA-256 of what is in the file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256")
