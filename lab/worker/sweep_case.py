"""One case of one sweep in the measuring process: check every profile, time those that are right, report."""

import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch

from lab.definition.experiment import Case, Experiment, Profile, one_of
from lab.definition.plan import Plan, PlannedCase, PlannedExperiment
from lab.evidence.codec import to_data
from lab.evidence.moment import now
from lab.evidence.record import Cell, Control, Correctness, Rounds
from lab.kernels.cuda_build import missing_compiler
from lab.worker.clock import Clock
from lab.worker.company import Company
from lab.worker.compiled import Making, making_of
from lab.worker.correctness import Check, check_output, check_profile, verdict, worse
from lab.worker.edges import edge_inputs
from lab.worker.guard import Guard, Tampering
from lab.worker.launches import interpreted, seen
from lab.worker.measure import CaseTimer, CaseTimings, Checked, Subject, Witness, rotation
from lab.worker.ring import Ring, copies
from lab.worker.stages import Stages
from lab.worker.unannounced import change_one, forgiving, unannounced_inputs

Emit = Callable[[str, Any], None]
Loaded = Callable[..., Any] | Exception
Key = tuple[str, str, str]  # experiment, operator or case, profile
PATHS = re.compile(r"/[\w.~-]+/[\w./~+-]+")
AGAIN = "(again)"  # the A/A control among the timed profiles; no profile can have this name
FELL_BACK = "fell back: its kernel {} was not launched"
INTERPRETED = (
    "Triton's interpreter ran its kernels (TRITON_INTERPRET=1), whose times say nothing of a compiled one: unset "
    "TRITON_INTERPRET and measure on a GPU"
)
UNJOINED = "unjoined"
TOO_LARGE = "the graphs of all profiles would not fit the GPU's memory"


@dataclass(frozen=True, slots=True)
class Bench:
    """What every case of a sweep needs."""

    plan: Plan
    sweep: int
    process: str
    clock: Clock
    functions: Mapping[Key, Loaded]  # by experiment, operator, profile
    guard: Guard
    stages: Stages
    emit: Emit
    edges: Set[Key]  # the cells that have yet to be asked for edge inputs
    company: Company


@dataclass(frozen=True, slots=True)
class Ready:
    """A profile that gave right results and may be timed."""

    profile: Profile
    subject: Subject
    making: Making
    correctness: Correctness
    peak_memory_bytes: int | None = None


