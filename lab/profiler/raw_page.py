"""Nsight Compute's table of launches → kernels by range, in SI units. Pure.

The table is what `ncu --import … --csv --page raw` prints. NVIDIA's `ncu_report` package reads the same report in
0.05 s and without rounding, and was tried: version 2026.3.1 on a report of ncu 2025.3.1, with the same values. The lab
uses the table, because every ncu that wrote a report can print it. The package is 17 MB, which a GPU box without a
package index would need to get in a version that knows the box's ncu. The table's two decimals are enough for shares;
bytes and nanoseconds are whole numbers.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.evidence.record import Kernel
from lab.quantities import COUNTERS

OPTIONS = ("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function")
READ_BYTES = COUNTERS["dram_read_bytes"].ncu
LIMITS = {
    limit: f"launch__occupancy_limit_{limit}" for limit in ("blocks", "registers", "shared_mem", "warps", "barriers")
}
# Asked for by pattern, because chips differ in the reasons that they know.
STALLS = "regex:smsp__average_warps_issue_stalled_.*_per_issue_active"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
NO_STALL = "selected"  # the warp that issues
# 49 launches of 20 cells took 39 s on an H100, compilation included, in the 16 passes that these and a few more need.
CHOSEN_METRICS = (*(counter.ncu for counter in COUNTERS.values()), *LIMITS.values(), STALLS)
RANGE_SEPARATOR = "|"  # between the parts of a range's name
LAUNCH_COLUMNS = ("Kernel Name", "Grid Size", "Block Size")
# ncu's base units, brought to SI. An unknown unit is an error, not a guess.
UNITS = {
    "ns": 1e-9, "hz": 1.0, "byte": 1.0, "byte/block": 1.0, "%": 1.0, "register/thread": 1.0, "block": 1.0, "inst": 1.0,
}  # fmt: skip
NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")  # 'nan', 'n/a' and '' are none
Range = tuple[str, str]  # of a cell: its case and profile


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A row of the table."""

    range: Range
    texts: Mapping[str, str]
    units: Mapping[str, str]

    def number(self, metric: str) -> float | None:
        """A counter in SI units; None where ncu lacks the metric or has no number for it. ValueError for a new unit."""
        if metric not in self.texts:
            return None
        if not NUMBER.fullmatch(self.texts[metric]):
            return None
        value = float(self.texts[metric].replace(",", ""))
        if not math.isfinite(value):  # '1e999'
            return None
        if (unit := self.units[metric]) not in UNITS:
            raise ValueError(f"{metric} has unit {unit!r}; known are {sorted(UNITS)}")
        return value * UNITS[unit]

    def numbers(self, metrics: Mapping[str, str]) -> dict[str, float]:
        """Those of the metrics that have a number, by the names they are given."""
        return {name: value for name, metric in metrics.items() if (value := self.number(metric)) is not None}


def read_kernels(table: str) -> dict[Range, tuple[Kernel, ...]]:
    """The launches of each cell, in their order; ValueError where the table's form or units are not the known ones."""
    kernels: dict[Range, tuple[Kernel, ...]] = {}
    for launch in read_launches(table):
        kernels[launch.range] = (*kernels.get(launch.range, ()), _kernel(launch))
    return kernels


def read_launches(table: str) -> Iterator[ProfiledLaunch]:
    """Each launch in one of the lab's ranges; ValueError where the form is another."""
    # Not `splitlines`, which would also cut a kernel's name where it holds a separator of another kind.
    lines = [line for line in table.split("\n") if line.startswith('"')]
    try:
        rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    except csv.Error as problem:
        raise ValueError(f"the table cannot be read: {problem}") from None
    if not rows:
        return
    units, launches = rows[0], rows[1:]
    if missing := [column for column in LAUNCH_COLUMNS if column not in units]:
        raise ValueError(f"column {missing[0]} is missing")
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("a row has not as many fields as the header")
    for row in launches:
        if place := _range_of(text for column, text in row.items() if "Push/Pop_Range" in column):
            yield ProfiledLaunch(place, row, units)


def _kernel(launch: ProfiledLaunch) -> Kernel:
    values: dict[str, Any] = {name: launch.number(counter.ncu) for name, counter in COUNTERS.items()}
    stalls = {match[1]: metric for metric in launch.texts if (match := STALL.fullmatch(metric))}
    stalls.pop(NO_STALL, None)
    name, grid, block = (launch.texts[column] for column in LAUNCH_COLUMNS)
    return Kernel(
        name=name[:200], grid=grid, block=block, **values,
        blocks_per_multiprocessor=launch.numbers(LIMITS), stalls=launch.numbers(stalls),
    )  # fmt: skip


def _range_of(values: Iterable[str]) -> Range | None:
    """The (case, profile) that the launch's NVTX range names; ncu has a column for each thread's ranges."""
    for value in values:
        if match := re.search(r"([a-z0-9-]+)" + re.escape(RANGE_SEPARATOR) + r"([a-z0-9-]+)", value):
            return match[1], match[2]
    return None
