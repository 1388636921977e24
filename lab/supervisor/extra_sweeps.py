"""Which cells get extra sweeps: those that a compiler tunes again in each sweep, and those of claims that are not yet
precise."""

from collections.abc import Sequence

from lab.definition.plan import Plan, PlannedCase, PlannedClaim, PlannedExperiment
from lab.evidence.record import Cell, Record
from lab.supervisor.quarantine import is_crash, quarantined
from lab.supervisor.run_state import Key
from lab.verdict.precision import imprecise_claims


def recompiled_cells(plan: Plan) -> list[Key]:
    """The cells that every extra sweep measures: both sides of claims in which a profile is compiled at run time, since
    times differ more between two compilations than between two processes with the same one.

    The lab's tests of itself get no extra sweeps.
    """
    if not plan.protocol.fresh_caches or plan.protocol.most_sweeps <= plan.protocol.sweeps:
        return []
    wanted: set[Key] = set()
    for experiment in plan.experiments:
        recompiled = {profile.name for profile in experiment.profiles if profile.recompiles}
        for case in experiment.included_cases if not experiment.self_test else ():
            for claim in experiment.compared_at(case):
                if not recompiled.isdisjoint((claim.subject, claim.baseline)):
                    wanted |= _cells(experiment, case, claim)
    return [key for key in all_cells(plan) if key in wanted]


def extra_cells(plan: Plan, before: Sequence[Record]) -> list[Key]:
    """The cells of an extra sweep: the recompiled ones, and those of claims that are not precise enough yet at a case.
    They depend only on the records before that sweep, so that a resumed run chooses the same."""
    imprecise = imprecise_claims(plan, before)
    wanted = set(recompiled_cells(plan))
    for experiment in plan.experiments:
        for case in experiment.included_cases:
            for claim in experiment.compared_at(case):
                if (experiment.name, case.name, claim.name) in imprecise:
                    wanted |= _cells(experiment, case, claim)
    crashed = [record for record in before if isinstance(record, Cell) and is_crash(record)]
    return [key for key in all_cells(plan) if key in wanted and not _is_quarantined(plan, crashed, key)]


def another_sweep(lacking: Sequence[Key]) -> str:
    """What an extra sweep measures: of a case often a claim's two sides and its control alone."""
    cells, cases = len(lacking), len({key[:2] for key in lacking})
    return f"{cells} cells of {cases} case{'s' * (cases > 1)} are measured in another sweep"


def all_cells(plan: Plan) -> list[Key]:
    return [
        (experiment.name, case.name, profile.name)
        for experiment in plan.experiments
        for case, profile in experiment.cells()
    ]


def _cells(experiment: PlannedExperiment, case: PlannedCase, claim: PlannedClaim) -> set[Key]:
    """Both sides of a claim at a case, and the control, whose spread widens the claim's interval."""
    return {(experiment.name, case.name, name) for name in (claim.subject, claim.baseline, case.control)}


def _is_quarantined(plan: Plan, crashed: Sequence[Cell], key: Key) -> bool:
    return bool(quarantined(crashed, key[0], key[2], plan.protocol.crashes))
