"""Experiments + options → Plan."""

from collections.abc import Collection, Iterable, Mapping

from lab.definition.dtypes import ITEMSIZES
from lab.definition.experiment import SLUG, SLUG_RULE, Case, Claim, Experiment, Profile
from lab.definition.plan import (
    METRIC_SETS,
    MOST_SWEEPS,
    MOST_SWEEPS_ASKED,
    Plan,
    PlannedCase,
    PlannedClaim,
    PlannedExperiment,
    PlannedProfile,
    Protocol,
)
from lab.errors import PlanError
from lab.evidence.codec import SCHEMA
from lab.project import project

LONGEST_RUN_ID = 80
# Names of devices on Windows, where a folder cannot be called so and the site could not be unpacked; and what else
# lies among the runs.
RESERVED = {"con", "prn", "aux", "nul", "mlartifacts", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
# Operations for each byte of the least traffic, from which on a case is mainly arithmetic: an H100 does 989e12 a second
# in bfloat16, and moves 3.35e12 bytes.
MAINLY_ARITHMETIC = 300


def make_plan(
    run_id: str,
    experiments: Iterable[Experiment],
    *,
    device: str,
    profiling: bool,
    sweeps: int,
    include: frozenset[str],
    policy_version: int,
    instruments: bool = False,
    metric_set: str = METRIC_SETS[0],
    cases: Mapping[str, Collection[str]] = {},
) -> Plan:
    """Register what will be measured. PlanError for a bad run id or number of sweeps.

    `cases` has, by experiment, the names of the cases to measure; where it lacks an experiment, flags decide.
    """
    check_run_id(run_id)
    if not 1 <= sweeps <= MOST_SWEEPS_ASKED:
        raise PlanError(
            f"--sweeps {sweeps}: accepted are 1 to {MOST_SWEEPS_ASKED} (5 for evidence, 3 gives provisional verdicts)"
        )
    registered = tuple(planned(experiment, include, cases.get(experiment.name)) for experiment in experiments)
    return Plan(
        schema=SCHEMA,
        run_id=run_id,
        device=device,
        profiling=profiling,
        protocol=make_protocol(sweeps, device, recompiles=any(map(_recompiles, registered))),
        policy_version=policy_version,
        experiments=registered,
        instruments=instruments,
        metric_set=metric_set,
    )


def make_protocol(sweeps: int, device: str, *, recompiles: bool = False) -> Protocol:
    """The current protocol. Only runs with the usual number of sweeps get extra ones for cases that lack precision.

    recompiles: whether a profile is compiled for its shapes at run time. On a GPU such a compiler chooses among its
    candidates by timing them, so that each sweep has to choose anew; on the CPU it chooses nothing.
    """
    gpu = device == "cuda"
    extended = gpu and sweeps == Protocol().sweeps
    return Protocol(
        sweeps=sweeps,
        # Sweeps differ by more than blocks do: of the runs published in policy 3, twelve samples a block instead of
        # twenty would have widened the median interval of a run from 0.56 to 0.65 %. The time saved was not measured.
        block=12 if gpu else 20,
        # A CPU's samples are hundreds of times as long, and a second of its time costs less.
        cell_seconds=0.16 if gpu else 0.5,
        warmup_seconds=0.04 if gpu else 0.3,
        shortest_spin_seconds=100e-6,  # longer where launches are slow; a cold call has the time of the flush too
        sweep_deadline_seconds=1800.0,
        most_sweeps=MOST_SWEEPS if extended else sweeps,
        target_half_width=0.02,
        crashes=2,
        fresh_caches=gpu and recompiles,
        isolated=True,
    )


def check_run_id(run_id: str) -> None:
    if not SLUG.fullmatch(run_id) or len(run_id) > LONGEST_RUN_ID:
        raise PlanError(f"run id {run_id!r} is not a plain slug; accepted are up to {LONGEST_RUN_ID} {SLUG_RULE}")
    if run_id in RESERVED:
        raise PlanError(f"run id {run_id!r} is reserved for a device or a folder; choose another, such as {run_id}-1")


def planned(
    experiment: Experiment, include: frozenset[str], chosen: Collection[str] | None = None
) -> PlannedExperiment:
    """An experiment as plain data, with the cases of this run marked: the `chosen`, else those that flags include."""
    return PlannedExperiment(
        name=experiment.name,
        title=experiment.title or in_words(experiment.name),
        question=experiment.question,
        importance=_plain(experiment.importance),
        project=experiment.project or project().settings.title,
        focus=_plain(experiment.focus),
        cases=tuple(_case(experiment, case, _is_included(case, include, chosen)) for case in experiment.cases),
        profiles=tuple(_profile(profile) for profile in experiment.profiles),
        claims=tuple(_claim(claim) for claim in experiment.claims),
        headlines=tuple(claim.name for claim in experiment.headlines or experiment.claims),
        does_not_show=tuple(_plain(limit) for limit in experiment.does_not_show),
        metrics=dict(experiment.metrics),
        scopes=experiment.scopes,
        self_test=experiment.self_test,
    )


def _recompiles(experiment: PlannedExperiment) -> bool:
    return any(profile.recompiles for _, profile in experiment.cells())


def _is_included(case: Case, include: frozenset[str], chosen: Collection[str] | None) -> bool:
    if chosen is not None:
        return case.name in chosen
    return not case.only_with or case.only_with in include


def _case(experiment: Experiment, case: Case, included: bool) -> PlannedCase:
    traffic = case.operator.traffic(case.shape, ITEMSIZES[case.dtype])
    return PlannedCase(
        name=case.name,
        op=case.operator.name,
        shape=case.shape,
        dtype=case.dtype,
        description=case.description,
        read_bytes=traffic.read_bytes,
        written_bytes=traffic.written_bytes,
        flops=traffic.flops,
        included=included,
        only_with=case.only_with,
        control=_control(experiment, case),
        sustained=experiment.sustained
        and traffic.flops >= MAINLY_ARITHMETIC * (traffic.read_bytes + traffic.written_bytes),
    )


def _plain(prose: str) -> str:
    """The text without backticks, because a plan is plain text."""
    return prose.replace("`", "")


def _control(experiment: Experiment, case: Case) -> str:
    """The first profile that a claim of a speed-up takes as its baseline here; none where no claim compares times."""
    speedups = (claim for claim in experiment.claims if claim.measure == "speedup" and case in claim.cases)
    return next((claim.baseline.name for claim in speedups if claim.baseline), "")


def _profile(profile: Profile) -> PlannedProfile:
    return PlannedProfile(
        name=profile.name,
        title=profile.title or in_words(profile.name),
        technique=profile.technique,
        hypothesis=_plain(profile.hypothesis),
        signal=profile.signal,
        ops=tuple(profile.implementations),
        kernels=dict(profile.kernels or {}),
        devices=profile.devices,
        package=profile.package,
        in_place=profile.in_place,
        recompiles=profile.recompiles,
    )


def in_words(name: str) -> str:
    return name.replace("-", " ")


def _side(profile: Profile | None) -> str:
    return profile.title or in_words(profile.name) if profile else "the least traffic"


def _claim(claim: Claim) -> PlannedClaim:
    return PlannedClaim(
        name=claim.name,
        text=claim.text or f"{_side(claim.subject)} is faster than {_side(claim.baseline)}.",
        subject=claim.subject.name,
        baseline=claim.baseline.name if claim.baseline else "",
        measure=claim.measure,
        cases=tuple(case.name for case in claim.cases),
        scope=claim.scope,
        threshold=claim.threshold,
        expected=claim.expected,
    )
