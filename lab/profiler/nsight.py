"""Nsight Compute's counters, taken after timing. Every cell gets a record: its counters, or why it has none.

Reports stay in the run's directory: they hold the machine code of whole libraries, 54 MB and 114 MB in two that were
looked at, so evidence carries the counters of every launch and the report's digest.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.definition.plan import Plan, PlannedCase, PlannedExperiment, PlannedProfile
from lab.evidence.machine import ncu_version
from lab.evidence.record import Cell, Compiled, Counters, FlushCheck, Kernel
from lab.profiler.flushed import FLUSHED, FOOTPRINT_BYTES, WARM
from lab.profiler.ncu import CLOCK_CONTROL, Capture, CaptureReport, CaptureRequest, Tell, capture, load
from lab.profiler.profiled import range_name
from lab.profiler.raw_page import CHOSEN_METRICS, READ_BYTES, Range, read_kernels, read_launches
from lab.profiler.wrong_kernel import wrong_kernel

EMPTIED, LEFT_ALONE = "all", "none"  # the caches, before each kernel
NO_KERNEL = "ncu saw no kernel in this cell's range"
CHANGED = "the report's table is not as expected: {}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pass:
    """What came of one ncu run: launches by cell, or why there are none at all; why some cells have none."""

    launches: Mapping[Range, tuple[Kernel, ...]]
    blocker: str
    reason: str
    failed: Mapping[Range, tuple[str, str]]  # blocker and reason
    compiled: Mapping[Range, list[Compiled]]

    def blocked(self, experiment: PlannedExperiment, case: PlannedCase, profile: PlannedProfile) -> tuple[str, str]:
        """(blocker, reason) of a cell without counters; two empty texts where it has them."""
        cell = case.name, profile.name
        if self.blocker:
            return self.blocker, self.reason
        if cell in self.failed:
            return self.failed[cell]
        kernels = self.launches.get(cell, ())
        if not kernels:
            return "empty", NO_KERNEL
        difference = wrong_kernel(experiment, case, profile, kernels, self.compiled)
        return ("wrong-kernel", f"wrong kernel: {difference}") if difference else ("", "")


def load_ahead(plan: Plan, experiment: PlannedExperiment, directory: Path, timed: Iterable[Cell]) -> Capture | None:
    """Start the process of `profile_experiment`, which loads everything and waits. None if it cannot be started."""
    return load(_request(plan, experiment, directory, _crashed(experiment, timed)), directory, plan.device)


def profile_experiment(
    plan: Plan,
    experiment: PlannedExperiment,
    directory: Path,
    timed: Iterable[Cell],
    environment: Mapping[str, str] = {},
    loaded: Capture | None = None,
    tell: Tell = lambda text: None,
) -> Iterator[Counters]:
    """Capture all cells of one experiment in one ncu run.

    timed: what the sweeps gave, which tells the kernels that were timed. A profile that took a measuring process down
    is not called, for it would take the other cells' counters with it. environment: variables that name the compilers'
    caches, so that what is captured is what a sweep has timed. loaded: what `load_ahead` has started. tell: hears how
    a long pass goes.
    """
    history = [cell for cell in timed if cell.experiment == experiment.name]
    crashed = _crashed(experiment, history)
    order = {"left_out": [range_name(*cell) for cell in crashed], "environment": dict(environment)}
    report = capture(_request(plan, experiment, directory, crashed), directory, plan.device, order, loaded, tell)
    failures = _failures_of(experiment, directory)
    captured, ncu = _read(report, failures, crashed, history), ncu_version()
    for case, profile in experiment.cells():
        if plan.device not in profile.devices:
            continue
        blocker, reason = captured.blocked(experiment, case, profile)
        yield Counters(
            experiment=experiment.name, case=case.name, profile=profile.name,
            outcome="blocked" if blocker else "measured", reason=reason, blocker=blocker,
            kernels=() if blocker else captured.launches[case.name, profile.name],
            ncu=ncu, report_sha256=report.sha256, report_bytes=report.size_bytes,
            cache_control=EMPTIED, clock_control=CLOCK_CONTROL, metric_set=plan.metric_set,
        )  # fmt: skip


def _request(plan: Plan, experiment: PlannedExperiment, directory: Path, crashed: Collection[Range]) -> CaptureRequest:
    program = ("lab.profiler.profiled", str(directory), experiment.name, str(_failures_of(experiment, directory)))
    return CaptureRequest(
        name=experiment.name, program=(*program, *sorted({profile for _, profile in crashed})),
        metrics=CHOSEN_METRICS, metric_set=plan.metric_set, cache_control=EMPTIED,
    )  # fmt: skip


def _crashed(experiment: PlannedExperiment, timed: Iterable[Cell]) -> dict[Range, str]:
    """The cells that took a measuring process down, and how."""
    return {
        (cell.case, cell.profile): cell.reason
        for cell in timed
        if cell.experiment == experiment.name and cell.outcome == "crashed"
    }


def _failures_of(experiment: PlannedExperiment, directory: Path) -> Path:
    return directory / "ncu" / f"{experiment.name}.failures.jsonl"


def check_flush(directory: Path, device: str) -> FlushCheck:
    """Let the profiler say what a read costs after the lab's flush, and what it costs at once again."""
    # The profiler must not flush by itself here, and one metric needs no replay, which would warm the cache.
    request = CaptureRequest(
        name="flush", program=("lab.profiler.flushed",), metrics=(READ_BYTES,), metric_set="chosen",
        cache_control=LEFT_ALONE,
    )  # fmt: skip
    report = capture(request, directory, device)
    bytes_by_range: dict[str, float | None] = {}
    reason = report.reason
    try:
        for launch in read_launches(report.table):
            bytes_read = launch.number(READ_BYTES)
            bytes_by_range[launch.range[1]] = (
                None if bytes_read is None else (bytes_by_range.get(launch.range[1]) or 0.0) + bytes_read
            )
    except ValueError as changed:
        bytes_by_range, reason = {}, CHANGED.format(changed)
    if not reason and not {FLUSHED, WARM} <= bytes_by_range.keys():
        reason = "ncu saw no kernel in the ranges"
    return FlushCheck(
        footprint_bytes=FOOTPRINT_BYTES, flushed_read_bytes=bytes_by_range.get(FLUSHED),
        warm_read_bytes=bytes_by_range.get(WARM), reason=reason,
    )  # fmt: skip


def _read(report: CaptureReport, failures: Path, crashed: Mapping[Range, str], history: Iterable[Cell]) -> _Pass:
    launches: Mapping[Range, tuple[Kernel, ...]] = {}
    blocker, reason = report.blocker, report.reason
    failed = {
        cell: ("crash", f"not called, because it took a measuring process down: {why}") for cell, why in crashed.items()
    }
    if not blocker:
        try:
            launches = read_kernels(report.table)
        except ValueError as changed:
            blocker, reason = "changed-units", CHANGED.format(changed)
        failed |= {cell: ("empty", why) for cell, why in _failures(failures)}
    compiled: dict[Range, list[Compiled]] = {}
    for cell in history:
        compiled.setdefault((cell.case, cell.profile), []).extend(cell.compiled)
    return _Pass(launches=launches, blocker=blocker, reason=reason, failed=failed, compiled=compiled)


def _failures(failures: Path) -> Iterator[tuple[Range, str]]:
    """What the program wrote that ncu ran: the cells whose call it could not show, and why."""
    if failures.is_file():
        for line in failures.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                case, profile, reason = map(str, json.loads(line))
            except (ValueError, TypeError, RecursionError):  # cut off, where the program was killed as it wrote
                continue
            yield (case, profile), reason
