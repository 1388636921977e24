"""An experiment's result as the data behind its page: every figure that a reader sees is one of these values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from lab.definition.breakdown import Breakdown
from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.definition.publication import Publication
from lab.definition.search import is_search
from lab.definition.tokens import Tokens
from lab.evidence.record import CHOSEN_BY, Cell, Machine
from lab.verdict.breakdown import BreakdownResult, break_down
from lab.verdict.explained import Explained, explain
from lab.verdict.judge import POLICY_VERSION, Status
from lab.verdict.ranking import Place, contest, rank
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.search import searches
from lab.verdict.standing import uneven_sweep_seconds
from lab.verdict.validity import can_fail
from lab.website.data.published_cells import CellData, cell_data
from lab.website.data.published_claims import ClaimData, claim_data
from lab.website.data.published_clocks import ClockData, clocks_data
from lab.website.data.published_controls import ControlData, GpuData, control_data, gpu_data
from lab.website.data.published_evidence import EvidenceData, evidence_data
from lab.website.data.published_limits import CeilingsData, LimitsData, ceilings_data, limits_data
from lab.website.data.published_ranking import PlaceData, SearchData, places_data, search_data
from lab.website.data.published_replication import ReplicationData, replication_data
from lab.website.data.published_speedups import Interval, SplitData, against_data, splits_data
from lab.website.data.typed import DATA_SCHEMA, ByCase, ByClaim, ByProfile, ByScope, plain_json, taken

NO_TOKENS: Mapping[str, Tokens] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseData:
    op: str
    shape: tuple[int, ...]
    dtype: str
    least_bytes: int
    flops: int
    included: bool
    tokens: Annotated[int | None, "That one call reads or makes."] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentData:
    """Everything that an experiment's page shows of one published run, in SI units, with seven significant digits."""

    schema: int
    policy_version: int
    experiment: str
    title: str
    question: str
    evidence: EvidenceData | None
    machine: Machine | None
    ceilings: CeilingsData | None
    limits: Annotated[dict[str, LimitsData] | None, "By case; null where the run did not measure its ceilings."]
    clock_step_seconds: Annotated[dict[str, float], "By scope, in seconds, the least that the clock tells apart."]
    counts: Annotated[
        dict[str, int],
        "By outcome of a cell; cases, profiles; claims of known verdict, those right, judged and left out.",
    ]
    cases: ByCase[CaseData]
    places: ByCase[ByScope[Annotated[list[PlaceData], "The fastest first."]]]
    contest: ByCase[ByScope[Annotated[list[PlaceData], "One implementation of each family, the fastest first."]]]
    cells: ByCase[ByProfile[CellData]]
    claims: ByClaim[ClaimData]
    controls: ByCase[ControlData]
    gpu: ByCase[GpuData]
    splits: ByCase[ByClaim[SplitData]]
    explained: ByCase[ByProfile[Explained]]
    searches: ByCase[SearchData]
    against: ByCase[Annotated[dict[str, Annotated[dict[str, Interval | None], "By baseline."]], "By subject."]]
    measured: Annotated[dict[str, list[str]], "By case, what any sweep measured, also where the result is wrong."]
    clocks: ByCase[ByClaim[ClockData]]
    replication: ReplicationData | None = None
    breakdown: BreakdownResult | None = None


