"""Nsight Compute, after timing: counters explain, they never time. Clocks are left alone."""

import csv
import hashlib
import io
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.definition.plan import Plan, PlannedExperiment
from lab.evidence.machine import ncu_path, ncu_version
from lab.evidence.record import Counters, FlushCheck, Kernel
from lab.evidence.source import OWN_MODULE, child_environment
from lab.profiler.flushed import FLUSHED, FOOTPRINT_BYTES, WARM
from lab.profiler.profiled import RANGE_SEPARATOR
from lab.supervisor.orphan import mark_parent

TIMEOUT_SECONDS = 420.0
METRICS = {
    "duration_seconds": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_written_bytes": "dram__bytes_write.sum",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers_per_thread": "launch__registers_per_thread",
    "shared_bytes_per_block": "launch__shared_mem_per_block",
}
READ_BYTES = METRICS["dram_read_bytes"]
LAUNCH_COLUMNS = ("Kernel Name", "Grid Size", "Block Size")
# ncu's base units, brought to SI. An unknown unit is an error, not a guess.
RAW_PAGE = ("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function")
UNITS = {"ns": 1e-9, "byte": 1.0, "byte/block": 1.0, "%": 1.0, "register/thread": 1.0}
REFUSED = (
    "ncu may not read the counters (ERR_NVGPUCTRPERM): run as root or with CAP_SYS_ADMIN, or load the driver "
    "with NVreg_RestrictProfilingToAdminUsers=0"
)


@dataclass(frozen=True, slots=True)
class Capture:
    """What one ncu run gave: launches by (case, profile), or why there are none."""

    launches: Mapping[tuple[str, str], tuple[Kernel, ...]]
    blocked: str
    report_sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """The table that one ncu run gave, or why there is none."""

    table: str
    blocked: str
    sha256: str


def profile_experiment(plan: Plan, experiment: PlannedExperiment, directory: Path) -> Iterator[Counters]:
    """Capture all cells of one experiment in one ncu run; every cell gets a record, blocked or not."""
    capture = _capture(experiment, directory, plan.device)
    ncu = ncu_version()
    for case, profile in experiment.cells():
        if plan.device not in profile.devices:
            continue
        kernels = capture.launches.get((case.name, profile.name), ())
        blocked = capture.blocked or ("" if kernels else "ncu saw no kernel in this cell's range")
        expected = profile.kernels.get(case.op, "")
        if not blocked and expected and not any(kernel.name == expected for kernel in kernels):
            seen = sorted({kernel.name for kernel in kernels})
            blocked = f"wrong kernel: {expected} is not among the captured {seen}"
        yield Counters(
            experiment=experiment.name,
            case=case.name,
            profile=profile.name,
            outcome="blocked" if blocked else "measured",
            reason=blocked,
            kernels=() if blocked else kernels,
            ncu=ncu,
            report_sha256=capture.report_sha256,
        )


def check_flush(directory: Path, device: str) -> FlushCheck:
    """Let the profiler say what a read costs after the lab's flush, and what it costs at once again."""

    def blocked(reason: str) -> FlushCheck:
        return FlushCheck(footprint_bytes=FOOTPRINT_BYTES, flushed_read_bytes=None, warm_read_bytes=None, reason=reason)

    # The profiler must not flush by itself here, and one metric needs no replay, which would warm the cache.
    report = _report("flush", ["lab.profiler.flushed"], ["none", READ_BYTES], directory, device)
    if report.blocked:
        return blocked(report.blocked)
    found: dict[str, float | None] = {}
    try:
        for (_, name), row, units in _rows(report.table, [READ_BYTES]):
            bytes_read = _number(row[READ_BYTES], units[READ_BYTES], READ_BYTES)
            found[name] = None if bytes_read is None else (found.get(name) or 0.0) + bytes_read
    except ValueError as changed:
        return blocked(f"the report's table is not as expected: {changed}")
    return FlushCheck(
        footprint_bytes=FOOTPRINT_BYTES, flushed_read_bytes=found.get(FLUSHED), warm_read_bytes=found.get(WARM),
        reason="" if {FLUSHED, WARM} <= found.keys() else "ncu saw no kernel in the ranges",
    )  # fmt: skip


def _capture(experiment: PlannedExperiment, directory: Path, device: str) -> Capture:
    program = ["lab.profiler.profiled", str(directory), experiment.name]
    report = _report(experiment.name, program, ["all", ",".join(METRICS.values())], directory, device)
    if report.blocked:
        return Capture({}, report.blocked, report.sha256)
    try:
        return Capture(parse_raw_page(report.table), "", report.sha256)
    except ValueError as changed:
        return Capture({}, f"the report's table is not as expected: {changed}", report.sha256)


