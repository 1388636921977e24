"""The instruments: other benchmarking tools on the same cells, the cache flush, the clock, and the canaries."""

from collections.abc import Iterator

from lab.verdict.excluded_rounds import LARGEST_CANARY_DRIFT
from lab.verdict.statistics import per_cent
from lab.verdict.validity import AGREES_WITHIN, AGREES_WITHIN_SECONDS
from lab.website import format
from lab.website.data.published_clocks import INSTRUMENTS
from lab.website.data.published_trust import OTHERS
from lab.website.figure import DataView, Sentence, sentence
from lab.website.pages.trust_part import Part, trust_part
from lab.website.table import Head, TableRow, column, named, row


def instruments_part(view: DataView) -> Part:
    columns = (
        named("cell", "Cell"), column("p50_seconds", "Cold cache, µs"),
        *(column(f"{name}_seconds", f"{name.replace('_flush', ' flush')}, µs", show=format.microseconds)
          for name in INSTRUMENTS),
        named("agrees", "Agrees after a writing flush"), named("agrees_cold", "Agrees with cold cache"),
    )  # fmt: skip
    return trust_part(
        "instruments", "Other benchmarking tools on the same cells",
        "do_bench and nvbench flush the cache by writing. It is then full of dirty lines, and writing those back falls "
        "into the timed window. The lab's cold clock reads them back first, so longer kernels look faster there. Very "
        "short kernels can look slower, because that clock also cycles through fresh inputs and outputs. With a "
        "writing flush and one set of inputs, the lab's clock should agree with both: within "
        f"{per_cent(AGREES_WITHIN)} or {AGREES_WITHIN_SECONDS * 1e6:.1f} µs, whichever is more.",
        columns,
        (row(view.at("instruments", cell), columns, cell=cell, agrees=_agreeing(view, cell, "agrees"),
             agrees_cold=_agreeing(view, cell, "agrees_cold"))
         for cell in view.value("instruments") or {}),
        _agreement(view),
    )  # fmt: skip


def _agreeing(view: DataView, cell: str, how: str) -> str:
    return " and ".join(name for name in OTHERS if view.value("instruments", cell, f"{name}_{how}")) or "neither"


def _agreement(view: DataView) -> Sentence:
    return sentence(
        view.at("agreement"),
        "Of {cells} cells, the lab's clock after a writing flush agrees with do_bench in {do_bench_agrees} and with "
        "nvbench in {nvbench_agrees}; its cold clock, on which most verdicts rest, in {do_bench_agrees_cold} and "
        "{nvbench_agrees_cold}.",
    )


def turned_claims(view: DataView) -> Sentence:
    """How many claims another clock would put on the other side of their threshold."""
    if not view.value("agreement", "claims"):
        return ()
    return sentence(
        view.at("agreement"),
        "Of {claims} claims that do_bench, nvbench or a writing flush timed too, {claims_turned} fall on the other "
        "side of their threshold by that clock. A case's page shows the ratios side by side.",
    )


def flush_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("footprint_bytes", "Buffer, bytes", show=_thousands),
        column("flushed_read_bytes", "Read after flush", show=_thousands),
        column("warm_read_bytes", "Read again", show=_thousands),
    )  # fmt: skip
    return trust_part(
        "flush", "Does the cache flush work?",
        "Nsight Compute counts the bytes that one read of a buffer brings in from DRAM: right after the flush, where "
        "all of the buffer must come, and once more, where next to nothing may.",
        columns, _by_run(view, "flush", columns),
    )  # fmt: skip


def canaries_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("clock_step_seconds", "Clock step, ns", show=lambda v: f"{v * 1e9:.0f}"),
        column("empty_seconds", "Two events, µs"), column("launch_floor_seconds", "Empty kernel, µs"),
        column("canaries"), column("off"),
        column("largest_off", "Largest deviation", show=lambda v: per_cent(v, 1)),
    )  # fmt: skip
    return trust_part(
        "clock", "The clock and the canaries",
        "What the GPU's clock shows when nothing, or nearly nothing, is timed, and how far canaries (fixed copies and "
        "spins between the cases) were from their process's median. A canary that is off by more than "
        f"{per_cent(LARGEST_CANARY_DRIFT)} spoils the cases beside it.",
        columns, _by_run(view, "clock", columns),
    )  # fmt: skip


def _by_run(view: DataView, place: str, columns: tuple[Head, ...]) -> Iterator[TableRow]:
    return (row(view.at(place, run), columns, run=run) for run in view.value(place) or {})


def _thousands(value: float) -> str:
    return f"{value:,.0f}"
