"""Which cases need another sweep. Looks at the width of intervals alone, never at where they lie. Pure."""

from collections.abc import Sequence

from lab.definition.plan import Plan, PlannedClaim, PlannedExperiment
from lab.evidence.record import Canary, Cell, Record, Watch
from lab.verdict.compare import speedup_between
from lab.verdict.spoiled import Spoiled, find


def imprecise_cases(plan: Plan, records: Sequence[Record]) -> set[tuple[str, str]]:
    """(experiment, case) where a claim's interval is wider than the plan wants it.

    The lab's tests of itself are left as they are: there the width is a result.
    """
    spoiled = find(
        [record for record in records if isinstance(record, Watch)],
        [record for record in records if isinstance(record, Canary)],
    )
    cells: dict[tuple[str, str, str], list[Cell]] = {}
    for record in records:
        if isinstance(record, Cell):
            cells.setdefault((record.experiment, record.case, record.profile), []).append(record)
    return {
        (experiment.name, case.name)
        for experiment in plan.experiments
        if not experiment.self_test
        for case in experiment.included_cases
        if any(
            _half_width(experiment, claim, case.name, cells, spoiled) > plan.protocol.target_half_width
            for claim in experiment.claims
            if case.name in claim.cases and claim.measure == "speedup"
        )
    }


def _half_width(
    experiment: PlannedExperiment,
    claim: PlannedClaim,
    case: str,
    cells: dict[tuple[str, str, str], list[Cell]],
    spoiled: Spoiled,
) -> float:
    """Of a claim's interval at a case; 0 where there are not two sides to compare, which no sweep would mend."""
    sides = [cells.get((experiment.name, case, profile), []) for profile in (claim.baseline, claim.subject)]
    found = speedup_between(sides[0], sides[1], claim.scope, spoiled)
    return found.half_width if found else 0.0
