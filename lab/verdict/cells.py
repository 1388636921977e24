"""One case × profile summed up over all sweeps. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.definition.experiment import COLD, GRAPH
from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.evidence.record import Cell, Correctness, Counters, Machine, SweepStart
from lab.verdict.compare import fewest_calls, rounds_of, timing_of, void_samples
from lab.verdict.excluded_rounds import ExcludedRounds
from lab.verdict.roofline import bytes_per_second, cache_resident_bytes, near_launch_floor, why_impossible
from lab.verdict.statistics import Latency, latency
from lab.verdict.sustained import SustainedRate, sustained_rate
from lab.verdict.traffic import DramTraffic, dram_traffic

SCOPE = COLD  # the one that is meant where none is named
ALL_VOID = "every sample is void: the host could not launch the whole call before the GPU began it"
EAGER_PENALTY = 1.5  # an eager call that takes so many times its share of a graph waits for the host


@dataclass(frozen=True, kw_only=True, slots=True)
class CellResult:
    """One case × profile over all sweeps. `outcome` may also be not-planned or unfinished."""

    case: str
    profile: str
    outcome: str
    reason: str
    latencies: Mapping[str, Latency] = field(default_factory=dict)  # by scope
    void_shares: Mapping[str, float] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # scope → why it has no time
    enqueue_seconds: float = 0.0
    prepare_seconds: float = 0.0
    bytes_per_second: float | None = None  # None where launch-bound
    launch_bound: bool = False  # too near the time of an empty kernel for a bandwidth to mean anything
    host_bound: bool = False  # an eager caller waits for the host rather than for the GPU
    impossible: Mapping[str, str] = field(default_factory=dict)  # scope → why no honest time can be so short
    # Scope → bytes of the working set, where the time is so short that some of it must have stayed in the cache.
    cache_resident: Mapping[str, int] = field(default_factory=dict)
    correctness: tuple[Correctness, ...] = ()
    counters: Counters | None = None
    traffic: DramTraffic | None = None  # None where no DRAM bytes were counted
    sustained: SustainedRate | None = None  # None where no sweep was asked for it
    cells: tuple[Cell, ...] = ()

    @property
    def latency(self) -> Latency | None:
        """In the headline scope."""
        return self.latencies.get(SCOPE)

    @property
    def void_share(self) -> float:
        return self.void_shares.get(SCOPE, 0.0)


def cell_result(
    plan: PlannedExperiment,
    case: PlannedCase,
    profile: str,
    cells: tuple[Cell, ...],
    counters: Counters | None,
    sweeps: Sequence[SweepStart],
    spoiled: ExcludedRounds,
) -> CellResult:
    """`cells` and `counters`: what is on record of this case and profile."""
    if not case.included:
        return CellResult(case=case.name, profile=profile, outcome="not-planned", reason=f"needs {case.option}")
    if profile not in {p.name for p in plan.profiles_of(case)}:
        return CellResult(
            case=case.name, profile=profile, outcome="not-planned", reason=f"does not implement {case.op}"
        )
    outcome, reason = _outcome(cells, begun=bool(sweeps))
    if outcome != "measured":
        return CellResult(
            case=case.name, profile=profile, outcome=outcome, reason=reason, cells=cells, counters=counters,
            correctness=tuple(c.correctness for c in cells if c.correctness),
        )  # fmt: skip
    return _measured(case, profile, reason, cells, counters, sweeps, spoiled)


def launch_floor_seconds(sweeps: Sequence[SweepStart]) -> float:
    """The time of an empty kernel, over all sweeps."""
    return statistics.median_high(sweep.launch_floor_seconds for sweep in sweeps)


def _outcome(cells: Sequence[Cell], *, begun: bool) -> tuple[str, str]:
    """One outcome for all sweeps: a wrong result anywhere is wrong; one good sweep is a measurement."""
    for outcome in ("wrong", "measured", "crashed", "failed", "skipped"):
        if matching := [cell for cell in cells if cell.outcome == outcome]:
            if outcome == "measured" and len(matching) < len(cells):
                other = next(cell for cell in cells if cell.outcome != "measured")
                return (
                    outcome,
                    f"{len(cells) - len(matching)} of {len(cells)} sweeps {other.outcome}: {other.reason}",
                )
            return outcome, matching[0].reason
    return "unfinished", "the run was interrupted before this cell" if begun else "no run has measured it yet"


def _measured(
    case: PlannedCase,
    profile: str,
    reason: str,
    cells: tuple[Cell, ...],
    counters: Counters | None,
    sweeps: Sequence[SweepStart],
    spoiled: ExcludedRounds,
) -> CellResult:
    latencies, void_shares = _latencies(cells, spoiled)
    if not latencies:
        why = "every sweep was spoiled" if any(timing_of(cell, SCOPE) for cell in cells) else "no scope was timed"
        return CellResult(
            case=case.name, profile=profile, outcome="failed", cells=cells, counters=counters,
            reason="every sample was void" if void_shares.get(SCOPE) == 1 else why,
        )  # fmt: skip
    cold = latencies.get(SCOPE)
    enqueue = statistics.median_high([t.enqueue_seconds for cell in cells if (t := timing_of(cell, SCOPE))] or [0.0])
    floor = launch_floor_seconds(sweeps)
    launch_bound = cold is not None and near_launch_floor(cold.p50_seconds, floor)
    impossible = {
        scope: why_impossible(latency.p50_seconds, case, sweeps[0].machine, floor, scope, fewest_calls(cells, scope))
        for scope, latency in latencies.items()
    }
    return CellResult(
        case=case.name,
        profile=profile,
        outcome="measured",
        reason=reason,
        latencies=latencies,
        void_shares=void_shares,
        unmeasured=_unmeasured(cells, latencies, void_shares),
        enqueue_seconds=enqueue,
        prepare_seconds=max(cell.prepare_seconds for cell in cells),
        bytes_per_second=bytes_per_second(cold.p50_seconds, case) if cold and not launch_bound else None,
        launch_bound=launch_bound,
        host_bound=_host_bound(latencies, enqueue),
        impossible=impossible,
        cache_resident=_cache_resident(latencies, case, sweeps[0].machine, cells, impossible),
        correctness=tuple(cell.correctness for cell in cells if cell.correctness),
        counters=counters,
        traffic=dram_traffic(case, counters, sweeps[0].machine),
        sustained=sustained_rate(case, cells, latencies.get(GRAPH)),
        cells=cells,
    )


def _latencies(cells: Sequence[Cell], spoiled: ExcludedRounds) -> tuple[dict[str, Latency], dict[str, float]]:
    """(latency by scope, share of void samples by scope), spoiled rounds left out."""
    latencies: dict[str, Latency] = {}
    void_shares: dict[str, float] = {}
    for scope in dict.fromkeys(timing.scope for cell in cells for timing in cell.timings):
        kept = [rounds for cell in cells if (rounds := rounds_of(cell, scope, spoiled)) is not None]
        void = sum(void_samples(cell, scope, spoiled) for cell in cells)
        summary = latency(kept)
        if summary:
            latencies[scope] = summary
        if void or summary:
            void_shares[scope] = void / (void + (summary.samples if summary else 0))
    return latencies, void_shares


def _unmeasured(
    cells: Sequence[Cell], latencies: Mapping[str, Latency], void_shares: Mapping[str, float]
) -> dict[str, str]:
    """Why scopes have no time: as the worker says, or because no sample was valid, as where the launches of a whole
    model fill the GPU's queue."""
    said = {scope: why for cell in cells for scope, why in cell.unmeasured.items()}
    void = {scope: ALL_VOID for scope, share in void_shares.items() if share == 1}
    return {scope: why for scope, why in (said | void).items() if scope not in latencies}


def _cache_resident(
    latencies: Mapping[str, Latency],
    case: PlannedCase,
    machine: Machine,
    cells: Sequence[Cell],
    impossible: Mapping[str, str],
) -> dict[str, int]:
    """The working set by scope, of the possible times that the cache has shortened."""
    sizes = {
        scope: cache_resident_bytes(latency.p50_seconds, case, machine, scope, fewest_calls(cells, scope))
        for scope, latency in latencies.items()
        if not impossible[scope]
    }
    return {scope: size for scope, size in sizes.items() if size}


def _host_bound(latencies: Mapping[str, Latency], enqueue_seconds: float) -> bool:
    """Whether an eager caller's time is the host's rather than the GPU's; where none was timed, whether the host takes
    longer to enqueue a call than the GPU to compute it."""
    eager, graph = latencies.get("eager"), latencies.get("graph")
    if eager and graph:
        return eager.p50_seconds > EAGER_PENALTY * graph.p50_seconds
    cold = latencies.get(SCOPE)
    return cold is not None and cold.p50_seconds < enqueue_seconds
