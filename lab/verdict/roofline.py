"""What the hardware allows: the shortest possible time, and whether a cell's bandwidth tells of the memory. Pure.

The limits here are hard: no honest time can be shorter. They rest on the largest clocks that the machine itself
tells, not on what its ceilings were measured to be, nor on a datasheet where the machine tells more.
"""

import math

from lab.definition.experiment import COLD, GRAPH
from lab.definition.plan import PlannedCase
from lab.evidence.record import Machine
from lab.verdict.datasheet import DENSE_FLOPS_PER_CLOCK, MATRIX_KINDS, datasheet

PHYSICS_MARGIN = 0.98
EMPTY_MARGIN = 0.8  # of the launch floor; a call that launches nothing takes a third of it
NEAR_FLOOR = 3.0  # times the launch floor: below, a time tells of the launch and not of the memory


def memory_limit_seconds(case: PlannedCase, machine: Machine, scope: str = COLD, calls: int = 1) -> float:
    """Time in which the memory, at its peak, moves what the cache cannot hold; 0 where nothing is known.

    After a cold start all inputs come from memory, and what is written may stay in the cache, as far as it has room.
    In other scopes it may hold its own size of either when the clock starts or stops; a graph goes round `calls` sets
    of inputs and outputs, over which that is spread.
    """
    peak = peak_bytes_per_second(machine)
    cache_bytes = machine.l2_bytes or math.inf
    if not peak:
        return 0.0
    if scope == COLD:
        moved = case.read_bytes + max(0.0, case.written_bytes - cache_bytes)
    else:
        moved = sum(max(0.0, size - cache_bytes / calls) for size in (case.read_bytes, case.written_bytes))
    return moved / peak


def matrix_limit_seconds(case: PlannedCase, machine: Machine) -> float:
    """Time in which the matrix units, at the largest clock, do the case's operations; 0 where nothing is known.

    In the type of which they do most: a product may take smaller numbers than its inputs and results have, as
    quantised ones do, where the tolerance allows it.
    """
    rates = DENSE_FLOPS_PER_CLOCK.get(machine.compute_capability, {})
    per_clock = max(rates.values(), default=0.0) if case.dtype in MATRIX_KINDS else 0.0
    rate = machine.multiprocessors * per_clock * machine.sm_clock_hertz
    return case.flops / rate if rate else 0.0


def why_impossible(
    seconds: float, case: PlannedCase, machine: Machine, floor_seconds: float, scope: str = COLD, calls: int = 1
) -> str:
    """Why no honest GPU time of a call can be so short in this scope, or nothing."""
    if machine.device != "cuda":
        return ""
    if seconds < PHYSICS_MARGIN * memory_limit_seconds(case, machine, scope, calls):
        return "faster than physics: the memory cannot deliver its inputs, nor take its results, so soon"
    if seconds < PHYSICS_MARGIN * matrix_limit_seconds(case, machine):
        return "faster than physics: the matrix units cannot do its operations so soon"
    # Inside a graph a kernel has no launch of its own.
    if scope != GRAPH and seconds < EMPTY_MARGIN * floor_seconds:
        return "faster than a kernel that does nothing: its work was not on the stream that was timed"
    return ""


def cache_resident_bytes(seconds: float, case: PlannedCase, machine: Machine, scope: str = COLD, calls: int = 1) -> int:
    """The working set of a time that is too short for all of its bytes to have crossed the memory; else 0.

    It is what the call, or all calls of a graph, read and write: the cache held some of it.
    """
    peak = peak_bytes_per_second(machine)
    if not peak or seconds >= PHYSICS_MARGIN * case.least_bytes / peak:
        return 0
    return case.least_bytes * (calls if scope == GRAPH else 1)


def peak_bytes_per_second(machine: Machine) -> float:
    """Of the memory's clock and bus; from the datasheet where the machine does not tell them, else 0."""
    if machine.device != "cuda":
        return 0.0
    sheet = datasheet(machine.gpu)
    return machine.peak_bytes_per_second or (sheet.bytes_per_second if sheet else 0.0)


def bytes_per_second(seconds: float, case: PlannedCase) -> float:
    """Least traffic over time: the same numerator for every profile."""
    return case.least_bytes / seconds


def near_launch_floor(seconds: float, floor_seconds: float) -> bool:
    """Too close to the time of an empty kernel for a bandwidth to mean anything."""
    return seconds < NEAR_FLOOR * floor_seconds
