"""The DRAM traffic that the profiler counted of a call, compared with the least that any call must move. Pure.

The rules allow for the profiler. Nsight Compute empties the caches before each kernel. So every kernel must read its
inputs from DRAM, and what one kernel leaves in the cache for the next is read again, unlike in an undisturbed call. It
stops counting when a kernel ends, so data that the cache has not written back by then is not counted.
"""

from dataclasses import dataclass

from lab.definition.plan import PlannedCase
from lab.evidence.record import Counters, Machine
from lab.verdict.call_counters import call_of
from lab.verdict.statistics import per_cent

LARGEST_EXCESS = 1.10  # times the least: above, a call moves more than it must
SMALLEST_SHARE = 0.95  # of the least: below, something must explain what is missing


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """Bytes that one call moves to and from DRAM, and the bounds that the instrument leaves them."""

    bytes: float
    fewest_bytes: float
    most_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DramTraffic:
    """DRAM traffic of one call, summed over its kernels.

    `state`: "reconciled", "excess", "cached-writes" (less than the least was counted, for writes are still in the
    L2) or "unreconciled" (these are not the counters of this work).
    """

    kernels: int
    read_bytes: float
    written_bytes: float
    ratio: float  # counted over least
    pending_bytes: float  # of the result: still in the cache when the count ended
    recounted_bytes: float  # at most: read again because the caches were emptied between kernels
    unseen_bytes: float  # at most: of what later kernels read, still in the cache when its kernel ended
    state: str
    reason: str

    @property
    def counted_bytes(self) -> float:
        return self.read_bytes + self.written_bytes

    @property
    def moved(self) -> Moved:
        """With the rest of the result, which is due to DRAM; uncertain only where a call has several kernels."""
        moved = self.counted_bytes + self.pending_bytes
        return Moved(bytes=moved, fewest_bytes=moved - self.recounted_bytes, most_bytes=moved + self.unseen_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class BytesRatio:
    """Bytes of the baseline over bytes of the subject, and the bounds that the instrument, or the sweeps, leave it."""

    ratio: float
    low: float
    high: float
    subject_bytes: float
    baseline_bytes: float

    @property
    def bounded(self) -> bool:
        """Whether a call of several kernels leaves the ratio open."""
        return self.low < self.high


def dram_traffic(case: PlannedCase, counters: Counters | None, machine: Machine) -> DramTraffic | None:
    """What was counted, against the case's least bytes; None where a kernel's DRAM bytes are unmeasured."""
    call = call_of(counters)
    if counters is None or counters.outcome != "measured" or call is None:
        return None
    read, written = call.dram_read_bytes, call.dram_written_bytes
    if read is None or written is None:
        return None
    pending = max(0.0, case.written_bytes - written)
    later = [kernel.dram_read_bytes or 0.0 for kernel in counters.kernels[1:]]
    recounted = min(sum(min(each, machine.l2_bytes) for each in later), max(0.0, read - case.read_bytes))
    state = _state(case, read, written, pending, machine.l2_bytes)
    return DramTraffic(
        kernels=call.launches,
        read_bytes=read,
        written_bytes=written,
        ratio=(read + written) / case.least_bytes,
        pending_bytes=pending,
        recounted_bytes=recounted,
        unseen_bytes=min(sum(later), len(later) * machine.l2_bytes),
        state=state,
        reason=_reason(state, case, read, written, pending) + _again(state, call.launches, recounted),
    )


def least_moved(case: PlannedCase) -> Moved:
    """What any implementation must move."""
    least = float(case.least_bytes)
    return Moved(bytes=least, fewest_bytes=least, most_bytes=least)


def traffic_ratio(subject: Moved, baseline: Moved) -> BytesRatio:
    """How many times the subject's bytes the baseline moves."""
    return BytesRatio(
        ratio=baseline.bytes / subject.bytes,
        low=baseline.fewest_bytes / subject.most_bytes,
        high=baseline.most_bytes / subject.fewest_bytes,
        subject_bytes=subject.bytes,
        baseline_bytes=baseline.bytes,
    )


def _state(case: PlannedCase, read: float, written: float, pending: float, l2_bytes: int) -> str:
    unread = read < SMALLEST_SHARE * case.read_bytes
    unwritten = written < SMALLEST_SHARE * case.written_bytes and pending > l2_bytes
    if unread or unwritten:
        return "unreconciled"
    # Reads in excess must not hide behind writes that were not counted.
    if read + written + pending > LARGEST_EXCESS * case.least_bytes:
        return "excess"
    return "reconciled" if read + written >= SMALLEST_SHARE * case.least_bytes else "cached-writes"


def _reason(state: str, case: PlannedCase, read: float, written: float, pending: float) -> str:
    moved = read + written + pending
    if state == "excess":
        more = f"moves {moved / case.least_bytes:.2f}× what it must, {_megabytes(moved - case.least_bytes)} MB more"
        remark = f", with {_megabytes(pending)} MB of its result that are still in the L2"
        return more + (remark if pending > (1 - SMALLEST_SHARE) * case.least_bytes else "")
    if state == "reconciled":
        return f"moves what it must: {(read + written) / case.least_bytes:.2f}× was counted"
    if state == "cached-writes":
        return f"reads what it must, and {_megabytes(pending)} MB of its result are still in the L2"
    if read < SMALLEST_SHARE * case.read_bytes:
        share = f"{per_cent(read / case.read_bytes)} of its inputs"
        return f"reads {share}, with nothing cached: these are not the counters of this work"
    return "leaves more of its result unwritten than the L2 holds: these are not the counters of this work"


def _again(state: str, kernels: int, recounted: float) -> str:
    """What the profiler adds of its own to an excess of several kernels."""
    if state != "excess" or kernels == 1:
        return ""
    return (
        f"; the profiler empties the caches before each of the {kernels} kernels, so that up to "
        f"{_megabytes(recounted)} MB are read again for that alone"
    )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.3g}" if count < 999.5e6 else f"{count / 1e6:.0f}"
