"""Runs Nsight Compute on a program of the lab, and reads its report back as a table, or says why there is none.

It does not change the clocks, and captures only launches inside ranges that the program opens. The program loads all
that it needs and then waits for an order, so that it can be started long before it may use the GPU.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from lab.evidence.machine import ncu_path
from lab.evidence.source import OWN_MODULE
from lab.process.child import Child, ending
from lab.process.order import OrderPipe
from lab.profiler.raw_page import OPTIONS
from lab.worker.faults import PATHS

CLOCK_CONTROL = "none"
COUNTED_DEVICE = "cuda"
SILENT_SECONDS = {"chosen": 420.0, "full": 1200.0}  # without a word from ncu, by set of metrics: then it hangs
LOOK_SECONDS = 0.05
TOLD_SECONDS = 60.0  # from one word about a long pass to the next
PROFILED = "==PROF== Profiling"  # in a line of ncu's about each kernel
Tell = Callable[[str], None]
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
    program: tuple[str, ...]  # a module of the lab and its arguments, to which the path of its order is added
    metrics: tuple[str, ...]
    metric_set: str  # "chosen" or "full"
    cache_control: str  # "all": ncu empties the caches before each kernel; "none": it does not


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


class Capture:
    """ncu with its program, from its start on. Always call `end`; it also ends with this process."""

    def __init__(self, ncu: str, request: CaptureRequest, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        report = folder / f"{request.name}.ncu-rep"
        report.unlink(missing_ok=True)  # one of an earlier pass must not be taken for this one's
        self._log = report.with_suffix(".log")
        self._order = OrderPipe()
        try:
            with self._log.open("w") as output:
                self._child = Child(
                    "lab.process.parent_death", _command(ncu, request, report, self._order.path), output,
                    # As in workers. Processes of Inductor's that compile would have the variables of before the order.
                    environment={"TORCHINDUCTOR_COMPILE_THREADS": "1"},
                )  # fmt: skip
        except BaseException:
            self._order.close()
            raise
        self._child.order("")

    def wait_until_loaded(self, patience_seconds: float) -> bool:
        """Whether the program awaits its order; not if it has ended, or takes longer than this."""
        give_up = monotonic() + patience_seconds
        while not self._order.is_awaited():
            if self._child.exit_status(LOOK_SECONDS) or monotonic() >= give_up:
                return False
        return self.lives()

    def lives(self) -> bool:
        return self._child.exit_status() is None

    def follow(self, order: Mapping[str, Any], silent_seconds: float, tell: Tell) -> _Run:
        """Give the order, as soon as the program awaits it, and wait for the end, or until ncu has said nothing for so
        long. A call of a whole model launches a thousand kernels, of which each takes ncu a third of a second: `tell`
        hears now and then how many there were."""
        give_up = monotonic() + silent_seconds
        loaded = self.wait_until_loaded(silent_seconds)
        tell_at, said_bytes = monotonic() + TOLD_SECONDS, 0
        if loaded:
            self._order.give(order)
        status = self._child.exit_status()
        while status is None and monotonic() < give_up:
            status = self._child.exit_status(LOOK_SECONDS)
            if (size := self._log.stat().st_size) != said_bytes:
                said_bytes, give_up = size, monotonic() + silent_seconds
            if monotonic() >= tell_at:
                tell(f"  {self._said().count(PROFILED)} kernels so far")
                tell_at = monotonic() + TOLD_SECONDS
        self.end()
        return _Run(self._said(), *_how(status, f"ncu said nothing for {silent_seconds:.0f} s"))

    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """End ncu, its program and all that they started."""
        self._child.end(grace_seconds=0.0)
        self._order.close()


def load(request: CaptureRequest, directory: Path, device: str) -> Capture | None:
    """Start ncu for a later `capture`. None if it cannot be started; `capture` then has the reason."""
    if device != COUNTED_DEVICE or not (ncu := ncu_path()):
        return None
    try:
        return Capture(ncu, request, directory / "ncu")
    except OSError:
        return None


def capture(
    request: CaptureRequest,
    directory: Path,
    device: str,
    order: Mapping[str, Any] = {},
    loaded: Capture | None = None,
    tell: Tell = lambda text: None,
) -> CaptureReport:
    """Run the program under ncu, keep the report in the run's directory, and read its table. `loaded`: of the same
    request; it is used first. `tell` hears how a long pass goes."""
    if device != COUNTED_DEVICE:
        return CaptureReport(blocker="no-gpu", reason="counters are a GPU's, and this run measures the CPU")
    if not (ncu := ncu_path()):
        reason = "ncu is not installed: install NVIDIA Nsight Compute and put ncu on the PATH"
        return CaptureReport(blocker="not-installed", reason=reason)
    try:
        return _captured(ncu, request, directory / "ncu", order, loaded, tell)
    except OSError as problem:  # such as a disk that is full
        return CaptureReport(blocker="crash", reason=f"the report could not be made or kept: {problem.strerror}")


def _captured(
    ncu: str, request: CaptureRequest, folder: Path, order: Mapping[str, Any], loaded: Capture | None, tell: Tell
) -> CaptureReport:
    path = folder / f"{request.name}.ncu-rep"
    run = _capture_known_metrics(ncu, request, path, order, loaded, tell)
    if run.blocker or not path.is_file():
        return _diagnosis(run)
    with path.open("rb") as file:
        report = CaptureReport(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size_bytes=path.stat().st_size)
    read = _run([ncu, "--import", str(path), *OPTIONS], folder / f"{request.name}.csv", READING_SECONDS)
    if read.blocker:
        return replace(report, blocker=read.blocker, reason=f"the report could not be read back: {read.problem}")
    return replace(report, table=read.output)


def _capture_known_metrics(
    ncu: str, request: CaptureRequest, path: Path, order: Mapping[str, Any], loaded: Capture | None, tell: Tell
) -> _Run:
    """Capture again without the metrics that this ncu or chip does not know, because one unknown metric fails all."""
    metrics = request.metrics
    while True:
        started = loaded or Capture(ncu, replace(request, metrics=metrics), path.parent)
        loaded = None
        try:
            run = started.follow(order, SILENT_SECONDS[request.metric_set], tell)
        finally:
            started.end()
        unknown = _unknown(run.output, metrics)
        if not unknown or unknown == metrics or path.is_file():
            return run
        metrics = tuple(metric for metric in metrics if metric not in unknown)


def _command(ncu: str, request: CaptureRequest, path: Path, order: Path) -> list[str]:
    return [
        ncu, "--clock-control", CLOCK_CONTROL, "--cache-control", request.cache_control,
        "--profile-from-start", "off", "--nvtx", *(("--set", "full") if request.metric_set == "full" else ()),
        "--metrics", ",".join(request.metrics), "--force-overwrite", "--export", str(path),
        sys.executable, *OWN_MODULE, *request.program, str(order),
    ]  # fmt: skip


def _unknown(output: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the metrics that ncu's error names: by their name, or by a pattern that contains it."""
    complaints = [line for line in output.splitlines() if "Failed to find metric" in line]
    return tuple(metric for metric in metrics if any(metric.partition(".")[0] in line for line in complaints))


