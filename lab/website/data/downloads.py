"""The files of a run as a reader downloads them: as they lie among the evidence, the journal compressed."""

from collections.abc import Iterator

from lab.definition import plan
from lab.evidence import journal
from lab.website.addresses import run_folder
from lab.website.data import promoted
from lab.website.outputs import Attachment, Published


def run_files(run: Published) -> Iterator[Attachment]:
    folder = run_folder(run.digest)
    for name in (promoted.NAME, plan.NAME, journal.PACKED):
        yield Attachment(path=f"{folder}/{name}", content=(run.directory / name).read_bytes())
