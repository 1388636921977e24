"""What the GPU itself reaches: the ladder of copies and reads, and each ceiling beside the datasheet's peak."""

from typing import Any

from lab.definition.experiment import CEILINGS
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.charts.ladder import Rungs, ladder_chart
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.hardware_views import CeilingRow, CeilingsSection, LadderRow
from lab.website.pages.labels import profile_title

KINDS = {"float8_e4m3fn": "float8", "tf32": "TF32"}
EXACT = {"tf32": "TF32"}  # in full, where a sentence is held to the types that were measured
WORK = {"copies": "copy", "reads": "read"}
# A scope's colour and marker on the ladder: those of a profile, so that one palette serves all charts.
SCOPE_SERIES = {"device_cold": "triton", "device_warm": "torch-compile", "graph": "liger"}


def ceilings_sentence(ledger: Ledger) -> Sentence:
    """The ceilings of a run in a sentence: the largest copy of each scope, the matrix rates, the launch floor."""
    parts: list[Figure | str] = []
    for scope, rungs in ledger.value("ceilings", "copies").items():
        path = ("ceilings", "copies", scope, str(len(rungs) - 1))
        speed = ledger.figure(*path, "bytes_per_second", show=format.terabytes_per_second) or "–"
        size = ledger.figure(*path, "bytes", show=format.megabytes) or "–"
        parts += [", "] if parts else ["a copy of ", size, " MB at "]
        parts += [speed, f" TB/s in {scope}"]
    for kind in ledger.value("ceilings", "matrix"):
        rate = ledger.figure("ceilings", "matrix", kind, "flops_per_second", show=format.teraflops_per_second)
        parts += [f"; dense {KINDS.get(kind, kind)} products at ", rate or "–", " TFLOP/s"]
    floor = ledger.figure("ceilings", "launch_floor_seconds", show=format.microseconds)
    return (*parts, "; an empty kernel in ", floor or "–", " µs")


def reached(ledger: Ledger) -> Sentence:
    """The same as an answer: 'copies ran at 3.03 TB/s, reads at 3.18 TB/s, dense products at …'."""
    parts: list[Figure | str] = []
    for work in WORK:
        if rungs := ledger.value("ceilings", work, SCOPE):
            path = ("ceilings", work, SCOPE, str(len(rungs) - 1))
            speed = ledger.figure(*path, "bytes_per_second", show=terabytes)
            parts += [f", {work} at " if parts else f"{work} ran at ", speed or "–"]
    kinds = list(ledger.value("ceilings", "matrix"))
    for kind in kinds:
        last = kind == kinds[-1]
        rate = ledger.figure("ceilings", "matrix", kind, "flops_per_second", show=format.teraflops_per_second)
        if kind == kinds[0]:
            parts.append(", dense products at " if parts else "dense products ran at ")
        else:
            parts.append(" and " if last else ", ")
        parts += [rate or "–", f"{' TFLOP/s' if last else ''} ({EXACT.get(kind, kind)})"]
    return tuple(parts)


def terabytes(speed: float) -> str:
    return f"{format.terabytes_per_second(speed)} TB/s"


def teraflops(rate: float) -> str:
    return f"{format.teraflops_per_second(rate)} TFLOP/s"


def ceilings_section(shown: Judged, ledger: Ledger) -> CeilingsSection | None:
    """For the page of the ceilings themselves; None elsewhere, and where no run measured them."""
    if shown.plan.name != CEILINGS or ledger.value("ceilings") is None:
        return None
    lines = _lines(ledger)
    return CeilingsSection(
        chart=ladder_chart(
            lines, ledger.value("ceilings", "l2_bytes"), ledger.value("ceilings", "datasheet", "bytes_per_second")
        ) if lines else None,
        headings=tuple(line.label for line in lines),
        ladder=_ladder(ledger),
        rows=(*_memory_rows(shown, ledger), *_matrix_rows(shown, ledger), *_other_rows(ledger)),
        datasheet=ledger.value("ceilings", "datasheet", "gpu") or "",
        source=ledger.value("ceilings", "datasheet", "source") or "",
    )  # fmt: skip


