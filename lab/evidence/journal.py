"""The truth on disk: one checksummed JSON line per record, appended and synced before anyone hears of it.

What is appended together is read together: its lines but the last say that there is more. A published journal is
compressed, to about a sixth; its digest is that of its lines.
"""

import gzip
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RunError
from lab.evidence.codec import canonical, from_data, to_data
from lab.evidence.record import KINDS, Record

NAME = "journal.jsonl"
PACKED = f"{NAME}.gz"
LEVEL = 9
MOST_BYTES = 1 << 30  # a hundred times what a night of measuring leaves


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


def append(path: Path, *records: Record) -> int:
    """Add records, all of them or none, and wait until they are on disk. How many bytes the file has then."""
    lines = [_line(record, more=number < len(records)) for number, record in enumerate(records, start=1)]
    with path.open("ab") as file:
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def find(directory: Path) -> Path | None:
    """The journal in a run's directory: as it is written, or compressed; None where there is neither."""
    return next((path for name in (NAME, PACKED) if (path := directory / name).is_file()), None)


def content_of(path: Path) -> bytes:
    """The lines of a journal, compressed or not. RunError where it cannot be unpacked, or grows without end."""
    if path.name != PACKED:
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise RunError(f"{path}: cannot be unpacked ({problem}); copy it here again") from None
    if len(content) > MOST_BYTES:
        raise RunError(f"{path}: unpacks to more than {MOST_BYTES:,} bytes, which no journal has")
    return content


def packed(content: bytes) -> bytes:
    """The lines of a journal in gzip, without the time at which it was made."""
    return gzip.compress(content, LEVEL, mtime=0)


def read(path: Path) -> Journal:
    """Every record that is whole, and every line that is not."""
    if not path.is_file():
        return Journal(records=(), damages=(), intact_bytes=0)
    content = content_of(path)
    records: list[Record] = []
    damages: list[Damage] = []
    read_bytes = intact_bytes = intact_records = 0
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        read_bytes += len(line) + 1
        more = False
        try:
            record, more = _parse(line.decode("utf-8", errors="replace"))
            records.append(record)
        except (RunError, ValueError, RecursionError) as problem:
            damages.append(Damage(line_number=number, reason=str(problem)))
        if not more:
            intact_bytes, intact_records = read_bytes, len(records)
    return Journal(records=tuple(records[:intact_records]), damages=tuple(damages), intact_bytes=intact_bytes)


def drop_torn_end(path: Path) -> None:
    """Cut off what a crash left of an append, so that the next starts a line and nothing is half on record."""
    intact_bytes = read(path).intact_bytes
    if path.is_file() and path.stat().st_size > intact_bytes:
        os.truncate(path, intact_bytes)


def _line(record: Record, *, more: bool) -> str:
    data = {"kind": type(record).__name__, "record": to_data(record)}
    content = canonical(data | {"more": True} if more else data)
    return f"{_checksum(content)} {content}\n"


def _parse(line: str) -> tuple[Record, bool]:
    """The record, and whether more was appended with it."""
    checksum, _, content = line.partition(" ")
    if checksum != _checksum(content):
        raise RunError("checksum does not match: the line was altered or is not of this journal")
    data = json.loads(content)
    if not isinstance(data, dict) or data.get("kind") not in KINDS:
        raise RunError(f"unknown kind of record; accepted are {sorted(KINDS)}")
    record: Record = from_data(KINDS[data["kind"]], data.get("record"), data["kind"])
    return record, data.get("more") is True


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
