"""What was published, one line a run, each with the digest of the line before: lines are added and never taken away.

So a run that was published and is gone is told, on the Trust page and by `lab verify`.
"""

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.definition.experiment import SLUG
from lab.errors import EvidenceError, RunError
from lab.evidence.codec import canonical, digest, from_data, to_data
from lab.evidence.sense import UTC

NAME = "log.jsonl"
LOG = f"runs/{NAME}"  # in a site
SHA256 = re.compile(r"[0-9a-f]{64}")
SHAPES = {
    "previous": re.compile(r"[0-9a-f]{64}|"), "published_utc": UTC, "run_id": SLUG, "digest": SHA256,
    "commit": re.compile(r"[0-9a-f]{40,64}|"),  # empty where the project is under no git
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEntry:
    """One publication. `previous` is the digest of the entry before; empty in the first."""

    previous: str
    published_utc: str
    run_id: str
    digest: str  # that the evidence is addressed by
    commit: str

    @property
    def line(self) -> str:
        return canonical(to_data(self)) + "\n"


Log = tuple[LogEntry, ...]


def read_log(path: Path) -> Log:
    """All entries; none where there is no log. EvidenceError with the line at which the chain is broken."""
    return parse_log(path.read_text(encoding="utf-8", errors="replace"), str(path)) if path.is_file() else ()


def parse_log(text: str, place: str) -> Log:
    entries: list[LogEntry] = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):  # what a crash left of a last line is none
        try:
            entry = from_data(LogEntry, json.loads(line))
            if odd := next((name for name, shape in SHAPES.items() if not shape.fullmatch(getattr(entry, name))), ""):
                raise ValueError(f"its {odd} is {getattr(entry, odd)[:40]!r}")
        except (RunError, ValueError, RecursionError) as problem:
            raise EvidenceError(f"{place}, line {number}: is no entry ({problem}); restore it from git") from None
        if entry.previous != head(entries) or entry.line != line + "\n":
            raise EvidenceError(
                f"{place}, line {number}: does not follow the line before it: one was changed, added, moved or taken "
                "away; restore it from git"
            )
        entries.append(entry)
    return tuple(entries)


def head(log: Sequence[LogEntry]) -> str:
    """The digest of the last entry, and so of all; empty where there is none."""
    return digest(to_data(log[-1])) if log else ""


def text_of(log: Sequence[LogEntry]) -> str:
    return "".join(entry.line for entry in log)


def add(path: Path, *, published_utc: str, run_id: str, digest: str, commit: str) -> bool:
    """Note a publication, on disk, unless it is noted already. Whether anything was added."""
    log = read_log(path)
    if any(entry.digest == digest for entry in log):
        return False
    entry = LogEntry(previous=head(log), published_utc=published_utc, run_id=run_id, digest=digest, commit=commit)
    _write(path, (*log, entry))
    return True


def take_back(path: Path, digest: str) -> None:
    """Undo the last entry, where it is of this digest: its site was not built, and nobody has seen it."""
    log = read_log(path)
    if log and log[-1].digest == digest:
        _write(path, log[:-1])


def gone(log: Sequence[LogEntry], digests: Collection[str]) -> Log:
    """The publications of which nothing is left."""
    return tuple(entry for entry in log if entry.digest not in digests)


def _write(path: Path, log: Sequence[LogEntry]) -> None:
    """Whole or not at all."""
    scratch = path.with_name(f".{path.name}")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text_of(log))
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
