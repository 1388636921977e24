"""The truth on disk: one checksummed JSON line per record, appended and synced before anyone hears of it."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RunError
from lab.record import KINDS, Record, canonical, from_data, to_data

NAME = "journal.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """A line that cannot be trusted, and why."""

    line_number: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What a journal file holds. `damages` are reported, never used; a torn last line is not damage."""

    records: tuple[Record, ...]
    damages: tuple[Damage, ...]
    intact_bytes: int  # length of the file without a torn last line


def append(path: Path, record: Record) -> None:
    """Add one record and wait until it is on disk."""
    content = canonical({"kind": type(record).__name__, "record": to_data(record)})
    line = f"{_checksum(content)} {content}\n"
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> Journal:
    """Every record that is whole, and every line that is not."""
    if not path.is_file():
        return Journal(records=(), damages=(), intact_bytes=0)
    content = path.read_bytes()
    intact_bytes = content.rfind(b"\n") + 1
    records: list[Record] = []
    damages: list[Damage] = []
    for number, line in enumerate(content[:intact_bytes].split(b"\n")[:-1], start=1):
        try:
            records.append(_parse(line.decode("utf-8", errors="replace")))
        except (RunError, ValueError, RecursionError) as problem:
            damages.append(Damage(line_number=number, reason=str(problem)))
    return Journal(records=tuple(records), damages=tuple(damages), intact_bytes=intact_bytes)


def drop_torn_line(path: Path) -> None:
    """Cut off a last line that a crash left incomplete, so that the next append starts a line."""
    intact_bytes = read(path).intact_bytes
    if path.is_file() and path.stat().st_size > intact_bytes:
        os.truncate(path, intact_bytes)


def _parse(line: str) -> Record:
    checksum, _, content = line.partition(" ")
    if checksum != _checksum(content):
        raise RunError("checksum does not match: the line was altered or is not of this journal")
    data = json.loads(content)
    if not isinstance(data, dict) or data.get("kind") not in KINDS:
        raise RunError(f"unknown kind of record; accepted are {sorted(KINDS)}")
    record: Record = from_data(KINDS[data["kind"]], data.get("record"), data["kind"])
    return record


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