def experiment_data(
    result: ExperimentResult,
    run: RunResult | None,
    digest: str = "",
    commit: str = "",
    publications: Sequence[Publication] = (),
    breakdown: Breakdown | None = None,
    tokens: Mapping[str, Tokens] = NO_TOKENS,
) -> dict[str, Any]:
    """ExperimentData as plain JSON values. `commit` is the one whose source was measured.

    `publications`: those whose cases an experiment may measure again; `breakdown`: which of its cases are parts of
    another; `tokens`: by operator, how many tokens a call is.
    """
    plan, included = result.plan, [case.name for case in result.plan.included_cases]
    of_call = {case.name: tokens[case.op].of(case.shape) for case in plan.cases if case.op in tokens}
    data = taken(
        ExperimentData, plan,
        schema=DATA_SCHEMA, policy_version=POLICY_VERSION, experiment=plan.name,
        evidence=evidence_data(result, run, digest, commit) if run else None,
        machine=_machine(run) if run else None,
        ceilings=ceilings_data(run) if run else None, limits=limits_data(result, run) if run else None,
        clock_step_seconds=result.step_seconds, counts=_counts(plan, result),
        cases={case.name: taken(CaseData, case, tokens=of_call.get(case.name)) for case in plan.cases},
        places=_places(result, rank), contest=_places(result, contest, leads=True),
        cells={case.name: _cells(result, case, run, of_call.get(case.name)) for case in plan.cases},
        claims={claim.claim.name: claim_data(result, claim) for claim in result.claims},
        controls={case: control_data(result, case) for case in included},
        gpu={case: gpu_data(result, case) for case in included},
        splits={case: splits_data(result, case) for case in included},
        explained=_explained(result),
        searches={each.case.name: search_data(each) for each in searches(result)} if is_search(plan) else {},
        against={case: against_data(result, case) for case in included},
        measured=_measured(result), clocks=clocks_data(result),
        replication=replication_data(publications, result, run),
        breakdown=break_down(result, breakdown) if breakdown else None,
    )  # fmt: skip
    whole: dict[str, Any] = plain_json(data)
    return whole


def _machine(run: RunResult) -> Machine:
    """That of the first process; with several GPUs all their boards, and not which of them that process had."""
    environment = run.machine.environment
    if len(run.boards) > 1:
        environment = {name: text for name, text in environment.items() if name != CHOSEN_BY}
    return replace(run.machine, gpu_id=run.board, environment=environment)


def _places(
    result: ExperimentResult, ranked: Callable[[ExperimentResult, str, str], Mapping[str, Place]], leads: bool = False
) -> dict[str, dict[str, list[PlaceData]]]:
    """By case and scope. `leads`: with the intervals by which the fastest leads."""
    return {
        case.name: {
            scope: places_data(result.plan, ranked(result, case.name, scope), leads) for scope in result.plan.scopes
        }
        for case in result.plan.included_cases
    }


def _cells(
    result: ExperimentResult, case: PlannedCase, run: RunResult | None, tokens: int | None
) -> dict[str, CellData]:
    """By profile."""
    scopes = result.plan.scopes if case.included else ()
    uneven = {scope: uneven_sweep_seconds(result, case.name, scope) for scope in scopes}
    return {
        each.name: cell_data(each, result.cells[case.name, each.name], run, tokens, uneven)
        for each in result.plan.profiles
    }


def _counts(plan: PlannedExperiment, result: ExperimentResult) -> dict[str, int]:
    outcomes = [cell.outcome for cell in result.cells.values()]
    return {
        "cases": len(plan.included_cases),
        "registered_cases": len(plan.cases),
        "profiles": len(plan.profiles),
        **{outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        **_known(result),
    }


def _known(result: ExperimentResult) -> dict[str, int]:
    """Claims whose right verdict is known before anything is measured, those that came out so, and those that this run
    could not judge: what needs a CPU, say.

    One of which any verdict would be right is not among them.
    """
    known = [claim for claim in result.claims if can_fail(claim.claim.expected)]
    right = sum(str(claim.status) in claim.claim.expected for claim in known)
    judged = sum(claim.status != Status.NO_EVIDENCE for claim in known)
    counts = {"known": len(known), "right": right, "known_judged": judged, "known_left_out": len(known) - judged}
    return counts if known else {}


def _measured(result: ExperimentResult) -> dict[str, list[str]]:
    by_case: dict[str, dict[str, None]] = {}
    for record in result.records:
        if isinstance(record, Cell) and record.outcome == "measured":
            by_case.setdefault(record.case, {})[record.profile] = None
    return {case: list(profiles) for case, profiles in by_case.items()}


def _explained(result: ExperimentResult) -> dict[str, dict[str, Explained]]:
    """By case and profile."""
    rows: dict[str, dict[str, Explained]] = {}
    for row in explain(result):
        rows.setdefault(row.case, {})[row.profile] = row
    return rows
