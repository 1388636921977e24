"""Which claims need another sweep at a case: those near a threshold, or whose ratio is not precise. Pure.

Stopping as soon as a result looks clear makes more errors than the rules state. So a claim stops early at a case only
where its p-value is far below the level at which the judge weighs it; all others get every sweep they may have.
`lab simulate` counts the errors (lab/verdict/simulation.py).
"""

from collections.abc import Sequence

from lab.definition.plan import Plan, PlannedCase, PlannedClaim, PlannedExperiment
from lab.evidence.record import Canary, Cell, Control, Record, Watch
from lab.verdict.compare import Timed, speedup_between
from lab.verdict.excluded_rounds import ExcludedRounds, excluded_rounds
from lab.verdict.statistics import CONFIDENCE, Speedup, p_below, p_reaches
from lab.verdict.widening import widened

EARLY = 10  # a claim may stop early at this part of the level at which a single claim is weighed, or at a smaller
Places = dict[tuple[str, str, str], list[Timed]]  # by experiment, case and profile


def imprecise_claims(plan: Plan, records: Sequence[Record]) -> set[tuple[str, str, str]]:
    """(experiment, case, claim) where the claim is not clear of its threshold, or its ratio less precise than the plan
    wants.

    The lab's tests of itself are left as they are: there the width is a result.
    """
    spoiled = excluded_rounds(
        [record for record in records if isinstance(record, Watch)],
        [record for record in records if isinstance(record, Canary)],
    )
    cells: Places = {}
    controls: Places = {}
    for record in records:
        if isinstance(record, Cell | Control):
            group = cells if isinstance(record, Cell) else controls
            group.setdefault((record.experiment, record.case, record.profile), []).append(record)
    return {
        (experiment.name, case.name, claim.name)
        for experiment in plan.experiments
        if not experiment.self_test
        for family in [family_of(experiment)]
        for case in experiment.included_cases
        for claim in experiment.compared_at(case)
        if (speedup := _speedup(experiment.name, claim, case, (cells, controls), spoiled))
        and wants_another(speedup, claim.threshold, family, plan.protocol.target_half_width)
    }


def wants_another(speedup: Speedup, threshold: float, family: int, target_half_width: float) -> bool:
    """Whether one more sweep is worth its time, of a claim among so many comparisons."""
    level = (1 - CONFIDENCE) / 2 / max(EARLY, family)
    clear = min(p_reaches(speedup, threshold), p_below(speedup, threshold)) <= level
    return not clear or speedup.half_width > target_half_width


def family_of(experiment: PlannedExperiment) -> int:
    """How many speed-ups of this run are weighed together."""
    included = {case.name for case in experiment.included_cases}
    return sum(len(included.intersection(claim.cases)) for claim in experiment.claims if claim.measure == "speedup")


def _speedup(
    experiment: str,
    claim: PlannedClaim,
    case: PlannedCase,
    measured: tuple[Places, Places],
    spoiled: ExcludedRounds,
) -> Speedup | None:
    """A claim's speed-up with its interval, leaving aside what no further sweep would mend: that one choice of an
    autotuner served all. None where there are not two sides to compare."""
    cells, controls = measured
    baseline, subject = (cells.get((experiment, case.name, name), []) for name in (claim.baseline, claim.subject))
    speedup = speedup_between(baseline, subject, claim.scope, spoiled)
    if speedup is None:
        return None
    place = (experiment, case.name, case.control)
    return widened(speedup, speedup_between(cells.get(place, []), controls.get(place, []), claim.scope, spoiled))
