"""One operator as two profilers saw it: the counters that an audited project printed, beside this site's own."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.publication import Publication
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence

# (publication, row): theirs.
PRINTED = ("cuda-kernel-lab", "rmsnorm 4096×4096 float16, Triton")
# (experiment, case, profile): the same shape here, and one that no cache holds.
SAME = ("normalization-fusion", "rmsnorm-4096x4096-float16", "triton-fused-rmsnorm")
BEYOND = ("profiler-validation", "rmsnorm-16384x4096-float16", "triton-fused-rmsnorm")
# What is shown of each: its label, empty where it stands in a sentence alone, and its unit.
SAID = {
    "least_bytes": ("Least that must be moved", "bytes"), "read_bytes": ("Read from DRAM", "bytes"),
    "written_bytes": ("Written to DRAM", "bytes"), "l2_bytes": ("L2 cache of the GPU", "bytes"),
    "seconds": ("Time of the kernel, under the profiler", "seconds"),
    "dram_share": ("DRAM throughput, of its peak", "share"), "occupancy_share": ("Occupancy", "share"),
    "occupancy_limit_share": ("Occupancy that the launch allows", "share"),
    "registers_per_thread": ("Registers a thread", "count"), "launch_floor_seconds": ("", "seconds"),
    "sm_hertz": ("", "hertz"),
}  # fmt: skip


def same_kernel_data(publications: Sequence[Publication], shown: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Theirs, the same shape here, and one beyond the cache; empty where one of them has no counters."""
    columns = {
        "theirs": _printed(publications),
        "same": _same_kernel_own(shown, *SAME),
        "beyond": _same_kernel_own(shown, *BEYOND),
    }
    return columns if all(columns.values()) else {}


def same_kernel(view: DataView, *path: str) -> View | None:
    """The view of what `same_kernel_data` put at `path`."""
    columns = view.value(*path)
    if not columns:
        return None

    def figure(column: str, name: str) -> Figure | None:
        return view.figure(*path, column, name, show=lambda value: format.amount(value, SAID[name][1]))

    return View(
        columns=tuple((column["shape"], column["gpu"]) for column in columns.values()),
        rows=tuple(
            (label, tuple(figure(column, name) for column in columns)) for name, (label, _) in SAID.items() if label
        ),
        reasons=tuple(_reasons(figure)),
    )


def _printed(publications: Sequence[Publication]) -> dict[str, Any]:
    slug, label = PRINTED
    tables = [table for publication in publications if publication.slug == slug for table in publication.tables]
    for table in tables:
        row = next((row for row in table.rows if row.label == label), None)
        if row and row.counters and row.work:
            return {
                "gpu": table.limits.gpu, "shape": row.shape, "least_bytes": row.work.total_bytes,
                "read_bytes": row.counters.read_bytes, "written_bytes": row.counters.written_bytes,
                "l2_bytes": table.limits.l2_bytes, "seconds": row.counters.seconds,
                "dram_share": row.counters.dram_share, "occupancy_share": row.counters.occupancy_share,
                "registers_per_thread": row.counters.registers_per_thread,
            }  # fmt: skip
    return {}


def _same_kernel_own(shown: Sequence[Judged], experiment: str, case_name: str, profile: str) -> dict[str, Any]:
    item = next((item for item in shown if item.plan.name == experiment), None)
    case = next((case for case in item.plan.cases if case.name == case_name), None) if item else None
    if not item or not item.evidence or not case:
        return {}
    kernels = item.cell(case.name, profile).get("counters", {}).get("kernels", ())
    if len(kernels) != 1:
        return {}
    (kernel,) = kernels
    return {
        "gpu": item.machine["gpu"], "shape": "×".join(map(str, case.shape)), "least_bytes": case.least_bytes,
        "read_bytes": kernel["dram_read_bytes"], "written_bytes": kernel["dram_written_bytes"],
        "l2_bytes": item.machine["l2_bytes"], "seconds": kernel["duration_seconds"],
        "dram_share": _share(kernel["dram_percent"]), "occupancy_share": _share(kernel["occupancy_percent"]),
        "occupancy_limit_share": _share(kernel["theoretical_occupancy_percent"]),
        "registers_per_thread": kernel["registers_per_thread"],
        "launch_floor_seconds": item.evidence["median_launch_floor_seconds"], "sm_hertz": kernel["sm_hertz"],
    }  # fmt: skip


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)


def _reasons(figure: Callable[[str, str], Figure | None]) -> Iterator[Sentence]:
    """What the counters of the three columns say of the differences between the first two."""

    def seen(column: str, name: str) -> Figure | str:
        return figure(column, name) or "–"

    yield (
        "Bytes: a result that the cache can hold need not reach the memory while the kernel runs. With an L2 of ",
        seen("theirs", "l2_bytes"), " theirs did: ", seen("theirs", "read_bytes"), " were read and ",
        seen("theirs", "written_bytes"), " written. Here only ", seen("same", "written_bytes"), " were written; the "
        "rest of the result was still in an L2 of ", seen("same", "l2_bytes"), " when the kernel ended.",
    )  # fmt: skip
    yield (
        "DRAM throughput is an average over the kernel's time. Theirs lasts ", seen("theirs", "seconds"), ", ours ",
        seen("same", "seconds"), ": a larger part of that goes by in starting and ending (an empty kernel takes ",
        seen("same", "launch_floor_seconds"), "), and writes that stay in the cache do not count. At ",
        seen("beyond", "least_bytes"), ", where neither weighs as much, the same kernel reaches ",
        seen("beyond", "dram_share"), ".",
    )  # fmt: skip
    yield (
        "Occupancy: ", seen("same", "registers_per_thread"), " registers a thread leave room for ",
        seen("same", "occupancy_limit_share"), " of the warps, of which ", seen("same", "occupancy_share"),
        " were there on average. The memory is kept busy with fewer warps than theirs: occupancy is no goal.",
    )  # fmt: skip
    yield (
        "Clocks: their command leaves the clocks to ncu, which by default holds them at their base; here they are left "
        "alone (", seen("same", "sm_hertz"), " in this pass). Neither time is a timing.",
    )  # fmt: skip
