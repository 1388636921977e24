"""What the name of a run says of its GPU and its day, where that is not so: a name never changes."""

import re
from collections.abc import Iterable, Iterator

from lab.evidence.run_name import other_gpus
from lab.website import format

DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")


def misnomers(run_id: str, gpu: str, started_utc: str, finished_utc: str) -> Iterator[str]:
    """A sentence for each. `gpu`: as its driver calls it; empty where a CPU was measured, of which no name is refused.
    The day is that of the start or of the end; a run that did not end has the first only."""
    if models := other_gpus(run_id, [gpu] if gpu else []):
        yield f"The name says {_named(model.upper() for model in models)}; the run was measured on {_one(gpu)}."
    days = dict.fromkeys(format.day(utc) for utc in (started_utc, finished_utc) if utc)
    if days and (others := [date for date in DATE.findall(run_id) if date not in days]):
        yield f"The name says {_named(others)}; the run was measured on {_named(days)} (UTC)."


def _named(names: Iterable[str]) -> str:
    return " and ".join(names)


def _one(gpu: str) -> str:
    """'an NVIDIA H200', 'a Tesla V100'."""
    return f"{'an' if gpu[:1] in 'AEIN' else 'a'} {gpu}"
