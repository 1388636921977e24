"""The files of a run as a reader downloads them: the manifest and the plan as they are, the journal compressed."""

import gzip
from collections.abc import Iterator
from pathlib import Path

from lab.definition import plan
from lab.evidence import journal
from lab.evidence.source import ROOT
from lab.website.addresses import run_folder
from lab.website.data import promoted
from lab.website.outputs import Attachment, Published

KEPT = ROOT / ".cache" / "journals"
LEVEL = 9


def run_files(run: Published, kept: Path = KEPT) -> Iterator[Attachment]:
    folder = run_folder(run.digest)
    for name in (promoted.NAME, plan.NAME):
        yield Attachment(path=f"{folder}/{name}", content=(run.directory / name).read_bytes())
    yield Attachment(path=f"{folder}/{journal.NAME}.gz", content=compressed_journal(run, kept))


def compressed_journal(run: Published, kept: Path = KEPT) -> bytes:
    """The journal in gzip: the same bytes whenever it is made. It takes a while, so what was made is kept."""
    path = kept / f"{run.digest}.gz"
    if path.is_file():
        return path.read_bytes()
    made = gzip.compress((run.directory / journal.NAME).read_bytes(), LEVEL, mtime=0)
    kept.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_bytes(made)
    fresh.replace(path)
    return made
