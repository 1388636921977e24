"""The protocol: how samples of the profiles of one case are taken, whatever the device.

Every profile gets one block per scope in every round; scopes and profiles come in random order. A lane is one
profile in one scope. Of each lane a call or two, drawn beforehand in secret, are checked.
"""

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.clock import Block, Call, Clock, Replay, poison
from lab.plan import Protocol
from lab.record import Timing
from lab.ring import Arguments, Ring

Announce = Callable[[str], None]
WINDOW = 5
STEADY = 0.005
PACING_CALLS = 20
LARGEST_ROTATION = 96
CACHES_OUTGROWN = 3  # a graph goes round inputs and outputs of this many times the cache


@dataclass(frozen=True, slots=True)
class Subject:
    """A profile's function that may be timed: its results were right."""

    function: Callable[..., Any]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """A timed call's output, and what its inputs were: to be compared with the truth."""

    output: Any
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Window:
    """When a round ran, by time.monotonic, and the lowest clock that its spins showed."""

    begin_seconds: float
    end_seconds: float
    spin_hertz: float | None


@dataclass(frozen=True, slots=True)
class CaseTimings:
    """What came of a case: timings by profile and scope, or why there are none; when its rounds ran."""

    timings: Mapping[str, tuple[Timing, ...]]
    unmeasured: Mapping[str, Mapping[str, str]]
    windows: tuple[Window, ...]


class Witness:
    """What the protocol tells while it runs. `checked` gets outputs of timed calls; `written` a profile that
    changed its inputs; `ran` comes after warming up and after each block, when a profile's code has run."""

    def announce(self, profile: str, stage: str) -> None: ...

    def checked(self, profile: str, scope: str, sample: Checked) -> None: ...

    def written(self, profile: str) -> None: ...

    def ran(self, profile: str) -> None: ...


@dataclass(slots=True)
class _Lane:
    """One profile in one scope: how its samples are made, and those that were taken."""

    profile: str
    scope: str
    indices: Sequence[int]  # the sets that its calls go round
    checked_rounds: frozenset[int] = frozenset()
    spin_seconds: float = 0.0
    enqueue_seconds: float = 0.0
    block: int = 0
    replay: Replay | None = None
    seconds: list[tuple[float, ...]] = field(default_factory=list)
    void: list[int] = field(default_factory=list)

    @property
    def timing(self) -> Timing:
        return Timing(
            scope=self.scope,
            rounds=tuple(self.seconds),
            void=tuple(self.void),
            enqueue_seconds=round(self.enqueue_seconds, 10),
            spin_seconds=round(self.spin_seconds, 10),
            calls_per_sample=len(self.replay.outputs) if self.replay else 1,
        )


