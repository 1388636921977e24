"""Experiments + options → Plan: all that is registered before anything is measured, as plain data.

The plan travels with the run. Judging and publishing read it, not today's definitions, so a claim
is judged as it stood when it was measured.
"""

import json
import os
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.definition.dtypes import ITEMSIZES
from lab.definition.experiment import SLUG, SLUG_RULE, Case, Claim, Experiment, Profile
from lab.errors import PlanError, RunError
from lab.evidence.codec import SCHEMA, added, digest, from_data, to_data
from lab.kernels.traffic import Traffic
from lab.project import project

NAME = "plan.json"
LONGEST_RUN_ID = 80
# Names of devices on Windows, where a folder cannot be called so and the site could not be unpacked; and what else
# lies among the runs.
RESERVED = {"con", "prn", "aux", "nul", "mlartifacts", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
METRIC_SETS = ("chosen", "full")  # of the profiler: what the lab shows, or all that it knows
MOST_SWEEPS = 9  # of a case, where five leave its intervals too wide
MOST_SWEEPS_ASKED = 60  # tests of the lab's own error rates need many


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """How samples are taken. K sweeps × R rounds × a block of k samples; see lab/worker/measure.py."""

    sweeps: int = 5
    rounds: int = 6
    fewest_rounds: int = 4
    block: int = 20  # of the first scope; half as many of each other, a quarter of device_dirty
    smallest_block: int = 3
    ring: int = 3
    cell_seconds: float = 0.16  # time that one cell may take in one sweep before its blocks shrink
    seeds: int = 3
    warmup_seconds: float = 0.04
    shortest_spin_seconds: float = 200e-6
    deadline_seconds: float = 180.0  # without a sign of life from the worker
    sweep_deadline_seconds: float = added(2, 0.0)  # for all that one worker does; 0 is none
    most_sweeps: int = added(2, 0)  # up to which imprecise cases are measured again; 0 is never
    target_half_width: float = added(2, 0.0)  # relative half-width of an interval that is precise enough
    crashes: int = added(2, 0)  # of one profile, after which it is not run again; 0 is never
    fresh_caches: bool = added(6, False)  # every sweep compiles and autotunes anew what is compiled at run time


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    name: str
    op: str
    shape: tuple[int, ...]
    dtype: str
    description: str
    read_bytes: int
    written_bytes: int
    flops: int
    included: bool
    only_with: str
    control: str = added(2, "")  # the profile that is timed twice, under two names

    @property
    def option(self) -> str:
        """The option that makes a run measure this case too."""
        return f"--include-{self.only_with}" if self.only_with else "--cases all"

    @property
    def least_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def work(self) -> Traffic:
        return Traffic(read_bytes=self.read_bytes, written_bytes=self.written_bytes, flops=self.flops)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedProfile:
    name: str
    title: str
    technique: str
    hypothesis: str
    signal: str
    ops: tuple[str, ...]
    kernels: Mapping[str, str]
    devices: tuple[str, ...]
    package: str
    in_place: bool = added(2, False)
    recompiles: bool = added(5, False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedClaim:
    name: str
    text: str
    subject: str
    baseline: str
    cases: tuple[str, ...]
    scope: str
    threshold: float
    expected: tuple[str, ...] = added(2, ())  # in a test of the lab itself: what a sound instrument may say
    measure: str = added(4, "speedup")  # of "traffic" and "memory" an empty baseline is the least that any call needs


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedExperiment:
    name: str
    title: str
    question: str
    importance: str
    project: str
    focus: str
    cases: tuple[PlannedCase, ...]
    profiles: tuple[PlannedProfile, ...]
    claims: tuple[PlannedClaim, ...]
    headlines: tuple[str, ...]
    does_not_show: tuple[str, ...]
    metrics: Mapping[str, tuple[str, ...]]
    scopes: tuple[str, ...] = added(2, ("device_cold",))
    self_test: bool = added(2, False)

    @property
    def included_cases(self) -> tuple[PlannedCase, ...]:
        return tuple(case for case in self.cases if case.included)

    @property
    def cases_chosen_by_name(self) -> bool:
        """Whether the run was given `--cases`: flags alone would have included a case that it leaves out."""
        flags = {case.only_with for case in self.included_cases} | {""}
        return any(case.only_with in flags for case in self.cases if not case.included)

    def profiles_of(self, case: PlannedCase) -> tuple[PlannedProfile, ...]:
        """The profiles that implement the case's operator; the others are not planned there."""
        return tuple(profile for profile in self.profiles if case.op in profile.ops)

    def cells(self) -> Iterator[tuple[PlannedCase, PlannedProfile]]:
        for case in self.included_cases:
            for profile in self.profiles_of(case):
                yield case, profile

    def compared_at(self, case: PlannedCase) -> tuple[PlannedClaim, ...]:
        """The claims that compare times at a case."""
        return tuple(claim for claim in self.claims if case.name in claim.cases and claim.measure == "speedup")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    schema: int
    run_id: str
    device: str
    profiling: bool
    protocol: Protocol
    policy_version: int
    experiments: tuple[PlannedExperiment, ...]
    instruments: bool = added(2, False)  # other instruments read the cells too, in a pass of their own
    metric_set: str = added(4, METRIC_SETS[0])

    @property
    def digest(self) -> str:
        return digest(to_data(self, self.schema))

    def experiment(self, name: str) -> PlannedExperiment:
        for experiment in self.experiments:
            if experiment.name == name:
                return experiment
        raise PlanError(f"{name!r} is not in this plan; it holds {[e.name for e in self.experiments]}")

    def cell_count(self) -> int:
        return sum(len(list(experiment.cells())) for experiment in self.experiments)


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
        sweep_deadline_seconds=1800.0,
        most_sweeps=MOST_SWEEPS if extended else sweeps,
        target_half_width=0.02,
        crashes=2,
        fresh_caches=gpu and recompiles,
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


def case_order(plan: Plan, experiment: PlannedExperiment, sweep: int) -> list[PlannedCase]:
    """The cases in the random order of one sweep; the same for the same run id and sweep."""
    cases = list(experiment.included_cases)
    random.Random(f"{plan.run_id}/{experiment.name}/{sweep}").shuffle(cases)
    return cases


def save_plan(plan: Plan, directory: Path) -> None:
    """Write the plan atomically and sync it to disk, before the journal begins."""
    text = json.dumps(to_data(plan, plan.schema), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    scratch = directory / f".{NAME}"
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(directory / NAME)


def load_plan(directory: Path) -> Plan:
    """The plan of a run directory. RunError if there is none or it does not fit the schema."""
    path = directory / NAME
    if not path.is_file():
        raise RunError(f"{directory}: no {NAME} there; a run directory is what `lab run` writes under runs/")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise RunError(f"{path}: not valid JSON ({problem})") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if type(schema) is not int or schema not in range(1, SCHEMA + 1):
        raise RunError(f"{path}: schema {schema!r}; this version of the lab reads schemas 1 to {SCHEMA}")
    try:
        plan = from_data(Plan, data, str(path))
    except RecursionError:
        raise RunError(f"{path}: is nested too deeply to be a plan") from None
    for name in _names(plan):
        if not SLUG.fullmatch(name):
            raise RunError(f"{path}: the name {name!r} is not a plain slug; accepted are {SLUG_RULE}")
    return plan


def _names(plan: Plan) -> Iterator[str]:
    """The names that become parts of addresses and paths."""
    yield plan.run_id
    for experiment in plan.experiments:
        yield experiment.name
        yield from (case.name for case in experiment.cases)
        yield from (profile.name for profile in experiment.profiles)
        yield from (claim.name for claim in experiment.claims)


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