class SweepCase(Witness):
    """One case of one sweep: check every profile, time those that are right, send a record for each."""

    def __init__(
        self, bench: Bench, planned: PlannedExperiment, planned_case: PlannedCase, experiment: Experiment, case: Case
    ) -> None:
        self.bench, self.planned, self.planned_case = bench, planned, planned_case
        self.experiment, self.case = experiment, case
        self.clock = bench.clock
        protocol = bench.plan.protocol
        self.shuffler = random.Random(f"{bench.plan.run_id}/{bench.sweep}/{case.name}")
        self.seeds = tuple(self.shuffler.getrandbits(31) for _ in range(max(protocol.ring, protocol.seeds)))
        self.scopes = [scope for scope in planned.scopes if scope in bench.clock.scopes]
        self.checks: dict[str, list[Check]] = {}
        self.interpreted: set[str] = set()
        self.charges: dict[str, str] = {}  # what a profile did that no honest one does
        self.left: dict[str, list[str]] = {}  # settings that it changed, and that were put right

    def measure(self, todo: set[str]) -> None:
        profiles = [profile for profile in self.experiment.profiles if profile.name in todo]
        # A crash from here on is not to be laid to the case before.
        self.announce(profiles[0].name, "inputs")
        try:
            with self.bench.stages("inputs"):
                ring = self._ring(len(profiles))
        except Exception as problem:  # such as no memory left: the case is lost, not the sweep
            self._lose(dict.fromkeys(profile.name for profile in profiles), f"inputs: {fault(problem)}")
            return
        if "torch._dynamo" in sys.modules:  # importing it takes seconds; without it nothing was compiled
            torch._dynamo.reset()
        with self.bench.stages("check"):
            prepared = [self._prepare(profile, ring) for profile in profiles]
        ready = {item.profile.name: item for item in prepared if item}
        if ready:
            try:
                with self.bench.stages("time"):
                    timings = self._time(ready, ring)
            except torch.OutOfMemoryError as problem:
                self._lose(ready, f"timing: {fault(problem)}")
                return
            self._report(ready, timings)

    def _lose(self, cells: Mapping[str, Ready | None], reason: str) -> None:
        """What no profile is to blame for costs all of them the case: by its stage the supervisor knows it."""
        self.announce(next(iter(cells)), "inputs")
        for name, item in cells.items():
            self._send(name, "failed", reason, item)

    def announce(self, profile: str, stage: str) -> None:
        name = profile.removesuffix(AGAIN)
        self.bench.emit("stage", [self.planned.name, self.case.name, name, stage])

    def checked(self, profile: str, scope: str, sample: Checked) -> None:
        check = check_output(self.case.operator, sample.output, sample.arguments)
        if check.problem:
            check = replace(check, problem=f"{check.problem} ({scope})")
        self.checks.setdefault(profile.removesuffix(AGAIN), []).append(check)

    def charged(self, profile: str, what: str) -> None:
        self.charges.setdefault(profile.removesuffix(AGAIN), what)

    def ran(self, profile: str) -> None:
        # Both are always asked: what is not put right here would be laid to the next profile.
        if found := "; ".join(filter(None, (self.bench.guard.broken(), self.clock.tampering()))):
            self.charged(profile, found)
        left = self.left.setdefault(profile.removesuffix(AGAIN), [])
        left += [setting for setting in self.bench.guard.left() if setting not in left]
        for owner, what in self.bench.company.look(profile.removesuffix(AGAIN)):
            self.charged(owner, what)

    def calling(self, profile: str) -> None:
        self.bench.company.calling(profile.removesuffix(AGAIN))

    def called(self, profile: str) -> None:
        self.bench.company.called(profile.removesuffix(AGAIN))

    def taken(self, profile: str, scope: str, seconds: tuple[float, ...], void: int) -> None:
        self.bench.emit("block", [profile, scope, seconds, void])

    def _ring(self, profiles: int) -> Ring:
        operator, protocol = self.case.operator, self.bench.plan.protocol
        dtype = getattr(torch, self.case.dtype)
        sets = [operator.inputs(self.case.shape, dtype, self.clock.device, seed) for seed in self.seeds]
        # Its own: how often it is asked depends on the time that warming up takes, and the order must not.
        shuffler = random.Random(self.shuffler.getrandbits(64))
        if not {"graph", "eager"} & set(self.scopes):
            return Ring(sets, shuffler)
        memory_bytes = int(self.clock.properties().get("memory_bytes", 0))
        cache_bytes = self.clock.cache_bytes
        count = rotation(self.planned_case, cache_bytes, memory_bytes, profiles, protocol.ring)
        if not count and "graph" in self.scopes:
            self.scopes.remove("graph")
        return Ring(copies(sets, count), shuffler)

    def _prepare(self, profile: Profile, ring: Ring) -> Ready | None:
        """Compile and check one profile; a profile that cannot be timed leaves its record here."""
        self.announce(profile.name, "check")
        if reason := skip_reason(profile, self.clock.device):
            self._send(profile.name, "skipped", reason, None)
            return None
        operator = self.case.operator
        function = self.bench.functions[self.planned.name, operator.name, profile.name]
        if isinstance(function, Tampering):
            self._send(profile.name, "wrong", str(function), None)
            return None
        if isinstance(function, Exception):
            self._send(profile.name, "failed", fault(function), None)
            return None
        subject = Subject(function, profile.in_place)
        try:
            making = self._make(subject, ring, profile.recompiles)
            self.ran(profile.name)  # before anything is judged: the judges themselves may have been replaced
            correctness = self._check(profile, subject, ring)
            peak_memory_bytes = self._peak_memory(subject, ring)
        except Exception as problem:  # any fault of a profile is a record of its cell, not the end of the sweep
            self.ran(profile.name)
            self._refuse_poison(problem)
            charge = self.charges.get(profile.name, "")
            self._send(profile.name, "wrong" if charge else "failed", charge or fault(problem), None)
            return None
        self.ran(profile.name)
        item = Ready(profile, subject, making, correctness, peak_memory_bytes)
        if complaint := self.charges.get(profile.name, "") or correctness.message:
            self._send(profile.name, "wrong", complaint, item)
            return None
        if profile.name in self.interpreted:
            self._send(profile.name, "skipped", INTERPRETED, item)
            return None
        return item

    def _make(self, subject: Subject, ring: Ring, recompiles: bool) -> Making:
        def call() -> Any:
            return subject.function(*ring.pristine(0))

        return making_of(call, again=self.clock.device == "cuda", recompiles=recompiles)

    def _peak_memory(self, subject: Subject, ring: Ring) -> int | None:
        arguments = ring.pristine(0)  # made before the call, and so no part of what it takes
        return self.clock.peak_memory_bytes(lambda: subject.function(*arguments))

    def _refuse_poison(self, problem: Exception) -> None:
        """A CUDA fault can make the whole process useless: then it ends here, of the fault that did it."""
        try:
            torch.zeros(1, device=self.clock.device).add_(1).item()
        except RuntimeError:
            raise problem from None

    def _check(self, profile: Profile, subject: Subject, ring: Ring) -> Correctness:
        operator = self.case.operator
        sets = [ring.arguments(index) for index in range(len(self.seeds))]
        with seen() as launched, interpreted() as by_the_interpreter:
            correctness = check_profile(
                operator, subject.function, sets, self.seeds, in_place=profile.in_place, edges=self._edges(profile)
            )
        if by_the_interpreter:
            self.interpreted.add(profile.name)
        own = self._own_kernel(profile)
        if own and launched.isdisjoint(one_of(own)) and correctness.passed:
            return replace(correctness, passed=False, message=FELL_BACK.format(own))
        return self._check_unannounced(profile, subject, correctness) if correctness.passed else correctness

    def _check_unannounced(self, profile: Profile, subject: Subject, correctness: Correctness) -> Correctness:
        operator, dtype = self.case.operator, getattr(torch, self.case.dtype)
        if not (found := unannounced_inputs(operator, self.case.shape, dtype, self.clock.device)):
            return correctness
        kind, arguments = found
        operator = forgiving(operator)
        for told in (kind, "one element was changed since the call before"):
            right = check_profile(operator, subject.function, [arguments], (), in_place=profile.in_place)
            if not right.passed:
                return replace(correctness, passed=False, message=f"inputs of which {told}: {right.message}")
            change_one(arguments)
        return correctness

    def _own_kernel(self, profile: Profile) -> str:
        """The kernel that a profile names and must launch on a GPU, or nothing."""
        return (profile.kernels or {}).get(self.case.operator.name, "") if self.clock.device == "cuda" else ""

    def _check_again(self, item: Ready, ring: Ring) -> None:
        """After the last round: does it still launch its kernel, or did it fall back once the checks were over?"""
        own = self._own_kernel(item.profile)
        if not own:
            return
        self.announce(item.profile.name, "verify")
        with seen() as launched:
            item.subject.function(*ring.arguments(0))
        ring.mend((0,))
        self.ran(item.profile.name)
        if launched.isdisjoint(one_of(own)):
            self.charged(item.profile.name, f"{FELL_BACK.format(own)} after it was timed")

    def _edges(self, profile: Profile) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """Answered once a run: new shapes and strides have to be compiled for, and what they test stays the same."""
        if (self.planned.name, self.case.name, profile.name) not in self.bench.edges:
            return ()
        dtype = getattr(torch, self.case.dtype)
        return edge_inputs(self.case.operator, self.case.shape, dtype, self.clock.device, own_form=profile.recompiles)

    def _time(self, ready: Mapping[str, Ready], ring: Ring) -> CaseTimings:
        subjects = {name: item.subject for name, item in ready.items()}
        if control := ready.get(self.planned_case.control):
            subjects[control.profile.name + AGAIN] = control.subject
        protocol = self.bench.plan.protocol
        timer = CaseTimer(self.clock, subjects, ring, self.scopes, protocol, self.shuffler, self)
        found = timer.time()
        for item in ready.values():
            self._check_again(item, ring)
        rounds = Rounds(experiment=self.planned.name, case=self.case.name, windows=found.windows)
        self.bench.emit("rounds", to_data(rounds))
        return found

    def _report(self, ready: Mapping[str, Ready], found: CaseTimings) -> None:
        name = self.planned_case.control
        if timings := found.timings.get(name + AGAIN):
            control = Control(
                experiment=self.planned.name, case=self.case.name, profile=name, sweep=self.bench.sweep,
                process=self.bench.process, timings=timings,
            )  # fmt: skip
            self.bench.emit("Control", to_data(control))
        for name, item in ready.items():
            timed = verdict(self.checks[name], item.correctness.seeds)
            item = replace(item, correctness=worse(item.correctness, timed))
            unmeasured = found.unmeasured[name]
            if "graph" in self.clock.scopes and {"graph"} & set(self.planned.scopes) - set(self.scopes):
                unmeasured = {**unmeasured, "graph": TOO_LARGE}
            left = next((reason for reason in unmeasured.values() if UNJOINED in reason), "")
            if complaint := self.charges.get(name, "") or left:
                self._send(name, "wrong", complaint, item)
            elif not timed.passed:
                self._send(name, "wrong", f"a timed output was wrong: {timed.message}", item)
            else:
                self._send(name, "measured", "", item, found.timings[name], unmeasured)

    def _send(
        self,
        profile: str,
        outcome: str,
        reason: str,
        item: Ready | None,
        timings: Any = (),
        unmeasured: Mapping[str, str] | None = None,
    ) -> None:
        cell = Cell(
            experiment=self.planned.name,
            case=self.case.name,
            profile=profile,
            sweep=self.bench.sweep,
            process=self.bench.process,
            outcome=outcome,
            reason=reason,
            prepare_seconds=item.making.seconds if item else 0.0,
            correctness=item.correctness if item else None,
            timings=timings,
            finished_utc=now(),
            unmeasured=unmeasured or {},
            compiled=item.making.compiled if item else (),
            compile_seconds=item.making.compile_seconds if item else None,
            autotune_seconds=item.making.autotune_seconds if item else None,
            compiled_blind=item.making.blind if item else "",
            peak_memory_bytes=item.peak_memory_bytes if item else None,
            left_behind=tuple(self.left.get(profile, ())),
        )
        self.bench.emit("Cell", to_data(cell))


def skip_reason(profile: Profile, device: str) -> str:
    """Why a profile cannot run here, or nothing."""
    if device not in profile.devices:
        needed, measured = ("a CUDA GPU", "the CPU") if device == "cpu" else ("a CPU", "a GPU")
        return f"needs {needed}, and this run measures {measured}"
    if profile.package and find_spec(profile.package) is None:
        extra = "models" if profile.package == "transformers" else "peers"
        return f"{profile.package} is not installed; the optional extra '{extra}' brings it"
    return missing_compiler() if profile.needs_nvcc else ""


def fault(problem: Exception) -> str:
    """An exception as one line without paths."""
    lines = str(problem).strip().splitlines()
    first = lines[0] if lines else ""
    return f"{type(problem).__name__}: {PATHS.sub('(path)', first)}"[:300]