class CaseTimer:
    """Times all profiles of one case. `time()` runs it to the end."""

    def __init__(
        self,
        clock: Clock,
        subjects: Mapping[str, Subject],
        ring: Ring,
        scopes: Sequence[str],
        protocol: Protocol,
        shuffler: random.Random,
        witness: Witness,
    ) -> None:
        self._clock = clock
        self._subjects = subjects
        self._ring = ring
        self._protocol = protocol
        self._shuffler = shuffler
        self._witness = witness
        self._scopes = [scope for scope in clock.scopes if scope in scopes]
        self._rounds = protocol.rounds
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._unmeasured: dict[str, dict[str, str]] = {name: {} for name in subjects}

    def time(self) -> CaseTimings:
        for name in self._subjects:
            self._witness.announce(name, "time")
            self._pace(name)
            self._witness.ran(name)
        for lane in self._lanes.values():
            lane.checked_rounds = frozenset(self._draw_rounds(lane.scope))
        windows = []
        with _garbage_collection_off():
            for number in range(self._rounds):
                windows.append(self._round(number))
        timings = {
            name: tuple(self._lanes[name, scope].timing for scope in self._scopes if (name, scope) in self._lanes)
            for name in self._subjects
        }
        return CaseTimings(timings, self._unmeasured, tuple(windows))

    def _pace(self, name: str) -> None:
        """Warm a profile up; size the spin and the block of each of its lanes."""
        enqueue: list[float] = []
        for scope in self._scopes:
            lane = _Lane(name, scope, self._indices(scope))
            if scope == "graph":
                try:
                    lane.replay = self._capture(name)
                except RuntimeError as refusal:
                    reason = str(refusal).strip() or type(refusal).__name__
                    self._unmeasured[name][scope] = reason.splitlines()[0][:200]
                    continue
            if scope == "graph" or not enqueue:
                enqueue = self._clock.enqueue_seconds(self._calls(lane, PACING_CALLS))
                self._mend(lane)
            if scope != "eager":
                lane.enqueue_seconds = statistics.median(enqueue)
                # The slow tail, not the median: a launch that the host is late for is a lost sample.
                lane.spin_seconds = max(self._protocol.shortest_spin_seconds, 1.5 * sorted(enqueue)[-2])
            self._lanes[name, scope] = lane
            self._size_block(lane, self._warm_up(lane))

    def _draw_rounds(self, scope: str) -> Iterator[int]:
        """A round at random; of the first scope also the last, for work that is skipped after a while."""
        yield self._shuffler.randrange(self._rounds)
        if scope == self._scopes[0]:
            yield self._rounds - 1

    def _size_block(self, lane: _Lane, sample_seconds: float) -> None:
        first = lane.scope == self._scopes[0]
        share = 0.5 if len(self._scopes) > 1 else 1.0
        budget_seconds = self._protocol.cell_seconds * (share if first else share / (len(self._scopes) - 1))
        wanted = self._protocol.block if first else self._protocol.block // 2
        fitting = int(budget_seconds / (self._protocol.rounds * sample_seconds))
        lane.block = max(self._protocol.smallest_block, min(wanted, fitting))
        if lane.block > fitting and first:
            self._rounds = self._protocol.fewest_rounds

    def _warm_up(self, lane: _Lane) -> float:
        """Run until three windows agree or time is up; seconds that one sample takes, all told."""
        began = time.perf_counter()
        limit_seconds = self._protocol.warmup_seconds / len(self._scopes)
        medians: list[float] = []
        while True:
            window_began = time.perf_counter()
            block = self._clock.block(lane.scope, self._calls(lane, WINDOW), lane.spin_seconds)
            sample_seconds = (time.perf_counter() - window_began) / WINDOW
            self._mend(lane)
            medians.append(statistics.median(block.seconds or (sample_seconds,)))
            steady = len(medians) >= 3 and max(medians[-3:]) <= min(medians[-3:]) * (1 + STEADY)
            if steady or time.perf_counter() - began > limit_seconds:
                return sample_seconds

    def _round(self, number: int) -> Window:
        begin = time.monotonic()
        hertz: list[float] = []
        for scope in self._shuffler.sample(self._scopes, len(self._scopes)):
            lanes = [lane for lane in self._lanes.values() if lane.scope == scope]
            for lane in self._shuffler.sample(lanes, len(lanes)):
                block = self._block(lane, number)
                if block.spin_hertz is not None:
                    hertz.append(block.spin_hertz)
        return Window(begin, time.monotonic(), min(hertz, default=None))

    def _block(self, lane: _Lane, number: int) -> Block:
        keep = self._shuffler.randrange(lane.block) if number in lane.checked_rounds else -1
        held: list[Arguments] = []
        self._witness.announce(lane.profile, "time")
        if lane.scope == "device_warm":  # the first call would find the cache cold
            self._clock.block(lane.scope, self._calls(lane, 1), lane.spin_seconds)
        # Begun anywhere, so that any call of a graph may be checked.
        start = self._shuffler.randrange(len(lane.indices))
        calls = self._calls(lane, lane.block, start, keep, held)
        block = self._clock.block(lane.scope, calls, lane.spin_seconds, keep)
        per_sample = len(lane.replay.outputs) if lane.replay else 1
        lane.seconds.append(tuple(round(seconds / per_sample, 10) for seconds in block.seconds))
        lane.void.append(block.void)
        self._witness.ran(lane.profile)
        if held:
            self._witness.announce(lane.profile, "verify")
            self._witness.checked(lane.profile, lane.scope, Checked(block.kept, held[0]))
        self._mend(lane)
        return block

    def _mend(self, lane: _Lane) -> None:
        """Put the inputs right for the next profile, and tell who wrote to them without leave."""
        if self._ring.mend(lane.indices) and not self._subjects[lane.profile].in_place:
            self._witness.written(lane.profile)

    def _calls(
        self, lane: _Lane, count: int, start: int = 0, keep: int = -1, held: list[Arguments] | None = None
    ) -> list[Call]:
        """Calls that go round a lane's sets. Number `keep` puts a copy of its inputs, as they must be, into `held`."""
        return [
            self._call(lane, lane.indices[(start + number) % len(lane.indices)], held if number == keep else None)
            for number in range(count)
        ]

    def _call(self, lane: _Lane, index: int, held: list[Arguments] | None) -> Call:
        subject, ring, replay = self._subjects[lane.profile], self._ring, lane.replay

        def prepare() -> None:
            if replay and subject.in_place:
                ring.mend(lane.indices)
            ring.prepare(index, restore=subject.in_place)
            if held is not None:
                held.append(ring.pristine(index))
                if replay and not subject.in_place:
                    poison(replay.outputs[index])

        def run() -> Any:
            if not replay:
                return subject.function(*ring.arguments(index))
            replay.replay()
            return replay.outputs[index]

        return Call(prepare, lambda: ring.touch(index), run)

    def _capture(self, name: str) -> Replay:
        subject = self._subjects[name]
        self._witness.announce(name, "time")
        return self._clock.capture(
            [_bind(subject.function, self._ring.arguments(index)) for index in self._indices("graph")]
        )

    def _indices(self, scope: str) -> Sequence[int]:
        if scope == "device_warm":
            return (0,)
        return range(self._protocol.ring if scope == "device_cold" else len(self._ring))


def rotation(least_bytes: int, cache_bytes: int, memory_bytes: int, profiles: int, fewest: int) -> int:
    """How many input sets a graph goes round: enough to outgrow the cache, few enough to fit the memory.

    Each set has a twin, and each profile an output for every set, and scratch. 0 where not even `fewest` fit.
    """
    wanted = math.ceil(CACHES_OUTGROWN * cache_bytes / least_bytes)
    fitting = memory_bytes // (4 * least_bytes * (profiles + 2)) if memory_bytes else fewest
    return max(fewest, min(wanted, fitting, LARGEST_ROTATION)) if fitting >= fewest else 0


def _bind(function: Callable[..., Any], arguments: Arguments) -> Callable[[], Any]:
    return lambda: function(*arguments)


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
