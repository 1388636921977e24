"""The journal of a run: one JSON line per record, appended and synced to disk before it is used.

Each line carries its own checksum, its number and the checksum of the line before it; the last line of a run carries
the SHA-256 of all lines before it. So a line that is altered, missing, added or moved is found, with its place.
What is appended together is read together: its lines but the last say that there is more. A published journal is
compressed, to about a sixth; its digest is that of its lines. Journals of schema 6 and older are not chained.
"""

import gzip
import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import RunError
from lab.evidence.codec import canonical, from_data, to_data
from lab.evidence.record import KINDS, Record, RunFinish, RunStart
from lab.evidence.sense import impossible_value

NAME = "journal.jsonl"
PACKED = f"{NAME}.gz"
LEVEL = 9
MOST_BYTES = 1 << 30  # a hundred times what a night of measuring leaves
MOST_LINE_BYTES = 16 << 20  # a thousand times the longest line that was published
CHAINED = 7  # the first schema whose lines name the line before
PIECE_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """A line that cannot be trusted, and why."""

    line_number: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """The digest of a journal and its number of lines. A copy kept elsewhere shows later changes of the file."""

    lines: int
    sha256: str  # of all lines
    chained: bool  # whether a missing line would be noticed without it


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
        return "".join(_lines(file, records)).encode()
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
    scan = _Scan()
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
    return _Scan().take(first)


def first_damage(path: Path) -> Damage | None:
    """The line at which damage is first noticed. Nothing is kept of the others, nor are they read after it."""
    scan = _Scan()
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


def _scanned(path: Path) -> "_Scan":
    scan = _Scan()
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


class _Scan:
    """Reads a journal line by line, and keeps only what is said of all its lines together."""

    def __init__(self) -> None:
        self.intact_bytes = self.intact_lines = 0
        self._sha256 = hashlib.sha256().hexdigest()  # of the intact lines
        self._chain = _Chain()
        self._bytes = self._lines = 0  # those that were read
        self._hashed = hashlib.sha256()

    @property
    def damages(self) -> Mapping[int, str]:
        """Reasons by line; a line may be found to be damaged by a later one."""
        return self._chain.damages

    @property
    def seal(self) -> Seal:
        return Seal(lines=self.intact_lines, sha256=self._sha256, chained=bool(self._chain.chained))

    def take(self, line: bytes) -> Record | None:
        """The record in the next line; None where the line is torn or cannot be read."""
        if not line.endswith(b"\n"):
            return None
        self._lines += 1
        record, more = None, False
        try:
            checksum, data = _parse(line[:-1].decode("utf-8", errors="replace"))
            more = data.get("more") is True
            record = _record(data)
            self._chain.follow(self._lines, checksum, data, record, self._hashed.hexdigest)
        except (RunError, ValueError, RecursionError) as problem:
            self._chain.damages[self._lines] = str(problem)
        self._bytes += len(line)
        self._hashed.update(line)
        if not more:
            self.intact_bytes, self.intact_lines = self._bytes, self._lines
            self._sha256 = self._hashed.hexdigest()
        return record


@dataclass(slots=True)
class _Chain:
    """Follows the lines of a journal, and notes by line what is wrong with their order."""

    damages: dict[int, str] = field(default_factory=dict)
    chained: bool | None = None  # not known before the first line that can be read
    ended: bool = False
    _last: int = 0  # the number that the last line in its place carries
    _at: int = 0  # where it stands in the file
    _checksum: str = ""

    def follow(self, at: int, checksum: str, data: dict[str, Any], record: Record, sha256: Callable[[], str]) -> None:
        """Take the line that stands `at` a place of the file. RunError where it does not belong there."""
        if self.chained is None:
            self.chained = "line" in data
            if not self.chained and isinstance(record, RunStart) and record.schema >= CHAINED:
                raise RunError(
                    f"is of schema {record.schema}, and does not carry its number; the journal was rewritten"
                )
        if not self.chained:
            if "line" in data:
                raise RunError("carries a number, and the journal begins without: the line is of another journal")
            return
        number, before = data.get("line"), data.get("previous")
        if type(number) is not int or type(before) is not str:
            raise RunError("carries neither its number nor the checksum of the line before it: it was added later")
        wrong = self._out_of_place(at, number, before)
        if number > self._last:
            self._last, self._at, self._checksum = number, at, checksum
        if wrong or self.ended:
            raise RunError(wrong or "stands after the end of the run")
        if isinstance(record, RunFinish):
            self.ended = True
            if not self.damages and data.get("sha256") != sha256():
                raise RunError("ends the run with the SHA-256 of other lines than stand before it")

    def _out_of_place(self, at: int, number: int, before: str) -> str:
        if number <= self._last:
            return f"is line {number} of the journal as it was written: it stands here out of order or twice"
        unread = sum(self._at < place < at for place in self.damages)  # lines that stand here, and cannot be read
        if (missing := number - self._last - 1 - unread) > 0:
            gone = f"line {number - 1} is" if missing == 1 else f"{missing} lines after line {self._last} are"
            return f"is line {number} of the journal as it was written: {gone} missing before it"
        if number == self._last + 1 and before != self._checksum:
            self.damages[self._at] = "was altered after it was written: the line after it names another in its place"
        return ""


def _lines(file: io.FileIO, records: Sequence[Record]) -> Iterator[str]:
    """The lines of records that follow those in the file."""
    number, before = _last(file)
    hashed = _hashed(file) if any(isinstance(record, RunFinish) for record in records) else None
    for left, record in zip(reversed(range(len(records))), records, strict=True):
        data: dict[str, Any] = {"kind": type(record).__name__, "record": to_data(record)}
        if number is not None:
            number += 1
            data |= {"line": number, "previous": before}
        if left:
            data["more"] = True
        if hashed and number is not None and isinstance(record, RunFinish):
            data["sha256"] = hashed.hexdigest()
        content = canonical(data)
        before = _checksum(content)
        line = f"{before} {content}\n"
        if hashed:
            hashed.update(line.encode())
        yield line


def _last(file: io.FileIO) -> tuple[int | None, str]:
    """The number and the checksum of the file's last line; no number where its lines carry none."""
    size, tail = file.seek(0, os.SEEK_END), b""
    while size > len(tail) and b"\n" not in tail[:-1]:
        start = max(0, size - len(tail) - PIECE_BYTES)
        file.seek(start)
        tail = _read(file, size - len(tail) - start) + tail
    if not tail:
        return 0, ""
    checksum, data = _parse(tail.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", errors="replace"))
    number = data.get("line")
    return number if type(number) is int else None, checksum


def _read(file: io.FileIO, size: int) -> bytes:
    content = b""
    while len(content) < size and (piece := file.read(size - len(content))):
        content += piece
    return content


def _hashed(file: io.FileIO) -> Any:
    """SHA-256 of what is in the file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256")


def _parse(line: str) -> tuple[str, dict[str, Any]]:
    """The checksum of a line, and what it holds."""
    checksum, _, content = line.partition(" ")
    if checksum != _checksum(content):
        raise RunError("checksum does not match: the line was altered or is not of this journal")
    data = json.loads(content)
    if not isinstance(data, dict) or data.get("kind") not in KINDS:
        raise RunError(f"unknown kind of record; accepted are {sorted(KINDS)}")
    return checksum, data


def _record(data: dict[str, Any]) -> Record:
    record: Record = from_data(KINDS[data["kind"]], data.get("record"), data["kind"])
    if wrong := impossible_value(record):
        raise RunError(wrong)
    return record


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
