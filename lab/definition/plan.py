"""All that is registered before anything is measured, as plain data.

The plan travels with the run. Judging and publishing read it, not today's definitions, so a claim
is judged as it stood when it was measured.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.definition.experiment import CEILINGS
from lab.errors import PlanError
from lab.evidence.codec import added, digest, to_data
from lab.kernels.traffic import Traffic

MOST_SWEEPS = 9  # of a case, where five leave its intervals too wide
MOST_SWEEPS_ASKED = 60  # of a run: tests of the lab's own error rates need many
METRIC_SETS = ("chosen", "full")  # of the profiler: what the lab shows, or all that it knows


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
    most_sweeps: int = added(2, 0)  # up to which imprecise claims are measured again; 0 is never
    target_half_width: float = added(2, 0.0)  # relative half-width of an interval that is precise enough
    crashes: int = added(2, 0)  # of one profile, after which it is not run again; 0 is never
    fresh_caches: bool = added(6, False)  # every sweep compiles and autotunes anew what is compiled at run time
    isolated: bool = added(11, False)  # the host waits until a timed call has ended before it enqueues the next one

    @property
    def sampling(self) -> tuple[float, ...]:
        """What the samples of one sweep are. How many sweeps there were does not belong to it."""
        return (
            self.rounds, self.fewest_rounds, self.block, self.smallest_block, self.ring, self.cell_seconds,
            self.warmup_seconds, self.shortest_spin_seconds, self.isolated,
        )  # fmt: skip


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
    sustained: bool = added(12, False)  # its profiles are also measured back to back, in the first sweep on a GPU

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

    def case(self, name: str) -> PlannedCase:
        return next(each for each in self.cases if each.name == name)

    def profile(self, name: str) -> PlannedProfile:
        return next(each for each in self.profiles if each.name == name)

    def claim(self, name: str) -> PlannedClaim:
        return next(each for each in self.claims if each.name == name)

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

    @property
    def counted(self) -> tuple[PlannedExperiment, ...]:
        """The experiments whose calls hardware counters explain: all but the ceilings that come along with others, of
        which only times are compared."""
        return tuple(
            experiment
            for experiment in self.experiments
            if not (experiment.name == CEILINGS and len(self.experiments) > 1 and experiment.cases_chosen_by_name)
        )

    def cell_count(self) -> int:
        return sum(len(list(experiment.cells())) for experiment in self.experiments)


def case_order(plan: Plan, experiment: PlannedExperiment, sweep: int) -> list[PlannedCase]:
    """The cases in the random order of one sweep; the same for the same run id and sweep."""
    cases = list(experiment.included_cases)
    random.Random(f"{plan.run_id}/{experiment.name}/{sweep}").shuffle(cases)
    return cases