def _run(command: list[str], log: Path, limit_seconds: float) -> _Run:
    """Run a command; it and all that it starts are ended with this call, or with this process."""
    with log.open("w+", errors="replace") as output:
        child = Child("lab.process.parent_death", command, output)
        try:
            child.order("")
            status = child.exit_status(limit_seconds)
        finally:
            child.end(grace_seconds=0.0)
        output.seek(0)
        return _Run(output.read(), *_how(status, f"time-out after {limit_seconds:.0f} s"))


def _how(status: os.waitid_result | None, late: str) -> tuple[str, str]:
    """How it ended: blocker and problem, two empty texts where it ended well. `late`: the problem where it did not."""
    if status is None:
        return "time-out", late
    if status.si_code != os.CLD_EXITED or status.si_status:
        return "crash", f"ncu {ending(status)}"
    return "", ""


def _diagnosis(run: _Run) -> CaptureReport:
    """Why there is no report: by ncu's own complaints where it made some, else by how it ended."""
    for pattern, blocker, reason in COMPLAINTS:
        if re.search(pattern, run.output):
            return CaptureReport(blocker=blocker, reason=reason)
    complaints = [PATHS.sub("(path)", line.strip()) for line in run.output.splitlines() if "==ERROR==" in line]
    reason = "; ".join([run.problem or "ncu wrote no report", *complaints[:2]])
    return CaptureReport(blocker=run.blocker or "empty", reason=reason[:400])
