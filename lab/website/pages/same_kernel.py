"""One operator as two profilers saw it: the counters that an audited project printed, beside this site's own.

The project explains its RMSNorm by a high DRAM throughput and occupancy. At the same shape this lab's kernel shows less
of both; the page says why, from the counters of both.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lab.definition.publication import Publication
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence

# (publication, row): theirs.
PRINTED = ("cuda-kernel-lab", "rmsnorm 4096×4096 float16, Triton")
# (experiment, case, profile): the same shape here, and one that no cache holds.
SAME = ("normalization-fusion", "rmsnorm-4096x4096-float16", "triton-fused-rmsnorm")
BEYOND = ("profiler-validation", "rmsnorm-16384x4096-float16", "triton-fused-rmsnorm")
LABELS = {
    "least_bytes": "Least that must be moved",
    "read_bytes": "Read from DRAM",
    "written_bytes": "Written to DRAM",
    "l2_bytes": "L2 cache of the GPU",
    "seconds": "Time of the kernel, under the profiler",
    "dram_share": "DRAM throughput, of its peak",
    "occupancy_share": "Occupancy",
    "occupancy_limit_share": "Occupancy that the launch allows",
    "registers_per_thread": "Registers a thread",
}
UNITS = {
    "least_bytes": "bytes", "read_bytes": "bytes", "written_bytes": "bytes", "l2_bytes": "bytes", "seconds": "seconds",
    "dram_share": "share", "occupancy_share": "share", "occupancy_limit_share": "share",
    "registers_per_thread": "count", "launch_floor_seconds": "seconds", "sm_hertz": "hertz",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SameKernel:
    """A table with a column for each shape and GPU of `columns`, and what explains its differences."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Figure | None, ...]], ...]
    reasons: tuple[Sentence, ...]


def same_kernel_data(publications: Sequence[Publication], shown: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Theirs, the same shape here, and one beyond the cache; empty where one of them has no counters."""
    columns = {"theirs": _printed(publications), "same": _own(shown, *SAME), "beyond": _own(shown, *BEYOND)}
    return columns if all(columns.values()) else {}


def same_kernel(ledger: Ledger, *path: str) -> SameKernel | None:
    """The view of what `same_kernel_data` put at `path`."""
    columns = ledger.value(*path)
    if not columns:
        return None

    def figure(column: str, name: str) -> Figure | None:
        return ledger.figure(*path, column, name, show=lambda value: format.amount(value, UNITS[name]))

    return SameKernel(
        columns=tuple((column["shape"], column["gpu"]) for column in columns.values()),
        rows=tuple((label, tuple(figure(column, name) for column in columns)) for name, label in LABELS.items()),
        reasons=tuple(_reasons(figure)),
    )


def _printed(publications: Sequence[Publication]) -> dict[str, Any]:
    slug, label = PRINTED
    tables = [table for publication in publications if publication.slug == slug for table in publication.tables]
    for table in tables:
        row = next((row for row in table.rows if row.label == label), None)
        if row and row.counters and row.work:
            return {
                "gpu": table.limits.gpu,
                "shape": row.shape,
                "least_bytes": row.work.total_bytes,
                "read_bytes": row.counters.read_bytes,
                "written_bytes": row.counters.written_bytes,
                "l2_bytes": table.limits.l2_bytes,
                "seconds": row.counters.seconds,
                "dram_share": row.counters.dram_share,
                "occupancy_share": row.counters.occupancy_share,
                "registers_per_thread": row.counters.registers_per_thread,
            }
    return {}


def _own(shown: Sequence[Judged], experiment: str, case_name: str, profile: str) -> dict[str, Any]:
    item = next((item for item in shown if item.plan.name == experiment), None)
    case = next((case for case in item.plan.cases if case.name == case_name), None) if item else None
    if not item or not item.evidence or not case:
        return {}
    kernels = item.cell(case.name, profile).get("counters", {}).get("kernels", ())
    if len(kernels) != 1:
        return {}
    (kernel,) = kernels
    return {
        "gpu": item.machine["gpu"],
        "shape": "×".join(map(str, case.shape)),
        "least_bytes": case.least_bytes,
        "read_bytes": kernel["dram_read_bytes"],
        "written_bytes": kernel["dram_written_bytes"],
        "l2_bytes": item.machine["l2_bytes"],
        "seconds": kernel["duration_seconds"],
        "dram_share": _share(kernel["dram_percent"]),
        "occupancy_share": _share(kernel["occupancy_percent"]),
        "occupancy_limit_share": _share(kernel["theoretical_occupancy_percent"]),
        "registers_per_thread": kernel["registers_per_thread"],
        "launch_floor_seconds": item.evidence["median_launch_floor_seconds"],
        "sm_hertz": kernel["sm_hertz"],
    }


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)


def _reasons(figure: Callable[[str, str], Figure | None]) -> Iterator[Sentence]:
    """What the counters of the three columns say of the differences between the first two."""

    def told(column: str, name: str) -> Figure | str:
        return figure(column, name) or "–"

    yield (
        "Bytes: a result that the cache can hold need not reach the memory while the kernel runs. With an L2 of ",
        told("theirs", "l2_bytes"), " theirs did: ", told("theirs", "read_bytes"), " were read and ",
        told("theirs", "written_bytes"), " written. Here only ", told("same", "written_bytes"), " were written; the "
        "rest of the result was still in an L2 of ", told("same", "l2_bytes"), " when the kernel ended.",
    )  # fmt: skip
    yield (
        "DRAM throughput is an average over the kernel's time. Theirs lasts ", told("theirs", "seconds"), ", ours ",
        told("same", "seconds"), ": a larger part of that goes by in starting and ending (an empty kernel takes ",
        told("same", "launch_floor_seconds"), "), and writes that stay in the cache do not count. At ",
        told("beyond", "least_bytes"), ", where neither weighs as much, the same kernel reaches ",
        told("beyond", "dram_share"), ".",
    )  # fmt: skip
    yield (
        "Occupancy: ", told("same", "registers_per_thread"), " registers a thread leave room for ",
        told("same", "occupancy_limit_share"), " of the warps, of which ", told("same", "occupancy_share"),
        " were there on average. The memory is kept busy with fewer warps than theirs: occupancy is no goal.",
    )  # fmt: skip
    yield (
        "Clocks: their command leaves the clocks to ncu, which by default holds them at their base; here they are left "
        "alone (", told("same", "sm_hertz"), " in this pass). Neither time is a timing.",
    )  # fmt: skip
