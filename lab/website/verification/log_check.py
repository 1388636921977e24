"""The log of publications that a site carries: its chain, the runs it names, and the log of this checkout."""

from collections.abc import Collection, Iterator
from pathlib import Path

from lab.errors import EvidenceError
from lab.website.data.publication_log import LOG, Log, gone, read_log
from lab.website.verification.files import Mismatch


def published_log(root: Path, differences: list[Mismatch]) -> Log:
    """The log of the site; what is wrong with it is added to `differences`."""
    try:
        return read_log(root / LOG)
    except EvidenceError as problem:
        differences.append(Mismatch(LOG, str(problem).replace(f"{root}/", "")))
        return ()


def missing(log: Log, known: Log, digests: Collection[str]) -> Iterator[Mismatch]:
    """Runs that were published and are gone, and entries that are. `known` is the log of this checkout."""
    for entry in gone(log, digests):
        yield Mismatch(
            LOG, f"run {entry.run_id} was published on {entry.published_utc}, and is gone: digest {entry.digest}"
        )
    noted = {entry.digest for entry in log}
    for digest in sorted(set(digests) - noted) if log else ():
        yield Mismatch(LOG, f"does not hold the run of digest {digest}, which is published here")
    if not log and any(entry.digest in digests for entry in known):
        yield Mismatch(LOG, "is missing; the log of this checkout holds runs that are published here")
    elif log and known and log[0] == known[0] and (cut := known[len(log) :]) and known[: len(log)] == log:
        yield Mismatch(LOG, f"ends before the log of this checkout, which goes on with run {cut[0].run_id}")
    elif log and known and log[0] == known[0] and log[: len(known)] != known:
        place = next(at for at, pair in enumerate(zip(log, known, strict=False), start=1) if pair[0] != pair[1])
        yield Mismatch(f"{LOG}, line {place}", "is not that of this checkout's log")
