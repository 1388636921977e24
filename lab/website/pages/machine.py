"""A machine's fields as a reader sees them: named, with a unit, and with a pointer into the data of a run."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace as View
from typing import Any

from lab.website import format
from lab.website.data.comparison import OF_MACHINE, VARIABLES, fields_of, is_known
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure

NOT_KNOWN = "not known"
# What the clock reads at least, as the median of the processes.
FLOORS = {"median_launch_floor_seconds": "An empty kernel", "median_empty_seconds": "Two events alone"}
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


def environment(item: Judged, view: DataView) -> tuple[View, ...]:
    """What is known of the machine and its software, and what the clock reads at least."""
    fields = [(name, field_figure(view, path)) for kind, name, path in fields_of(item) if kind in OF_MACHINE]
    floors = ((name, view.figure("evidence", field, show=_microseconds)) for field, name in FLOORS.items())
    fields += [(name, value) for name, value in floors if value and value.value]
    return tuple(View(name=name, value=value) for name, value in fields if value and value.text != NOT_KNOWN)


def _microseconds(seconds: float) -> str:
    return f"{format.microseconds(seconds)} µs"


def evidence_facts(view: DataView, fields: Mapping[str, str]) -> tuple[View, ...]:
    """Fields of the run's evidence, by what a reader calls them."""
    values = ((name, field_figure(view, ("evidence", field))) for field, name in fields.items())
    return tuple(View(name=name, value=value) for name, value in values if value)


def field_figure(view: DataView, path: tuple[str, ...]) -> Figure | None:
    """A field of the machine or of the evidence, with its unit; None where the data lack it."""
    variable = path[:-1] == VARIABLES
    show = _variable if variable else _shown(path[-1])
    return view.figure(*path, show=show)


def _shown(field: str) -> Callable[[Any], str]:
    show = SHOWS.get(field, str)
    return lambda value: show(value) if is_known(value) else NOT_KNOWN


def _variable(value: str) -> str:
    return value or "set to nothing"
