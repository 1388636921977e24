"""An experiment's result as the data behind its page: every figure that a reader sees is one of these values."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from lab.definition.breakdown import Breakdown
from lab.definition.families import family_of
from lab.definition.plan import PlannedExperiment
from lab.definition.publication import Publication
from lab.definition.search import is_search
from lab.definition.tokens import Tokens
from lab.evidence.record import Cell, Machine, Round
from lab.verdict.breakdown import BreakdownResult, break_down
from lab.verdict.explained import Explained, explain
from lab.verdict.judge import POLICY_VERSION, WEIGHED, Status, Verdict
from lab.verdict.ranking import Place, contest, rank
from lab.verdict.results import ClaimResult, ExperimentResult, RunResult
from lab.verdict.search import Search, searches
from lab.verdict.standing import uneven_sweep_seconds
from lab.verdict.statistics import geometric_mean
from lab.verdict.validity import can_fail
from lab.website.data.published_cells import CellData, cell_data
from lab.website.data.published_clocks import ClockData, clocks_data, quotient
from lab.website.data.published_limits import CeilingsData, LimitsData, ceilings_data, limits_data
from lab.website.data.published_replication import ReplicationData, replication_data
from lab.website.data.typed import DATA_SCHEMA, ByCase, ByClaim, ByProfile, ByScope, Digest, plain_json, taken

NO_TOKENS: Mapping[str, Tokens] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Time of the baseline over time of the subject, with its 95 % interval over sweeps."""

    ratio: float
    low: float
    high: float
    quotient_of_medians: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceData:
    """Which run it is, how it measured, and what it is addressed by; of a preview the digest is empty."""

    digest: Digest
    commit: Annotated[str, "The one whose source was measured."]
    run_id: str
    schema_of_run: int
    cut_short: str
    source_digest: str
    plan_digest: str
    policy_version_of_run: int
    started_utc: str
    finished_utc: str
    sweeps: int
    fewest_sweeps: int
    most_sweeps: int
    rounds: int
    block: int
    isolated: Annotated[bool, "The host waited until a timed call had ended before it enqueued the next one."]
    launch_floor_seconds: float
    empty_seconds: float
    median_launch_floor_seconds: float
    median_empty_seconds: float
    damages: Annotated[dict[str, str], "By line of the journal, why it was not used."]
    experiments: Annotated[list[str], "All that the run measured."]
    include: Annotated[list[str], "The --include flags that it was given, without the prefix."]
    metric_set: str
    profiling: bool
    instruments: bool
    processes: Annotated[int, "That began to measure: more than there were sweeps, where some died."]
    wall_seconds: float | None
    profiling_seconds: float | None
    stage_seconds: Annotated[dict[str, float], "By stage, in seconds over all sweeps."]


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
class PlaceData:
    """`level`: shown to be slower than none; `proven`: enough sweeps to tell. `ratio`: in a contest of families, how
    many times as fast the fastest is, with its interval."""

    family: str
    profile: str
    rank: int
    times_fastest: float
    level: bool
    proven: bool
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictData:
    """From low to high is the interval for any board of the GPU model, from run_low to run_high that of this run."""

    status: Status
    mark: str
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    run_low: float | None = None
    run_high: float | None = None
    sweep_ratios: Annotated[tuple[float, ...] | None, "The ratio of each sweep by itself."] = None
    subject_bytes: float | None = None
    baseline_bytes: float | None = None
    quotient_of_medians: Annotated[
        float | None, "Of the two medians that are shown, where it is not the ratio: that is of paired rounds."
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimData:
    """Smallest, largest and mean are of the ratios that were fit to be weighed."""

    status: Status
    mark: Annotated[str, "“one draw” where the verdict rests on such evidence."]
    measure: Literal["speedup", "traffic", "memory"]
    threshold: float
    scope: str
    expected: Annotated[tuple[Status, ...], "Of a test of the lab itself: what a sound instrument may say."]
    cases: ByCase[VerdictData]
    judged: int
    compared: int
    supported: int
    ties: int
    smallest_ratio: float | None = None
    largest_ratio: float | None = None
    geometric_mean: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlData:
    """One profile against itself under another name: the lab's own error at this case."""

    profile: str
    scopes: ByScope[Interval]
    spoiled_share: Annotated[float, "Of the rounds: those left out, as a share of 1."]
    spoiled_because: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuData:
    """What the GPU went through while a case was timed, over all sweeps; null where nobody told."""

    rounds: int
    power_capped: bool
    lowest_spin_hertz: float | None
    lowest_sm_hertz: float | None
    largest_power_watts: float | None
    largest_temperature_celsius: float | None
    energy_joules_per_sweep: float | None
    blind: Annotated[list[str], "Why nothing was told, where nothing was."]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitData:
    """An eager speed-up is its device's part times its launch's."""

    end_to_end: Interval
    device: Interval
    launch: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialData:
    sweeps_ahead: int
    sweeps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchData:
    """How often each configuration was ahead of the rule, and which won."""

    winner: str
    scope: str
    sweeps_fastest: int
    claims: Annotated[list[str], "Those of the trials, the fastest first."]
    trials: ByProfile[TrialData]


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
    uneven = {case: {scope: uneven_sweep_seconds(result, case, scope) for scope in plan.scopes} for case in included}
    data = taken(
        ExperimentData, plan,
        schema=DATA_SCHEMA, policy_version=POLICY_VERSION, experiment=plan.name,
        evidence=_evidence(result, run, digest, commit) if run else None,
        machine=replace(run.machine, gpu_id=run.board) if run else None,
        ceilings=ceilings_data(run) if run else None, limits=limits_data(result, run) if run else None,
        clock_step_seconds=result.step_seconds, counts=_counts(plan, result),
        cases={case.name: taken(CaseData, case, tokens=of_call.get(case.name)) for case in plan.cases},
        places={
            case: {scope: _places(plan, rank(result, case, scope)) for scope in plan.scopes} for case in included
        },
        contest={
            case: {scope: _places(plan, contest(result, case, scope), leads=True) for scope in plan.scopes}
            for case in included
        },
        cells={
            case.name: {
                each.name: cell_data(
                    each, result.cells[case.name, each.name], run, of_call.get(case.name), uneven.get(case.name, {})
                )
                for each in plan.profiles
            }
            for case in plan.cases
        },
        claims={claim.claim.name: _claim(result, claim) for claim in result.claims},
        controls={case: _control(result, case) for case in included},
        gpu={case: _gpu(result, case) for case in included},
        splits={case: _splits(result, case) for case in included},
        explained=_explained(result),
        searches={each.case.name: _search(each) for each in searches(result)} if is_search(plan) else {},
        against={case: _against(result, case) for case in included},
        measured=_measured(result), clocks=clocks_data(result),
        replication=replication_data(publications, result, run),
        breakdown=break_down(result, breakdown) if breakdown else None,
    )  # fmt: skip
    whole: dict[str, Any] = plain_json(data)
    return whole


def _evidence(result: ExperimentResult, run: RunResult, digest: str, commit: str) -> EvidenceData:
    sweeps = _sweeps_by_case(result).values()
    asked_for = {case.only_with for each in run.plan.experiments for case in each.included_cases}
    return taken(
        EvidenceData, run.start, run.plan.protocol, run.plan, run.sweeps[0],
        digest=digest, commit=commit or run.start.commit, schema_of_run=run.start.schema,
        isolated=run.plan.protocol.isolated or run.machine.device != "cuda",  # a CPU's calls are over when they return
        cut_short=run.finish.cut_short if run.finish else "", policy_version_of_run=run.plan.policy_version,
        finished_utc=run.finished_utc, fewest_sweeps=min(sweeps, default=0), most_sweeps=max(sweeps, default=0),
        median_launch_floor_seconds=statistics.median(each.launch_floor_seconds for each in run.sweeps),
        median_empty_seconds=statistics.median(each.empty_seconds for each in run.sweeps),
        damages={str(damage.line_number): damage.reason for damage in run.damages},
        experiments=[each.name for each in run.plan.experiments], include=sorted(asked_for - {""}),
        processes=len({(sweep.sweep, sweep.process) for sweep in run.sweeps}),
        # 0 is what a record says that never asked; None what an interrupted run does not know.
        wall_seconds=run.finish.wall_seconds or None if run.finish else None,
        profiling_seconds=run.finish.profiling_seconds or None if run.finish else None,
        stage_seconds=_stage_seconds(run),
    )  # fmt: skip


def _stage_seconds(run: RunResult) -> dict[str, float]:
    """Where the time of its processes went, over all sweeps."""
    stages: dict[str, float] = {}
    for end in run.sweep_ends:
        for stage, seconds in end.stage_seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    return dict(sorted(stages.items()))


def _sweeps_by_case(result: ExperimentResult) -> dict[str, int]:
    """How many sweeps measured a case: more where the first ones left it imprecise."""
    latencies_by_case = {
        case.name: [latency for cell in result.measured(case.name) for latency in cell.latencies.values()]
        for case in result.plan.cases
    }
    return {
        case: max(len(each.sweep_p50_seconds) for each in latencies)
        for case, latencies in latencies_by_case.items()
        if latencies
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


def _places(plan: PlannedExperiment, places: Mapping[str, Place], leads: bool = False) -> list[PlaceData]:
    families = {profile.name: family_of(profile) for profile in plan.profiles}
    return [
        taken(PlaceData, place, place.lead if leads else None, family=families[profile], profile=profile)
        for profile, place in places.items()
    ]


def _measured(result: ExperimentResult) -> dict[str, list[str]]:
    by_case: dict[str, dict[str, None]] = {}
    for record in result.records:
        if isinstance(record, Cell) and record.outcome == "measured":
            by_case.setdefault(record.case, {})[record.profile] = None
    return {case: list(profiles) for case, profiles in by_case.items()}


def _claim(result: ExperimentResult, claim: ClaimResult) -> ClaimData:
    """With counts of its verdicts, and range and geometric mean of the ratios that were fit to be judged."""
    verdicts = list(claim.verdicts.values())
    weighed = [verdict for verdict in verdicts if verdict.status in WEIGHED]
    ratios = [verdict.ratio for verdict in weighed if verdict.ratio is not None]
    return taken(
        ClaimData, claim, claim.claim, cases={case: _verdict(result, claim, case) for case in claim.verdicts},
        judged=len(verdicts), compared=len(ratios),
        supported=sum(verdict.status == "supported" for verdict in verdicts),
        ties=sum("equivalent" in verdict.mark.split(", ") for verdict in verdicts),
        smallest_ratio=min(ratios, default=None), largest_ratio=max(ratios, default=None),
        geometric_mean=geometric_mean(ratios) if ratios else None,
    )  # fmt: skip


def _verdict(result: ExperimentResult, claim: ClaimResult, case: str) -> VerdictData:
    verdict: Verdict = claim.verdicts[case]
    asked, speedup = claim.claim, verdict.speedup
    run_low, run_high = speedup.of_run_alone if speedup else (None, None)
    return taken(
        VerdictData, verdict.compared_bytes, speedup, verdict, run_low=run_low, run_high=run_high,
        quotient_of_medians=quotient(result, case, asked.subject, asked.baseline, speedup, asked.scope),
    )  # fmt: skip


def _against(result: ExperimentResult, case: str) -> dict[str, dict[str, Interval | None]]:
    """Each against each other."""
    names = [profile.name for profile in result.measured_profiles(case)]
    return {one: {other: _speedup(result, case, one, other) for other in names if other != one} for one in names}


def _speedup(result: ExperimentResult, case: str, subject: str, baseline: str) -> Interval | None:
    speedup = result.compare(case, subject, baseline)
    medians = quotient(result, case, subject, baseline, speedup)
    return taken(Interval, speedup, quotient_of_medians=medians) if speedup else None


def _control(result: ExperimentResult, case: str) -> ControlData:
    """The A/A control of a case by scope, and how much of the case was left out."""
    controls = result.controls.get(case, ())
    scopes = {scope: result.control(case, scope) for scope in result.plan.scopes} if controls else {}
    return ControlData(
        profile=controls[0].profile if controls else "",
        scopes={scope: taken(Interval, speedup) for scope, speedup in scopes.items() if speedup},
        spoiled_share=result.spoiled_share(case),
        spoiled_because=_spoiled_because(result, case),
    )


def _spoiled_because(result: ExperimentResult, case: str) -> list[str]:
    """The reasons for which rounds of a case were left out; figures in them are those of single rounds."""
    reasons = {
        reason.partition(" was off by")[0]
        for watch in result.watches.get(case, ())
        for reason in result.spoiled.reasons(watch).values()
    }
    return sorted(reasons)


def _gpu(result: ExperimentResult, case: str) -> GpuData:
    watches = result.watches.get(case, ())
    rounds = [seen for watch in watches for seen in watch.rounds]
    readings = {name: [v for seen in rounds if (v := getattr(seen, name)) is not None] for name in Round.__slots__}
    joules = [watch.energy_joules for watch in watches if watch.energy_joules is not None]
    return GpuData(
        rounds=len(rounds),
        power_capped=(result.plan.name, case) in result.spoiled.power_capped,
        lowest_spin_hertz=min(readings["spin_hertz"], default=None),
        lowest_sm_hertz=min(readings["sm_hertz"], default=None),
        largest_power_watts=max(readings["power_watts"], default=None),
        largest_temperature_celsius=max(readings["temperature_celsius"], default=None),
        energy_joules_per_sweep=sum(joules) / len(joules) if joules else None,
        blind=sorted({watch.blind for watch in watches if watch.blind}),
    )


def _splits(result: ExperimentResult, case: str) -> dict[str, SplitData]:
    """Of each headline claim."""
    splits = {}
    for claim in result.plan.claims:
        if claim.name in result.plan.headlines and case in claim.cases and claim.measure == "speedup":
            split = result.split(case, claim.subject, claim.baseline)
            if split:
                parts = {name: taken(Interval, getattr(split, name)) for name in ("end_to_end", "device", "launch")}
                splits[claim.name] = SplitData(**parts)
    return splits


def _explained(result: ExperimentResult) -> dict[str, dict[str, Explained]]:
    """By case and profile."""
    rows: dict[str, dict[str, Explained]] = {}
    for row in explain(result):
        rows.setdefault(row.case, {})[row.profile] = row
    return rows


def _search(search: Search) -> SearchData:
    return taken(
        SearchData, search,
        winner=search.winner.profile.name if search.winner else "",
        claims=[trial.claim for trial in search.trials],
        trials={
            trial.profile.name: TrialData(sweeps_ahead=trial.sweeps_ahead, sweeps=len(trial.sweep_ratios))
            for trial in search.trials
            if trial.sweep_ratios
        },
    )  # fmt: skip
