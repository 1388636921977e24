"""Which rounds are left out, for all profiles alike. Decided without looking at any profile's times. Pure."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.evidence.record import Canary, Round, Watch, slowdown
from lab.verdict.statistics import per_cent

SLOWING_POLICIES = ("thermal", "board", "reliability")
LARGEST_VIOLATION_SHARE = 0.02
LOWEST_CLOCK_SHARE = 0.90  # of the median clock of the process's rounds
LARGEST_CANARY_DRIFT = 0.02  # from the median of its process
LARGEST_DROPPED_SHARE = 0.20  # of a case's rounds, or of a side's samples: with more left out there is no verdict
POWER_CAP = 0x4
POWER_CAPPED_TIME_SHARE = 0.05  # of a round

Process = tuple[int, str]  # sweep, process
Place = tuple[int, str, str, str]  # sweep, process, experiment, case


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcludedRounds:
    """Reasons by round of a place: what one process measured of one case."""

    by_round: Mapping[Place, Mapping[int, str]] = field(default_factory=dict)
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by experiment and case
    # By experiment and case, where NVML told of any: the share of its rounds that reached the power limit. No fault.
    capped_shares: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def rounds(self, sweep: int, process: str, experiment: str, case: str) -> frozenset[int]:
        return frozenset(self.by_round.get((sweep, process, experiment, case), ()))

    def reasons(self, watch: Watch) -> Mapping[int, str]:
        """Of the rounds of a case in one process that are left out."""
        return self.by_round.get(_place(watch), {})

    def share(self, experiment: str, case: str) -> float:
        """Share of a case's rounds that is left out, over all sweeps."""
        return self.shares.get((experiment, case), 0.0)

    def power_limited(self, experiment: str, case: str) -> bool:
        """Whether a board reached its power limit in any round of a case, or nobody knows."""
        return self.capped_shares.get((experiment, case), 1.0) > 0


NOTHING = ExcludedRounds()


def excluded_rounds(watches: Sequence[Watch], canaries: Iterable[Canary]) -> ExcludedRounds:
    """What to leave out, from what the supervisor saw and from the canaries."""
    clocks = _median_clocks(watches)
    disturbed = _disturbed(watches, canaries)
    by_round: dict[Place, dict[int, str]] = {}
    for watch in watches:
        beside = disturbed.get(_place(watch), "")
        for number, seen in enumerate(watch.rounds):
            if reason := beside or _reason(seen, clocks.get((watch.sweep, watch.process))):
                by_round.setdefault(_place(watch), {})[number] = reason
    return ExcludedRounds(
        by_round=by_round,
        shares=_shares({_place(watch): len(watch.rounds) for watch in watches}, by_round),
        capped_shares=_capped_shares(watches),
    )


def _capped_shares(watches: Iterable[Watch]) -> dict[tuple[str, str], float]:
    known: dict[tuple[str, str], list[bool]] = {}
    for watch in watches:
        told = [_capped(seen) for seen in watch.rounds if seen.reasons is not None or "power" in seen.violation_seconds]
        known.setdefault((watch.experiment, watch.case), []).extend(told)
    return {case: statistics.fmean(told) for case, told in known.items() if told}


def _shares(
    rounds_seen: Mapping[Place, int], by_round: Mapping[Place, Mapping[int, str]]
) -> dict[tuple[str, str], float]:
    """Share of the rounds left out, by experiment and case: of all places in one go, for a run may have very many."""
    seen: Counter[tuple[str, str]] = Counter()
    lost: Counter[tuple[str, str]] = Counter()
    for place, rounds in rounds_seen.items():
        seen[place[2:]] += rounds
        lost[place[2:]] += len(by_round.get(place, ()))
    return {case: lost[case] / rounds for case, rounds in seen.items() if rounds}


def _reason(seen: Round, usual_hertz: float | None) -> str:
    """What spoiled a round, or nothing."""
    if reason := slowdown(seen.reasons):
        return reason
    slowed = sum(seen.violation_seconds.get(policy, 0.0) for policy in SLOWING_POLICIES)
    if seen.seconds > 0 and slowed / seen.seconds > LARGEST_VIOLATION_SHARE:
        return "clock reduced by heat, board limit or reliability"
    if seen.foreign_processes:
        return "another process on the GPU"
    slow = seen.spin_hertz is not None and usual_hertz and seen.spin_hertz < LOWEST_CLOCK_SHARE * usual_hertz
    if slow and not _capped(seen):  # at the power limit a low clock is what the case itself costs
        return "clock far below its process's median"
    return ""


def _capped(seen: Round) -> bool:
    power = seen.violation_seconds.get("power", 0.0)
    return bool((seen.reasons or 0) & POWER_CAP) or (
        seen.seconds > 0 and power / seen.seconds > POWER_CAPPED_TIME_SHARE
    )


def _median_clocks(watches: Iterable[Watch]) -> dict[Process, float]:
    clocks: dict[Process, list[float]] = {}
    for watch in watches:
        known = [seen.spin_hertz for seen in watch.rounds if seen.spin_hertz is not None]
        clocks.setdefault((watch.sweep, watch.process), []).extend(known)
    return {process: statistics.median(hertz) for process, hertz in clocks.items() if hertz}


def _disturbed(watches: Iterable[Watch], canaries: Iterable[Canary]) -> dict[Place, str]:
    """The cases measured next to a canary that deviates from the others of its process.

    A canary is measured before the first case and after each; one that the host launched too late has no record.
    Watches come in the order in which the cases were timed.
    """
    timed: dict[Process, list[Watch]] = {}
    for watch in watches:
        timed.setdefault((watch.sweep, watch.process), []).append(watch)
    return {
        _place(watch): f"a canary beside it was off by {per_cent(off, 1)}"
        for canary, off in deviations(canaries)
        if off > LARGEST_CANARY_DRIFT
        for watch in _beside(canary, timed.get(_process(canary), []))
    }


def _beside(canary: Canary, timed: Sequence[Watch]) -> Sequence[Watch]:
    """The case before the canary, and the one after it."""
    if not canary.after:
        return timed[:1]
    for number, watch in enumerate(timed):
        # A canary of an older record does not name its experiment.
        if watch.case == canary.after and canary.experiment in ("", watch.experiment):
            return timed[number : number + 2]
    return ()


def deviations(canaries: Iterable[Canary]) -> list[tuple[Canary, float]]:
    """Each canary, process by process, and how far it was from the median of its process: 0.01 is one per cent."""
    by_process: dict[Process, list[Canary]] = {}
    for canary in canaries:
        by_process.setdefault(_process(canary), []).append(canary)
    deviating = []
    for canaries_of_process in by_process.values():
        copy = statistics.median(canary.copy_seconds for canary in canaries_of_process)
        clock = statistics.median(canary.spin_hertz for canary in canaries_of_process)
        for canary in canaries_of_process:
            off = max(abs(canary.copy_seconds / copy - 1), abs(canary.spin_hertz / clock - 1))
            deviating.append((canary, off))
    return deviating


def _process(canary: Canary) -> Process:
    return canary.sweep, canary.process


def _place(watch: Watch) -> Place:
    return watch.sweep, watch.process, watch.experiment, watch.case