def _places(ledger: Ledger) -> list[tuple[str, str, list[Any]]]:
    """(work, scope, rungs) of each line of the ladder that has any."""
    found = [(work, scope, rungs) for work in WORK for scope, rungs in ledger.value("ceilings", work).items()]
    return [place for place in found if place[2]]


def _lines(ledger: Ledger) -> list[Rungs]:
    return [
        Rungs(
            label=f"{WORK[work]}, {scope}",
            series=SCOPE_SERIES.get(scope, "torch-baseline"),
            hollow=work == "reads",
            points=tuple((float(rung["bytes"]), float(rung["bytes_per_second"])) for rung in rungs),
        )
        for work, scope, rungs in _places(ledger)
    ]


def _ladder(ledger: Ledger) -> tuple[LadderRow, ...]:
    """The chart's numbers: a row for each size in three digits, a column for each line.

    A read writes a little too, and moves next to nothing more than the copy that it stands beside.
    """
    rows: dict[str, list[Figure | None]] = {}
    sizes: dict[str, Figure | None] = {}
    places = _places(ledger)
    for column, (work, scope, rungs) in enumerate(places):
        for number, rung in enumerate(rungs):
            path, size = ("ceilings", work, scope, str(number)), f"{rung['bytes']:.2e}"
            sizes.setdefault(size, ledger.figure(*path, "bytes", show=format.megabytes))
            row = rows.setdefault(size, [None] * len(places))
            row[column] = ledger.figure(*path, "bytes_per_second", show=format.terabytes_per_second)
    return tuple(LadderRow(size=sizes[size], speeds=tuple(rows[size])) for size in sorted(rows, key=float))


def _memory_rows(shown: Judged, ledger: Ledger) -> list[CeilingRow]:
    """The largest copy and read of each scope."""
    rows = []
    for work, scope, rungs in _places(ledger):
        path = ("ceilings", work, scope, str(len(rungs) - 1))
        size = ledger.figure(*path, "bytes", show=format.megabytes)
        rows.append(
            CeilingRow(
                name=(f"{WORK[work].capitalize()} of ", size or "–", f" MB, {scope}"),
                unit="TB/s",
                measured=ledger.figure(*path, "bytes_per_second", show=format.terabytes_per_second),
                printed=ledger.figure("ceilings", "datasheet", "bytes_per_second", show=format.terabytes_per_second),
                share=ledger.figure(*path, "peak_share", show=format.share),
                by=profile_title(shown, rungs[-1]["profile"]),
            )
        )
    return rows


def _matrix_rows(shown: Judged, ledger: Ledger) -> list[CeilingRow]:
    rates: dict[str, Any] = ledger.value("ceilings", "matrix")
    return [
        CeilingRow(
            name=(f"Dense {KINDS.get(kind, kind)} products",),
            unit="TFLOP/s",
            measured=ledger.figure("ceilings", "matrix", kind, "flops_per_second", show=format.teraflops_per_second),
            printed=ledger.figure("ceilings", "datasheet", "flops_per_second", kind, show=format.teraflops_per_second),
            share=ledger.figure("ceilings", "matrix", kind, "peak_share", show=format.share),
            by=profile_title(shown, rate["profile"]),
        )
        for kind, rate in rates.items()
    ]


def _other_rows(ledger: Ledger) -> tuple[CeilingRow, ...]:
    cache = ledger.figure("ceilings", "l2_bytes", show=format.megabytes)
    printed = ledger.figure("ceilings", "datasheet", "l2_bytes", show=format.megabytes)
    floor = ledger.figure("ceilings", "launch_floor_seconds", show=format.microseconds)
    return (
        CeilingRow(name=("L2 cache",), unit="MB", measured=cache, printed=printed, share=None, by="the driver"),
        CeilingRow(name=("Empty kernel",), unit="µs", measured=floor, printed=None, share=None, by="the lab"),
    )
