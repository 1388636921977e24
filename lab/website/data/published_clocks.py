"""The same comparison by other clocks, as data: a verdict depends on what the clock covers."""

from collections.abc import Mapping
from typing import Any

from lab.definition.plan import PlannedClaim
from lab.evidence.record import Reading
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.cells import SCOPE
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import Speedup
from lab.website.data.rounding import rounded

DIRTY = "device_dirty"
APART = 0.01  # of a ratio: more than a page's digits hide
INSTRUMENTS = {"dirty_flush": DIRTY_FLUSH, "do_bench": DO_BENCH, "nvbench": NVBENCH}


def clocks_data(result: ExperimentResult, run: RunResult) -> dict[str, dict[str, Any]]:
    """By case and claim in device_cold, what each other clock says of the same pair; only what any of them has timed.

    `device_dirty` is a ratio with its interval, of the run's own samples; those of other instruments are of one pass.
    `turned`: the clocks by which the ratio lies on the other side of the claim's threshold than by device_cold.
    """
    readings = {
        (each.case, each.profile, each.instrument): each.seconds
        for each in run.records
        if isinstance(each, Reading) and each.experiment == result.plan.name and each.seconds
    }
    found: dict[str, dict[str, Any]] = {}
    for held in result.claims:
        claim = held.claim
        if claim.measure == "speedup" and claim.scope == SCOPE:
            for case, verdict in held.verdicts.items():
                others = _others(result, readings, claim, case)
                if verdict.speedup and others:
                    turned = [name for name, each in others.items() if _turned(each, verdict.speedup, claim)]
                    found.setdefault(case, {})[claim.name] = others | {"turned": turned}
    return found


def quotient(result: ExperimentResult, case: str, claim: PlannedClaim, speedup: Speedup | None) -> dict[str, float]:
    """The quotient of the two medians that a page shows, where a reader would see that it is not the ratio.

    A ratio is the mean over all sweeps, of rounds that were timed one after the other. A median of medians leaves out
    the sweeps that were slower or faster than most.
    """
    return _quotient(result, case, claim.subject, claim.baseline, claim.scope, speedup)


def pair_quotient(
    result: ExperimentResult, case: str, subject: str, baseline: str, speedup: Speedup | None
) -> dict[str, float]:
    """The same of any two profiles, in device_cold."""
    return _quotient(result, case, subject, baseline, SCOPE, speedup)


def _quotient(
    result: ExperimentResult, case: str, subject: str, baseline: str, scope: str, speedup: Speedup | None
) -> dict[str, float]:
    if speedup is None:
        return {}
    sides = [result.cells[case, name].latencies.get(scope) for name in (baseline, subject)]
    if sides[0] is None or sides[1] is None:
        return {}
    found = sides[0].p50_seconds / sides[1].p50_seconds
    return {"quotient_of_medians": rounded(found)} if abs(found / speedup.ratio - 1) > APART else {}


def _others(
    result: ExperimentResult, readings: Mapping[tuple[str, str, str], float], claim: PlannedClaim, case: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if DIRTY in result.plan.scopes and (dirty := result.compare(case, claim.subject, claim.baseline, DIRTY)):
        found[DIRTY] = {"ratio": rounded(dirty.ratio), "low": rounded(dirty.low), "high": rounded(dirty.high)}
    for name, instrument in INSTRUMENTS.items():
        sides = [readings.get((case, profile, instrument)) for profile in (claim.baseline, claim.subject)]
        if sides[0] and sides[1]:
            found[name] = {"ratio": rounded(sides[0] / sides[1])}
    return found


def _turned(other: Mapping[str, Any], ours: Speedup, claim: PlannedClaim) -> bool:
    return bool((other["ratio"] >= claim.threshold) != (ours.ratio >= claim.threshold))
