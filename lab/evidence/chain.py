"""The lines of a journal, each of which names the one before it.

Each line carries its own checksum, its number and the checksum of the line before it; the last line of a run carries
the SHA-256 of all lines before it. So a line that is altered, missing, added or moved is found, with its place.
What is appended together is read together: its lines but the last say that there is more. Journals of schema 6 and
older are not chained.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.errors import RunError
from lab.evidence.codec import canonical, from_data, to_data
from lab.evidence.record import KINDS, Record, RunFinish, RunStart
from lab.evidence.sense import impossible_value

CHAINED = 7  # the first schema whose lines name the line before


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """The digest of a journal and its number of lines. A copy kept elsewhere shows later changes of the file."""

    lines: int
    sha256: str  # of all lines
    chained: bool  # whether a missing line would be noticed without it


def lines_after(number: int | None, before: str, records: Sequence[Record], hashed: Any) -> Iterator[str]:
    """The lines of records that follow the line of this number and checksum; None and any checksum where the lines
    carry no number. `hashed`: SHA-256 of all lines so far, if the run ends among these records, or None."""
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
        before = checksum_of(content)
        line = f"{before} {content}\n"
        if hashed:
            hashed.update(line.encode())
        yield line


class Scan:
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
            checksum, data = _parse(line[:-1])
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


def number_and_checksum(line: bytes) -> tuple[int | None, str]:
    """Of a line without its end; no number where the lines of its journal carry none. RunError where it is damaged."""
    checksum, data = _parse(line)
    number = data.get("line")
    return number if type(number) is int else None, checksum


def _parse(line: bytes) -> tuple[str, dict[str, Any]]:
    """The checksum of a line, and what it holds."""
    checksum, _, content = line.decode("utf-8", errors="replace").partition(" ")
    if checksum != checksum_of(content):
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


def checksum_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
