"""One case of one sweep in the measuring process: check every profile, time those that are right, report."""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from lab.definition.experiment import Case, Experiment, Profile, one_of
from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.evidence.codec import to_data
from lab.evidence.moment import now
from lab.evidence.record import Cell, Control, Correctness, Rounds, Sustained
from lab.worker.compiled import Compilation
from lab.worker.correctness import Check, check_output, verdict, worse
from lab.worker.faults import fault, not_on_a_cpu, skip_reason
from lab.worker.guard import Tampering
from lab.worker.input_pool import InputPool, copies, inputs_of
from lab.worker.launches import seen
from lab.worker.measure import CaseTimer, CaseTimings, Checked, Observer, Subject, rotation
from lab.worker.profile_checks import FELL_BACK, ProfileChecks
from lab.worker.sustained import sustained
from lab.worker.sweep_context import SweepContext

AGAIN = "(again)"  # the A/A control among the timed profiles; no profile can have this name
INTERPRETED = (
    "Triton's interpreter ran its kernels (TRITON_INTERPRET=1), whose times say nothing of a compiled one: unset "
    "TRITON_INTERPRET and measure on a GPU"
)
UNJOINED = "unjoined"
TOO_LARGE = "the graphs of all profiles would not fit the GPU's memory"
IN_PLACE = "it overwrites its inputs, which nothing puts right between calls that are back to back"


@dataclass(frozen=True, slots=True)
class Ready:
    """A profile that gave right results and may be timed."""

    profile: Profile
    subject: Subject
    compilation: Compilation
    correctness: Correctness
    peak_memory_bytes: int | None = None
    graph_memory_bytes: int | None = None


