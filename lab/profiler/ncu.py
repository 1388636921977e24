"""Runs Nsight Compute on a program of the lab, and reads its report back as a table, or says why there is none.

It does not change the clocks, and captures only launches inside ranges that the program opens.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.evidence.machine import ncu_path
from lab.evidence.source import OWN_MODULE
from lab.process.child import Child, ending
from lab.profiler.raw_page import OPTIONS
from lab.worker.faults import PATHS

CLOCK_CONTROL = "none"
TIMEOUT_SECONDS = {"chosen": 420.0, "full": 1200.0}  # by set of metrics
READING_SECONDS = 120.0
GRANTED = (
    "run as root (a container needs --cap-add=SYS_ADMIN), or let every user: a line `options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0` in a file of /etc/modprobe.d/, then load the driver anew"
)
FREED = "pause it (`dcgmi profile --pause`, afterwards `--resume`) or stop it (`systemctl stop nvidia-dcgm`)"
# What ncu says → what it means for us. Its lines may be broken anywhere.
COMPLAINTS = (
    (r"ERR_NVGPUCTRPERM", "no-permission", f"ncu may not read the counters (ERR_NVGPUCTRPERM): {GRANTED}"),
    (
        r"driver\s+resource\s+was\s+unavailable", "busy",
        f"another tool, such as DCGM, holds the GPU's counters: {FREED}, and run again",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureRequest:
    """What is to be captured. `full` adds ncu's own largest set to the metrics."""

    name: str  # of the report, ncu/NAME.ncu-rep, and of the log and table beside it
    program: tuple[str, ...]  # a module of the lab and its arguments
    metrics: tuple[str, ...]
    metric_set: str  # "chosen" or "full"
    cache_control: str  # "all": ncu empties the caches before each kernel; "none": it does not
    environment: Mapping[str, str] = field(default_factory=dict)  # variables of the program beside this process's own


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureReport:
    """The table of one capture, or why there is none: one of record.BLOCKERS, and the reason in words."""

    table: str = ""
    blocker: str = ""
    reason: str = ""
    sha256: str = ""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """How a run of ncu went: all that it said, and a blocker where it did not end well."""

    output: str
    blocker: str = ""
    problem: str = ""


def capture(request: CaptureRequest, directory: Path, device: str) -> CaptureReport:
    """Run the program under ncu, keep the report in the run's directory, and read its table."""
    if device != "cuda":
        return CaptureReport(blocker="no-gpu", reason="counters are a GPU's, and this run measures the CPU")
    if not (ncu := ncu_path()):
        reason = "ncu is not installed: install NVIDIA Nsight Compute and put ncu on the PATH"
        return CaptureReport(blocker="not-installed", reason=reason)
    try:
        return _captured(ncu, request, directory / "ncu")
    except OSError as problem:  # such as a disk that is full
        return CaptureReport(blocker="crash", reason=f"the report could not be kept: {problem.strerror}")


def _captured(ncu: str, request: CaptureRequest, folder: Path) -> CaptureReport:
    folder.mkdir(exist_ok=True)
    path = folder / f"{request.name}.ncu-rep"
    run = _capture_known_metrics(ncu, request, path)
    if run.blocker or not path.is_file():
        return _diagnosis(run)
    with path.open("rb") as file:
        report = CaptureReport(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size_bytes=path.stat().st_size)
    read = _run([ncu, "--import", str(path), *OPTIONS], folder / f"{request.name}.csv", READING_SECONDS)
    if read.blocker:
        return replace(report, blocker=read.blocker, reason=f"the report could not be read back: {read.problem}")
    return replace(report, table=read.output)


def _capture_known_metrics(ncu: str, request: CaptureRequest, path: Path) -> _Run:
    """Capture again without the metrics that this ncu or chip does not know, because one unknown metric fails all."""
    metrics = request.metrics
    while True:
        path.unlink(missing_ok=True)  # a report of an earlier pass must not be taken for this one's
        command = _command(ncu, replace(request, metrics=metrics), path)
        run = _run(command, path.with_suffix(".log"), TIMEOUT_SECONDS[request.metric_set], request.environment)
        unknown = _unknown(run.output, metrics)
        if not unknown or unknown == metrics or path.is_file():
            return run
        metrics = tuple(metric for metric in metrics if metric not in unknown)


def _command(ncu: str, request: CaptureRequest, path: Path) -> list[str]:
    return [
        ncu, "--clock-control", CLOCK_CONTROL, "--cache-control", request.cache_control,
        "--profile-from-start", "off", "--nvtx", *(("--set", "full") if request.metric_set == "full" else ()),
        "--metrics", ",".join(request.metrics), "--force-overwrite", "--export", str(path),
        sys.executable, *OWN_MODULE, *request.program,
    ]  # fmt: skip


def _unknown(output: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the metrics that ncu's error names: by their name, or by a pattern that contains it."""
    complaints = [line for line in output.splitlines() if "Failed to find metric" in line]
    return tuple(metric for metric in metrics if any(metric.partition(".")[0] in line for line in complaints))


def _run(command: list[str], log: Path, timeout_seconds: float, environment: Mapping[str, str] = {}) -> _Run:
    """Run a command; it and all that it starts are ended with this call, or with this process."""
    with log.open("w+", errors="replace") as output:
        child = Child("lab.process.parent_death", command, output, environment=environment)
        blocker = problem = ""
        try:
            child.order("")
            status = child.exit_status(timeout_seconds)
            if status is None:
                blocker, problem = "time-out", f"time-out after {timeout_seconds:.0f} s"
            elif status.si_code != os.CLD_EXITED or status.si_status:
                blocker, problem = "crash", f"ncu {ending(status)}"
        finally:
            child.end(grace_seconds=0.0)
        output.seek(0)
        return _Run(output.read(), blocker, problem)


def _diagnosis(run: _Run) -> CaptureReport:
    """Why there is no report: by ncu's own complaints where it made some, else by how it ended."""
    for pattern, blocker, reason in COMPLAINTS:
        if re.search(pattern, run.output):
            return CaptureReport(blocker=blocker, reason=reason)
    complaints = [PATHS.sub("(path)", line.strip()) for line in run.output.splitlines() if "==ERROR==" in line]
    reason = "; ".join([run.problem or "ncu wrote no report", *complaints[:2]])
    return CaptureReport(blocker=run.blocker or "empty", reason=reason[:400])
