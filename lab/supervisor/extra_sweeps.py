"""Which cells get extra sweeps: those that a compiler tunes again in each sweep, and those that are not yet precise."""

from collections.abc import Iterable, Sequence

from lab.definition.plan import Plan, PlannedCase, PlannedExperiment
from lab.evidence.record import Cell, Record
from lab.supervisor.quarantine import is_crash, quarantined
from lab.supervisor.run_state import Key
from lab.verdict.precision import imprecise_cases


def recompiled_cells(plan: Plan) -> list[Key]:
    """The cells that every extra sweep measures: both sides of claims in which a profile is compiled at run time, since
    times differ more between two compilations than between two processes with the same one.

    The lab's tests of itself get no extra sweeps.
    """
    if not plan.protocol.fresh_caches or plan.protocol.most_sweeps <= plan.protocol.sweeps:
        return []
    return [
        (experiment.name, case.name, name)
        for experiment in plan.experiments
        if not experiment.self_test
        for case in experiment.included_cases
        for name in _in_order(experiment, case, _compared(experiment, case, only_recompiled=True))
    ]


def extra_cells(plan: Plan, before: Sequence[Record], sweep: int) -> list[Key]:
    """The cells of an extra sweep: the recompiled ones, and both sides of claims at cases that are not precise enough
    yet. They depend only on the records before that sweep, so that a resumed run chooses the same."""
    imprecise = imprecise_cases(plan, before)
    wanted = set(recompiled_cells(plan))
    for experiment in plan.experiments:
        for case in experiment.included_cases:
            if (experiment.name, case.name) in imprecise:
                names = _compared(experiment, case, only_recompiled=False)
                wanted |= {(experiment.name, case.name, name) for name in names}
    crashed = [record for record in before if isinstance(record, Cell) and is_crash(record)]
    return [key for key in all_cells(plan) if key in wanted and not _is_quarantined(plan, crashed, key)]


def all_cells(plan: Plan) -> list[Key]:
    return [
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
    ]


def _compared(experiment: PlannedExperiment, case: PlannedCase, *, only_recompiled: bool) -> set[str]:
    """The profiles of the claims that compare times at a case, and the control; none where there is no such claim."""
    recompiled = {profile.name for profile in experiment.profiles if profile.recompiles}
    sides = [{claim.subject, claim.baseline} for claim in experiment.compared_at(case)]
    names = set().union(*(pair for pair in sides if not only_recompiled or pair & recompiled))
    return names | {case.control} if names else names


def _in_order(experiment: PlannedExperiment, case: PlannedCase, names: Iterable[str]) -> list[str]:
    wanted = set(names)
    return [profile.name for profile in experiment.profiles_of(case) if profile.name in wanted]


def _is_quarantined(plan: Plan, crashed: Sequence[Cell], key: Key) -> bool:
    return bool(quarantined(crashed, key[0], key[2], plan.protocol.crashes))
