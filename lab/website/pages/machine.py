"""A machine's fields as a reader sees them: named, with a unit, and with a pointer into the data of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.website import format
from lab.website.data.differences import VARIABLES, fields_of, is_known
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger

NOT_KNOWN = "not known"
SHOWS: Mapping[str, Callable[[Any], str]] = {
    "profiling": lambda v: "yes" if v else "no",
    "instruments": lambda v: "yes" if v else "no",
    "device": lambda v: "a CPU" if v == "cpu" else "a GPU",
    "memory_bytes": lambda v: f"{format.gigabytes(v)} GB",
    "l2_bytes": lambda v: f"{format.megabytes(v)} MB",
    "peak_bytes_per_second": lambda v: f"{format.terabytes_per_second(v)} TB/s",
    "power_limit_watts": lambda v: f"{v:.0f} W",
    "sm_clock_hertz": lambda v: f"{format.megahertz(v)} MHz",
    "memory_clock_hertz": lambda v: f"{format.megahertz(v)} MHz",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    name: str
    value: Figure


def environment(item: Judged, ledger: Ledger, *kinds: str) -> tuple[Fact, ...]:
    """What is known of the machine and its software; with `kinds`, only of those."""
    wanted = kinds or ("gpu", "host", "software")
    found = ((name, field_figure(ledger, path)) for kind, name, path in fields_of(item) if kind in wanted)
    return tuple(Fact(name=name, value=value) for name, value in found if value and value.text != NOT_KNOWN)


def evidence_facts(ledger: Ledger, fields: Mapping[str, str]) -> tuple[Fact, ...]:
    """Fields of the run's evidence, by what a reader calls them."""
    found = ((name, field_figure(ledger, ("evidence", field))) for field, name in fields.items())
    return tuple(Fact(name=name, value=value) for name, value in found if value)


def field_figure(ledger: Ledger, path: tuple[str, ...]) -> Figure | None:
    """A field of the machine or of the evidence, with its unit; None where the data lack it."""
    variable = path[:-1] == VARIABLES
    show = _variable if variable else _shown(path[-1])
    return ledger.figure(*path, show=show)


def _shown(field: str) -> Callable[[Any], str]:
    show = SHOWS.get(field, str)
    return lambda value: show(value) if is_known(value) else NOT_KNOWN


def _variable(value: str) -> str:
    return value or "set to nothing"