def _report(name: str, program: list[str], how: list[str], directory: Path, device: str) -> Report:
    """Run a program of the lab under ncu and read the table back. how: cache control, and the metrics."""
    if device != "cuda":
        return Report("", "counters are a GPU's, and this run measures the CPU", "")
    if not (ncu := ncu_path()):
        return Report("", "ncu is not installed: install NVIDIA Nsight Compute and put ncu on the PATH", "")
    folder = directory / "ncu"
    folder.mkdir(exist_ok=True)
    report = folder / f"{name}.ncu-rep"
    report.unlink(missing_ok=True)  # an interrupted pass may have left one, and it must not pass for this one's
    command = [
        ncu, "--clock-control", "none", "--cache-control", how[0], "--profile-from-start", "off", "--nvtx",
        "--metrics", how[1], "--force-overwrite", "--export", str(report), sys.executable, *OWN_MODULE, *program,
    ]  # fmt: skip
    told, problem = _run(command, folder / f"{name}.log", TIMEOUT_SECONDS)
    if problem or not report.is_file():
        return Report("", _diagnose(told, problem), "")
    sha256 = hashlib.sha256(report.read_bytes()).hexdigest()
    table, problem = _run([ncu, "--import", str(report), *RAW_PAGE], folder / f"{name}.csv", 120)
    return Report(table, f"the report could not be read back: {problem}" if problem else "", sha256)


def parse_raw_page(text: str) -> dict[tuple[str, str], tuple[Kernel, ...]]:
    """Launches by (case, profile) from `ncu --import` with RAW_PAGE; ValueError where its form is another."""
    found: dict[tuple[str, str], tuple[Kernel, ...]] = {}
    for key, row, units in _rows(text, METRICS.values()):
        found[key] = (*found.get(key, ()), _kernel(row, units))
    return found


def _rows(text: str, metrics: Iterable[str]) -> Iterator[tuple[tuple[str, str], Mapping[str, str], Mapping[str, str]]]:
    """(range, launch, units) of each launch in one of the lab's ranges; ValueError where the form is another."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not rows:
        raise ValueError("no table")
    units, launches = rows[0], rows[1:]
    if missing := [column for column in (*LAUNCH_COLUMNS, *metrics) if column not in units]:
        raise ValueError(f"column {missing[0]} is missing")
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("a row has not as many fields as the header")
    for row in launches:
        if key := _range_of(text for column, text in row.items() if "Push/Pop_Range" in column):
            yield key, row, units


def _kernel(row: Mapping[str, str], units: Mapping[str, str]) -> Kernel:
    values: dict[str, Any] = {field: _number(row[metric], units[metric], metric) for field, metric in METRICS.items()}
    return Kernel(name=row["Kernel Name"][:200], grid=row["Grid Size"], block=row["Block Size"], **values)


def _number(text: str, unit: str, metric: str) -> float | None:
    """A counter in SI units; None where ncu has no number for it."""
    if unit not in UNITS:
        raise ValueError(f"{metric} has unit {unit!r}; known are {sorted(UNITS)}")
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value * UNITS[unit] if math.isfinite(value) else None


def _range_of(values: Iterable[str]) -> tuple[str, str] | None:
    """The (case, profile) that the launch's NVTX range names; ncu has a column for each thread's ranges."""
    for value in values:
        if found := re.search(r"([a-z0-9-]+)" + re.escape(RANGE_SEPARATOR) + r"([a-z0-9-]+)", value):
            return found[1], found[2]
    return None


def _run(command: list[str], log: Path, timeout_seconds: float) -> tuple[str, str]:
    """(all output, what went wrong). The whole process group ends with the call, and with this process."""
    with log.open("w+", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, *OWN_MODULE, "lab.supervisor.orphan", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=child_environment() | mark_parent(),
        )
        try:
            code = process.wait(timeout_seconds)
            problem = f"ncu ended with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"time-out after {timeout_seconds:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return output.read(), problem


def _diagnose(told: str, problem: str) -> str:
    if "ERR_NVGPUCTRPERM" in told:
        return REFUSED
    complaint = next((line.strip() for line in told.splitlines() if "==ERROR==" in line), "")
    return "; ".join(part for part in (problem or "ncu wrote no report", complaint) if part)
