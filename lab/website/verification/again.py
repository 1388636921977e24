"""Published times and speed-ups against a second reckoning from the raw samples; see verification.statistics."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedClaim
from lab.evidence.record import Cell, Control, Timing
from lab.verdict.results import ExperimentResult
from lab.website.figure import pointer
from lab.website.verification.files import Difference
from lab.website.verification.statistics import (
    Sweep,
    centre_and_half_width,
    interval,
    p50_and_p95,
    smallest_step,
)

FEWEST_ROUNDS = 4  # of a sweep that count; fewer tell nothing, unless fewer were planned
Timed = Cell | Control
ROUNDING = 2e-6  # seven digits are published, and the second reckoning rounds otherwise


def reckoned_again(result: ExperimentResult, data: Mapping[str, Any], place: str) -> Iterator[Difference]:
    """Every p50, p95 and speed-up with its interval that differs from what is reckoned here."""
    for case, profile in result.plan.cells():
        held = result.cells[case.name, profile.name].cells
        for scope, said in data["cells"][case.name][profile.name].get("scopes", {}).items():
            p50, p95 = p50_and_p95([alone[0] for cell in held if (alone := _shared(result, [cell], scope))])
            at: tuple[str, ...] = ("cells", case.name, profile.name, "scopes", scope)
            yield from _compare(said, {"p50_seconds": p50, "p95_seconds": p95}, place, at)
    steps = {scope: _clock_step(result, scope) for scope in result.plan.scopes}
    for claim in result.plan.claims:
        for case_name, said in data["claims"][claim.name]["cases"].items():
            if claim.measure == "speedup" and "ratio" in said:
                ratio, low, high = _speedup(result, claim, case_name, steps[claim.scope])
                at = ("claims", claim.name, "cases", case_name)
                yield from _compare(said, {"ratio": ratio, "low": low, "high": high}, place, at)
                yield from _at_odds(said, claim, place, at)


def _speedup(
    result: ExperimentResult, claim: PlannedClaim, case: str, step_seconds: float
) -> tuple[float, float, float]:
    baseline, subject = (result.cells[case, name].cells for name in (claim.baseline, claim.subject))
    held = result.controls.get(case, ())
    control = (0.0, 0.0)
    if held:
        slow, fast, step = _paired(result, result.cells[case, held[0].profile].cells, held, claim.scope, step_seconds)
        if len(slow) > 1:
            control = centre_and_half_width(slow, fast, step)
    one_draw = claim.baseline in result.drawn_once or claim.subject in result.drawn_once
    return interval(*_paired(result, baseline, subject, claim.scope, step_seconds), control, one_draw)


def _paired(
    result: ExperimentResult, baseline: Sequence[Timed], subject: Sequence[Timed], scope: str, step_seconds: float
) -> tuple[list[Sweep], list[Sweep], float]:
    """The sweeps of both that one process timed, and the clock's step in seconds a call."""
    of_process = {(timed.sweep, timed.process): timed for timed in subject}
    slow: list[Sweep] = []
    fast: list[Sweep] = []
    for timed in baseline:
        other = of_process.get((timed.sweep, timed.process))
        both = _shared(result, [timed, other], scope) if other else None
        if both:
            slow.append(both[0])
            fast.append(both[1])
    calls = [t.calls_per_sample for timed in (*baseline, *subject) if (t := _timing(timed, scope))]
    return slow, fast, step_seconds / min(calls, default=1)


def _shared(result: ExperimentResult, cells: Sequence[Timed], scope: str) -> list[Sweep] | None:
    """Of cells of one process the rounds that were not left out and in which each has a sample; None if too few."""
    timings = [_timing(cell, scope) for cell in cells]
    if not all(timings):
        return None
    rounds = [timing.rounds for timing in timings if timing]
    if len({len(blocks) for blocks in rounds}) != 1:
        return None
    first = cells[0]
    out = result.spoiled.rounds(first.sweep, first.process, first.experiment, first.case)
    planned = range(len(rounds[0]))
    kept = [n for n in planned if n not in out and all(blocks[n] for blocks in rounds)]
    if len(kept) < min(FEWEST_ROUNDS, len(planned)):
        return None
    return [[blocks[n] for n in kept] for blocks in rounds]


def _timing(cell: Timed, scope: str) -> Timing | None:
    return next((timing for timing in cell.timings if timing.scope == scope), None)


def _clock_step(result: ExperimentResult, scope: str) -> float:
    timings = (_timing(cell, scope) for held in result.cells.values() for cell in held.cells)
    steps = (smallest_step([timing.rounds]) * timing.calls_per_sample for timing in timings if timing)
    return min((step for step in steps if step), default=0.0)


def _compare(
    said: Mapping[str, Any], again: Mapping[str, float | None], place: str, at: Iterable[str]
) -> Iterator[Difference]:
    for name, value in again.items():
        published = said.get(name)
        near = published is None if value is None else published and math.isclose(published, value, rel_tol=ROUNDING)
        if not near:
            where = f"{place}#{pointer(*at, name)}"
            yield Difference(where, f"published is {published}, a second reckoning gives {value}")


def _at_odds(said: Mapping[str, Any], claim: PlannedClaim, place: str, at: Iterable[str]) -> Iterator[Difference]:
    """A verdict that its own interval contradicts, whatever the rules are in detail."""
    supported = said["status"] == "supported" and said["low"] < claim.threshold * (1 - ROUNDING)
    refuted = said["status"] == "refuted" and said["high"] > claim.threshold * (1 + ROUNDING)
    if supported or refuted:
        told = f"{said['status']}, with an interval of {said['low']} to {said['high']} against {claim.threshold}"
        yield Difference(f"{place}#{pointer(*at, 'status')}", f"is {told}")
