"""What the hardware allows: the shortest possible time, and how much of the memory's peak a cell attained."""

from lab.definition.plan import PlannedCase
from lab.evidence.record import Machine

COLD, GRAPH = "device_cold", "graph"

PHYSICS_MARGIN = 0.98
EMPTY_MARGIN = 0.8  # of the launch floor; a call that launches nothing takes a third of it
NEAR_FLOOR = 3.0  # times the launch floor: below, a time tells of the launch and not of the memory


def shortest_seconds(case: PlannedCase, machine: Machine, scope: str = COLD, calls_per_sample: int = 1) -> float:
    """Time to read from DRAM, at the memory's peak, what cannot be in the cache; 0 where nothing is known.

    Only reads count: writes may stay in the cache. After a cold start all inputs come from memory; a graph goes
    round `calls_per_sample` sets of inputs, of which the cache can hold its own size at most; elsewhere the cache
    may hold everything.
    """
    if machine.device != "cuda" or machine.peak_bytes_per_second <= 0:
        return 0.0
    cached_bytes = {COLD: 0.0, GRAPH: machine.l2_bytes / calls_per_sample}.get(scope, float(case.read_bytes))
    return max(0.0, case.read_bytes - cached_bytes) / machine.peak_bytes_per_second


def why_impossible(
    seconds: float, case: PlannedCase, machine: Machine, floor_seconds: float, scope: str = COLD, calls: int = 1
) -> str:
    """Why no honest GPU time of a call can be so short in this scope, or nothing."""
    if machine.device != "cuda":
        return ""
    if seconds < PHYSICS_MARGIN * shortest_seconds(case, machine, scope, calls):
        return "faster than the memory can deliver its inputs"
    # Inside a graph a kernel has no launch of its own.
    if scope != GRAPH and seconds < EMPTY_MARGIN * floor_seconds:
        return "faster than a kernel that does nothing: its work was not on the stream that was timed"
    return ""


def bytes_per_second(seconds: float, case: PlannedCase) -> float:
    """Least traffic over time: the same numerator for every profile."""
    return case.least_bytes / seconds


def near_launch_floor(seconds: float, floor_seconds: float) -> bool:
    """Too close to the time of an empty kernel for a bandwidth to mean anything."""
    return seconds < NEAR_FLOOR * floor_seconds
