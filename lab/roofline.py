"""What the hardware allows: the shortest possible time, and how much of the memory's peak a cell attained."""

from lab.plan import PlannedCase
from lab.record import Machine

PHYSICS_MARGIN = 0.98
EMPTY_MARGIN = 0.8  # of the launch floor; a call that launches nothing takes a third of it
NEAR_FLOOR = 3.0  # times the launch floor: below, a time tells of the launch and not of the memory


def shortest_seconds(case: PlannedCase, machine: Machine) -> float:
    """Time to read the inputs once at the memory's peak, from DRAM; 0 where the peak is unknown.

    Only reads count: after a cold start they must come from memory, while writes may stay in the cache.
    """
    if machine.device != "cuda" or machine.peak_bytes_per_second <= 0:
        return 0.0
    return case.read_bytes / machine.peak_bytes_per_second


def why_impossible(seconds: float, case: PlannedCase, machine: Machine, floor_seconds: float) -> str:
    """Why no honest GPU time can be so short, or nothing."""
    if machine.device != "cuda":
        return ""
    if seconds < PHYSICS_MARGIN * shortest_seconds(case, machine):
        return "faster than the memory can deliver its inputs"
    if seconds < EMPTY_MARGIN * floor_seconds:
        return "faster than a kernel that does nothing: its work was not on the stream that was timed"
    return ""


def bytes_per_second(seconds: float, case: PlannedCase) -> float:
    """Least traffic over time: the same numerator for every profile."""
    return case.least_bytes / seconds


def near_launch_floor(seconds: float, floor_seconds: float) -> bool:
    """Too close to the time of an empty kernel for a bandwidth to mean anything."""
    return seconds < NEAR_FLOOR * floor_seconds
