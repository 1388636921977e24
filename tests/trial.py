"""A case to be timed in tests: a clock that notes what it is asked, profiles that note their calls."""

import gc
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lab.definition.experiment import SCOPES
from lab.definition.plan import Protocol
from lab.worker.clock import Block, Call
from lab.worker.input_pool import InputPool
from lab.worker.measure import CaseTimer, CaseTimings, Checked, Observer, Subject

QUICK = Protocol(warmup_seconds=0.005, cell_seconds=1000.0)
INPUT = torch.rand((64, 8), generator=torch.Generator().manual_seed(1)) + 0.5
Profile = Callable[[Tensor], Any]


@dataclass
class Asked:
    """A block that the clock was asked for, and the calls of profiles in it as (profile, set, contents)."""

    scope: str
    calls: int
    spin_seconds: float
    timed: bool
    spin_hertz: float
    called: list[tuple[str, int, Tensor]] = field(default_factory=list)

    @property
    def profile(self) -> str:
        return self.called[0][0]

    @property
    def indices(self) -> list[int]:
        return [index for _, index, _ in self.called]


class Notebook:
    """A clock without a device that makes every call, notes each block, and says what it is told to say."""

    device = "cuda"
    scopes: tuple[str, ...] = SCOPES
    cache_bytes = 1

    def __init__(self, enqueue: Sequence[float] = (0.0,), void: int = 0, refuses: BaseException | None = None) -> None:
        self.asked: list[Asked] = []
        self._enqueue, self._void, self._refuses = itertools.cycle(enqueue), void, refuses

    def block(self, scope: str, calls: Sequence[Call], spin_seconds: float) -> Block:
        timed = not gc.isenabled() and len(calls) > 1
        hertz = 1e9 + len(self.asked) * 37 % 101
        self.asked.append(Asked(scope, len(calls), spin_seconds, timed, hertz))
        for call in calls:
            call.prepare()
            call.touch()
            call.done(call.run())
            call.ended()
        return Block((self.sample_seconds(),) * (len(calls) - self._void), self._void, hertz)

    def sample_seconds(self) -> float:
        return 1e-5

    def enqueue_seconds(self, calls: Sequence[Call]) -> list[float]:
        return [next(self._enqueue) for _ in calls]

    def capture(self, runs: Sequence[Callable[[], Any]]) -> "Replayed":
        if self._refuses:
            raise self._refuses
        return Replayed(runs)

    def properties(self) -> dict[str, Any]:
        return {}

    def floors(self) -> tuple[float, float]:
        return 2e-6, 1e-6

    def canary(self) -> tuple[float, float] | None:
        return None

    def peak_memory_bytes(self, run: Callable[[], Any]) -> int | None:
        return None

    def graph_pools(self) -> Mapping[tuple[int, int], int]:
        return {}

    def tampering(self) -> str:
        return ""

    @property
    def timed(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.timed]

    def rounds(self, blocks: int) -> list[list[Asked]]:
        return [self.timed[start : start + blocks] for start in range(0, len(self.timed), blocks)]


class Replayed:
    """Stands for a graph: the calls again, their results where the first ones were."""

    def __init__(self, runs: Sequence[Callable[[], Any]]) -> None:
        self._runs = runs
        self.outputs = [run() for run in runs]

    def replay(self) -> None:
        for output, run in zip(self.outputs, self._runs, strict=True):
            output.copy_(run())


class Trial(Observer):
    """A case whose profiles are to double their input: who called what, and what was told meanwhile."""

    def __init__(
        self,
        profiles: Mapping[str, Profile | Subject] | Sequence[str] = ("a", "b", "c"),
        clock: Any = None,
        sets: int = 5,
    ) -> None:
        self.clock = clock or Notebook()
        self.events: list[tuple[str, str, Any]] = []  # (what happened, profile, more)
        self.samples: list[tuple[str, str, Checked]] = []  # (profile, scope, sample)
        self.accused: list[tuple[str, str]] = []
        self.pool = InputPool([(INPUT.clone(), index) for index in range(sets)], random.Random(1))
        given = profiles if isinstance(profiles, Mapping) else dict.fromkeys(profiles, double)
        self.subjects = {name: self._noting(name, what) for name, what in given.items()}

    def _noting(self, name: str, what: Profile | Subject) -> Subject:
        subject = what if isinstance(what, Subject) else Subject(what)

        def function(x: Tensor, index: int) -> Any:
            self.events.append(("called", name, index))
            if isinstance(self.clock, Notebook) and self.clock.asked:
                self.clock.asked[-1].called.append((name, index, x.clone()))
            return subject.function(x)

        return Subject(function, subject.in_place)

    def announce(self, profile: str, stage: str) -> None:
        self.events.append(("announced", profile, stage))

    def checked(self, profile: str, scope: str, sample: Checked) -> None:
        self.events.append(("checked", profile, scope))
        self.samples.append((profile, scope, sample))

    def violation(self, profile: str, what: str) -> None:
        self.accused.append((profile, what))

    def profile_ran(self, profile: str) -> None:
        self.events.append(("ran", profile, None))

    def run(self, scopes: Sequence[str] = SCOPES, protocol: Protocol = QUICK, seed: int = 1) -> CaseTimings:
        shuffler = random.Random(seed)
        return CaseTimer(self.clock, self.subjects, self.pool, scopes, protocol, shuffler, self).time()

    def right(self, profile: str) -> set[bool]:
        """What the checked samples of a profile say about it."""
        samples = [sample for name, _, sample in self.samples if name == profile]
        return {torch.equal(sample.output, double(sample.arguments[0])) for sample in samples}


def double(x: Tensor) -> Tensor:
    return x * 2
