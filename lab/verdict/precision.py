"""Which claims need another sweep at a case: those near a threshold, whose ratio is not precise, or of which too many
rounds were spoiled for a verdict. Pure.

Stopping as soon as a result looks clear makes more errors than the rules state. So a claim stops early at a case only
where it is clear by a far wider interval than the one by which the judge decides; all others get every sweep they may
have. `lab simulate` counts the errors (lab/verdict/simulation.py).
"""

from collections.abc import Sequence

from lab.definition.plan import Plan, PlannedCase, PlannedClaim
from lab.evidence.record import Canary, Cell, Control, Record, Watch
from lab.verdict.compare import Timed, speedup_between
from lab.verdict.excluded_rounds import LARGEST_DROPPED_SHARE, ExcludedRounds, excluded_rounds
from lab.verdict.statistics import DECIDING_CONFIDENCE, Speedup
from lab.verdict.widening import session_floor, widened

EARLY_CONFIDENCE = 1 - (1 - DECIDING_CONFIDENCE) / 10  # of the interval by which a claim may stop early
Places = dict[tuple[str, str, str], list[Timed]]  # by experiment, case and profile


def imprecise_claims(plan: Plan, records: Sequence[Record]) -> set[tuple[str, str, str]]:
    """(experiment, case, claim) where the claim is not clear of its threshold, its ratio less precise than the plan
    wants, or too many of the case's rounds were left out.

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
        for case in experiment.included_cases
        for claim in experiment.compared_at(case)
        if (speedup := _speedup(experiment.name, claim, case, (cells, controls), spoiled))
        and (
            wants_another(speedup, claim.threshold, plan.protocol.target_half_width)
            or spoiled.share(experiment.name, case.name) > LARGEST_DROPPED_SHARE
        )
    }


def wants_another(speedup: Speedup, threshold: float, target_half_width: float) -> bool:
    """Whether one more sweep is worth its time."""
    low, high = speedup.interval(EARLY_CONFIDENCE)
    clear = low >= threshold or high < threshold
    return not clear or speedup.half_width > target_half_width


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
    control = speedup_between(cells.get(place, []), controls.get(place, []), claim.scope, spoiled)
    floor = session_floor(case, spoiled.power_limited(experiment, case.name))
    return widened(speedup, floor, control)
