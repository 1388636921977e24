"""What the GPU itself reaches: the ladder of copies and reads, and each ceiling beside the datasheet's peak."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase
from lab.verdict.ceilings import ladder_of
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.charts.lines import Line, Point, ladder_chart
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence, joined
from lab.website.pages.labels import profile_title, scope_within
from lab.website.table import Fold, PageTable, TableRow, Words, numbers, table_row, words

KINDS = {"float8_e4m3fn": "float8", "tf32": "TF32"}
EXACT = {"tf32": "TF32"}  # in full, where a sentence is held to the types that were measured
WORK = {"copies": "copy", "reads": "read"}
# A scope's colour and marker on the ladder: those of a profile, so that one palette serves all charts.
SCOPE_SERIES = {"device_cold": "triton", "device_warm": "torch-compile", "graph": "liger"}


def reference_of(case: PlannedCase, limit: str) -> str:
    """What the time of a case is held against, by what limits it: a copy, a read or a matmul that this run timed."""
    return ladder_of(case) if limit == "memory" else "matmul"


def reached(view: DataView) -> Sentence:
    """'copies ran at 3.03 TB/s (2.147 GB), reads at 3.18 TB/s (2.148 GB), dense matmuls at …': the largest ones."""
    found: dict[str, Sentence] = {
        work: _largest(view.at("ceilings", work, SCOPE, str(len(rungs) - 1)))
        for work in WORK
        if (rungs := view.value("ceilings", work, SCOPE))
    }
    rates = [
        (view.figure("ceilings", "matrix", kind, "flops_per_second") or "–", f" TFLOP/s ({EXACT.get(kind, kind)})")
        for kind in view.value("ceilings", "matrix")
    ]
    found |= {"dense matmuls": joined(rates, ", ")} if rates else {}
    told = enumerate(found.items())
    return joined(((f"{what} {'at' if number else 'ran at'} ", *speed) for number, (what, speed) in told), ", ")


def _largest(rung: DataView) -> Sentence:
    speed, size = (
        rung.figure("bytes_per_second", show=terabytes),
        rung.figure("bytes", show=lambda count: format.amount(count, "bytes")),
    )
    return (speed or "–", " (", size or "–", ")")


def terabytes(speed: float) -> str:
    return f"{format.terabytes_per_second(speed)} TB/s"


def ceilings_section(shown: Judged, view: DataView) -> Fold | None:
    """For the page of the ceilings themselves; None elsewhere, and where no run measured them."""
    if shown.plan.name != CEILINGS or view.value("ceilings") is None:
        return None
    lines, peak = _lines(view), view.value("ceilings", "datasheet", "bytes_per_second")
    rows = tuple(_rows(shown, view))
    heads = (*words("Ceiling", "Unit"), *numbers("Measured", "Datasheet", "Of it, %"), *words("By"))
    caption = (
        "Ceilings of this GPU as this run measured them, beside the peaks that the datasheet prints for dense "
        "work. No run reaches a printed peak.",
    )
    beside = PageTable(label="Ceilings, measured and printed", heads=heads, rows=rows, caption=caption)
    sheet, source = (view.value("ceilings", "datasheet", name) or "" for name in ("gpu", "source"))
    return Fold(
        id="ceilings",
        title="Ceilings",
        picture=ladder_chart(lines, view.value("ceilings", "l2_bytes"), peak) if lines else None,
        caption="How fast a copy or a read of so many bytes is, by the fastest implementation of each size. Small ones "
        "are slower: their launch and their last blocks count for more.",
        tables=(beside,),
        items=((f"Datasheet: {sheet}; {source}. Rates there are dense, never sparse.",),) if sheet else (),
    )  # fmt: skip


def ladder_fold(shown: Judged, view: DataView) -> Fold | None:
    """The numbers of the chart above."""
    if shown.plan.name != CEILINGS or view.value("ceilings") is None or not _places(view):
        return None
    return Fold(id="ladder-table", title="Bandwidth by bytes moved", tables=(_ladder(view),))


def _places(view: DataView) -> list[tuple[str, str, list[Any]]]:
    """(work, scope, rungs) of each line of the ladder that has any."""
    places = [(work, scope, rungs) for work in WORK for scope, rungs in view.value("ceilings", work).items()]
    return [place for place in places if place[2]]


def _label(work: str, scope: str) -> str:
    return f"{WORK[work]}, {scope_within(scope)}"


def _lines(view: DataView) -> list[Line]:
    return [
        Line(
            label=_label(work, scope), series=SCOPE_SERIES.get(scope, "torch-baseline"), dotted=work == "reads",
            points=tuple(rung_point(rung, _label(work, scope), hollow=work == "reads") for rung in rungs),
        )
        for work, scope, rungs in _places(view)
    ]  # fmt: skip


def rung_point(rung: Mapping[str, Any], label: str, *, hollow: bool) -> Point:
    speed = rung["bytes_per_second"]
    title = f"{label}: {format.megabytes(rung['bytes'])} MB at {terabytes(speed)}"
    return Point(at=rung["bytes"], value=speed, low=speed, high=speed, title=title, hollow=hollow)


def _ladder(view: DataView) -> PageTable:
    """The chart's numbers: a row for each size in three digits, a column for each line.

    A read writes a little too, and moves next to nothing more than the copy that it stands beside.
    """
    rows: dict[str, list[Words]] = {}
    places = _places(view)
    for column, (work, scope, rungs) in enumerate(places):
        for number, rung in enumerate(rungs):
            path, size = ("ceilings", work, scope, str(number)), f"{rung['bytes']:.2e}"
            first: Words = (view.figure(*path, "bytes"),)
            row = rows.setdefault(size, [first, *[(None,)] * len(places)])
            row[column + 1] = (view.figure(*path, "bytes_per_second", show=format.terabytes_per_second),)
    return PageTable(
        label="Bandwidth by bytes moved",
        heads=numbers("MB moved", *(line.label for line in _lines(view))),
        rows=[table_row(*rows[size]) for size in sorted(rows, key=float)],
        caption=("Bandwidth, TB/s, by bytes read and written.",),
    )


def _rows(shown: Judged, view: DataView) -> Iterator[TableRow]:
    """The largest copy and read of each scope, the matrix rates, the cache and the launch."""
    terabytes_of = partial(view.figure, show=format.terabytes_per_second)
    printed = ("ceilings", "datasheet")
    for work, scope, rungs in _places(view):
        path = ("ceilings", work, scope, str(len(rungs) - 1))
        yield table_row(
            (f"{WORK[work].capitalize()} of ", view.figure(*path, "bytes"), f" MB, {scope_within(scope)}"),
            "TB/s",
            terabytes_of(*path, "bytes_per_second"),
            terabytes_of(*printed, "bytes_per_second"),
            view.figure(*path, "peak_share"),
            profile_title(shown, rungs[-1]["profile"]),
        )
    for kind, rate in view.value("ceilings", "matrix").items():
        at = view.at("ceilings", "matrix", kind)
        yield table_row(
            f"Dense {KINDS.get(kind, kind)} matmuls",
            "TFLOP/s",
            at.figure("flops_per_second"),
            view.figure(*printed, "flops_per_second", kind, show=format.teraflops_per_second),
            at.figure("peak_share"),
            profile_title(shown, rate["profile"]),
        )
    cache, sheet = view.figure("ceilings", "l2_bytes"), view.figure(*printed, "l2_bytes")
    yield table_row("L2 cache", "MB", cache, sheet, None, "the driver")
    yield table_row("Empty kernel", "µs", view.figure("ceilings", "launch_floor_seconds"), None, None, "the lab")