class SweepCase(Observer):
    """One case of one sweep: check every profile, time those that are right, send a record for each."""

    def __init__(
        self,
        context: SweepContext,
        planned: PlannedExperiment,
        planned_case: PlannedCase,
        experiment: Experiment,
        case: Case,
    ) -> None:
        self.context, self.planned, self.planned_case = context, planned, planned_case
        self.experiment, self.case = experiment, case
        self.clock = context.clock
        protocol = context.plan.protocol
        self.shuffler = random.Random(f"{context.plan.run_id}/{context.sweep}/{case.name}")
        self.seeds = tuple(self.shuffler.getrandbits(31) for _ in range(max(protocol.ring, protocol.seeds)))
        self.scopes = [scope for scope in planned.scopes if scope in context.clock.scopes]
        self.before = ProfileChecks(context, planned.name, case, self.seeds)
        self.checks: dict[str, list[Check]] = {}  # of timed outputs
        self.violations: dict[str, str] = {}  # what a profile did that no honest one does
        self.left: dict[str, list[str]] = {}  # settings that it changed, and that were put right

    def measure(self, todo: set[str]) -> None:
        profiles = [profile for profile in self.experiment.profiles if profile.name in todo]
        # The case before is not to blame for a crash from here on.
        self.announce(profiles[0].name, "inputs")
        try:
            with self.context.stage_timer("inputs"):
                pool = self._pool(len(profiles))
        except Exception as problem:  # such as no memory left: the case is lost, not the sweep
            self._lose(dict.fromkeys(profile.name for profile in profiles), f"inputs: {fault(problem)}")
            return
        if "torch._dynamo" in sys.modules:  # importing it takes seconds; without it nothing was compiled
            torch._dynamo.reset()
        with self.context.stage_timer("check"):
            prepared = [self._prepare(profile, pool) for profile in profiles]
        ready = {item.profile.name: item for item in prepared if item}
        if ready:
            try:
                with self.context.stage_timer("time"):
                    timings = self._time(ready, pool)
                lasting = self._sustained(ready, timings)
            except torch.OutOfMemoryError as problem:
                self._lose(ready, f"timing: {fault(problem)}")
                return
            self._report(ready, timings, lasting)

    def _lose(self, cells: Mapping[str, Ready | None], reason: str) -> None:
        """Give up the case for all profiles and blame none; the stage tells the supervisor so."""
        self.announce(next(iter(cells)), "inputs")
        for name, item in cells.items():
            self._send(name, "failed", reason, item)

    def announce(self, profile: str, stage: str) -> None:
        name = profile.removesuffix(AGAIN)
        self.context.emit("stage", [self.planned.name, self.case.name, name, stage])

    def checked(self, profile: str, scope: str, sample: Checked) -> None:
        if self.case.operator.costly_reference and profile.endswith(AGAIN):
            return  # the same function is checked under its own name
        check = check_output(self.case.operator, sample.output, sample.arguments)
        if check.problem:
            check = replace(check, problem=f"{check.problem} ({scope})")
        self.checks.setdefault(profile.removesuffix(AGAIN), []).append(check)

    def violation(self, profile: str, what: str) -> None:
        self.violations.setdefault(profile.removesuffix(AGAIN), what)

    def profile_ran(self, profile: str) -> None:
        # Both are always asked: the next profile would be blamed for what is not put right here.
        if violation := "; ".join(filter(None, (self.context.guard.broken(), self.clock.tampering()))):
            self.violation(profile, violation)
        left = self.left.setdefault(profile.removesuffix(AGAIN), [])
        left += [setting for setting in self.context.guard.left() if setting not in left]
        for owner, what in self.context.background.look(profile.removesuffix(AGAIN)):
            self.violation(owner, what)

    def before_call(self, profile: str) -> None:
        self.context.background.before_call(profile.removesuffix(AGAIN))

    def after_call(self, profile: str) -> None:
        self.context.background.after_call(profile.removesuffix(AGAIN))

    def samples_taken(self, profile: str, scope: str, seconds: tuple[float, ...], void: int) -> None:
        self.context.emit("block", [profile, scope, seconds, void])

    def _pool(self, profiles: int) -> InputPool:
        operator, protocol = self.case.operator, self.context.plan.protocol
        dtype = getattr(torch, self.case.dtype)
        sets = [inputs_of(operator, self.case.shape, dtype, self.clock.device, seed) for seed in self.seeds]
        # Its own: how often it is asked depends on the time that warming up takes, and the order must not.
        shuffler = random.Random(self.shuffler.getrandbits(64))
        if not {"graph", "eager"} & set(self.scopes):
            return InputPool(sets, shuffler)
        memory_bytes = int(self.clock.properties().get("memory_bytes", 0))
        cache_bytes = self.clock.cache_bytes
        count = rotation(self.planned_case, cache_bytes, memory_bytes, profiles, protocol.ring)
        if not count and "graph" in self.scopes:
            self.scopes.remove("graph")
        return InputPool(copies(sets, count), shuffler)

    def _prepare(self, profile: Profile, pool: InputPool) -> Ready | None:
        """Compile and check one profile; a profile that cannot be timed leaves its record here."""
        self.announce(profile.name, "check")
        if reason := skip_reason(profile, self.clock.device):
            self._send(profile.name, "skipped", reason, None)
            return None
        operator = self.case.operator
        function = self.context.functions[self.planned.name, operator.name, profile.name]
        if isinstance(function, Tampering):
            self._send(profile.name, "wrong", str(function), None)
            return None
        if isinstance(function, Exception):
            self._refuse(profile.name, function)
            return None
        subject = Subject(function, profile.in_place)
        try:
            pools = self.clock.graph_pools()
            compilation = self.before.compilation(profile, subject, pool)
            self.profile_ran(profile.name)  # before anything is judged: the judges themselves may have been replaced
            correctness = self.before.correctness(profile, subject, pool)
            peak_memory_bytes = self.before.peak_memory_bytes(subject, pool)
            graph_memory_bytes = None if peak_memory_bytes is None else self.before.graph_memory_bytes(pools)
        except Exception as problem:  # any fault of a profile is a record of its cell, not the end of the sweep
            self.profile_ran(profile.name)
            self._refuse_poison(problem)
            self._refuse(profile.name, problem)
            return None
        self.profile_ran(profile.name)
        item = Ready(profile, subject, compilation, correctness, peak_memory_bytes, graph_memory_bytes)
        if complaint := self.violations.get(profile.name, "") or correctness.message:
            self._send(profile.name, "wrong", complaint, item)
            return None
        if profile.name in self.before.interpreted:
            self._send(profile.name, "skipped", INTERPRETED, item)
            return None
        return item

    def _refuse(self, profile: str, problem: Exception) -> None:
        """Record a profile that raised an exception before it was timed."""
        if violation := self.violations.get(profile, ""):
            self._send(profile, "wrong", violation, None)
        elif reason := not_on_a_cpu(problem, self.clock.device):
            self._send(profile, "skipped", reason, None)
        else:
            self._send(profile, "failed", fault(problem), None)

    def _refuse_poison(self, problem: Exception) -> None:
        """A CUDA fault can make the whole process useless: raise it again, so that the process ends here."""
        try:
            torch.zeros(1, device=self.clock.device).add_(1).item()
        except RuntimeError:
            raise problem from None

    def _check_again(self, item: Ready, pool: InputPool) -> None:
        """After the last round: does it still launch its kernel, or did it fall back once the checks were over?"""
        own = self.before.own_kernel(item.profile)
        if not own:
            return
        self.announce(item.profile.name, "verify")
        with seen() as launched:
            item.subject.function(*pool.arguments(0))
        pool.mend((0,))
        self.profile_ran(item.profile.name)
        if launched.isdisjoint(one_of(own)):
            self.violation(item.profile.name, f"{FELL_BACK.format(own)} after it was timed")

    def _time(self, ready: Mapping[str, Ready], pool: InputPool) -> CaseTimings:
        subjects = {name: item.subject for name, item in ready.items()}
        if control := ready.get(self.planned_case.control):
            subjects[control.profile.name + AGAIN] = control.subject
        protocol = self.context.plan.protocol
        timer = CaseTimer(self.clock, subjects, pool, self.scopes, protocol, self.shuffler, self)
        timings = timer.time()
        for item in ready.values():
            self._check_again(item, pool)
        return timings

    def _sustained(self, ready: Mapping[str, Ready], case_timings: CaseTimings) -> dict[str, Sustained]:
        """Each profile back to back, where the plan asks for it: once, for it takes a second each.

        In random order, for the board grows hotter meanwhile.
        """
        if not self.planned_case.sustained or self.context.sweep or "graph" not in self.clock.scopes:
            return {}
        with self.context.stage_timer("sustain"):
            order = self.shuffler.sample(list(ready), len(ready))
            return {name: self._back_to_back(ready[name], case_timings) for name in order}

    def _back_to_back(self, item: Ready, case_timings: CaseTimings) -> Sustained:
        name = item.profile.name
        replay = case_timings.replays.get(name)
        if replay is None:
            return Sustained(reason=self._unmeasured(name, case_timings)["graph"])
        if item.profile.in_place:
            return Sustained(reason=IN_PLACE)
        self.announce(name, "sustain")
        (spaced,) = (timing for timing in case_timings.timings[name] if timing.scope == "graph")
        try:
            return sustained(self.clock, replay, spaced)
        except RuntimeError as problem:  # such as no memory left: what was timed in the rounds stays
            self._refuse_poison(problem)
            return Sustained(reason=fault(problem))

    def _unmeasured(self, profile: str, case_timings: CaseTimings) -> Mapping[str, str]:
        """By scope, why a profile has no time there."""
        reasons = case_timings.unmeasured[profile]
        if "graph" in self.clock.scopes and {"graph"} & set(self.planned.scopes) - set(self.scopes):
            return {**reasons, "graph": TOO_LARGE}
        return reasons

    def _report(self, ready: Mapping[str, Ready], case_timings: CaseTimings, lasting: Mapping[str, Sustained]) -> None:
        rounds = Rounds(experiment=self.planned.name, case=self.case.name, windows=case_timings.windows)
        self.context.emit("rounds", to_data(rounds))
        name = self.planned_case.control
        if timings := case_timings.timings.get(name + AGAIN):
            control = Control(
                experiment=self.planned.name, case=self.case.name, profile=name, sweep=self.context.sweep,
                process=self.context.process, timings=timings,
            )  # fmt: skip
            self.context.emit("Control", to_data(control))
        for name, item in ready.items():
            timed = verdict(self.checks[name], item.correctness.seeds)
            item = replace(item, correctness=worse(item.correctness, timed))
            unmeasured = self._unmeasured(name, case_timings)
            left = next((reason for reason in unmeasured.values() if UNJOINED in reason), "")
            if complaint := self.violations.get(name, "") or left:
                self._send(name, "wrong", complaint, item)
            elif not timed.passed:
                self._send(name, "wrong", f"a timed output was wrong: {timed.message}", item)
            else:
                self._send(name, "measured", "", item, case_timings.timings[name], unmeasured, lasting.get(name))

    def _send(
        self,
        profile: str,
        outcome: str,
        reason: str,
        item: Ready | None,
        timings: Any = (),
        unmeasured: Mapping[str, str] | None = None,
        lasting: Sustained | None = None,
    ) -> None:
        cell = Cell(
            experiment=self.planned.name,
            case=self.case.name,
            profile=profile,
            sweep=self.context.sweep,
            process=self.context.process,
            outcome=outcome,
            reason=reason,
            prepare_seconds=item.compilation.seconds if item else 0.0,
            correctness=item.correctness if item else None,
            timings=timings,
            finished_utc=now(),
            unmeasured=unmeasured or {},
            compiled=item.compilation.compiled if item else (),
            compile_seconds=item.compilation.compile_seconds if item else None,
            autotune_seconds=item.compilation.autotune_seconds if item else None,
            compiled_blind=item.compilation.blind if item else "",
            peak_memory_bytes=item.peak_memory_bytes if item else None,
            graph_memory_bytes=item.graph_memory_bytes if item else None,
            left_behind=tuple(self.left.get(profile, ())),
            sustained=lasting,
        )
        self.context.emit("Cell", to_data(cell))
