"""The protocol: how samples of the profiles of one case are taken, whatever the device.

Every profile gets one block per scope in every round; scopes and profiles come in random order. A lane is one
profile in one scope. Of each lane one call of the last round is checked, because work may be left out after a
while, and one of all others on average. Each is drawn after it has run.
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

from lab.definition.plan import PlannedCase, Protocol
from lab.evidence.record import Timing, Window
from lab.worker.clock import Block, Call, Clock, Replay, poison
from lab.worker.deferred import deferred
from lab.worker.draws import Draw, below
from lab.worker.ring import Arguments, Ring
from lab.worker.tensors import copied

Announce = Callable[[str], None]
WINDOW = 5
STEADY = 0.005
PACING_CALLS = 20
LARGEST_ROTATION = 96
MEMORY_SHARE = 1 / 3  # for the sets of a graph; the rest is for scratch, and for the float64 truths of the checks
SMALLER_BLOCKS = {"device_dirty": 4}  # what the first scope's block is divided by: no claim is judged by this one
CACHES_OUTGROWN = 3  # a graph goes round inputs and outputs of this many times the cache


@dataclass(frozen=True, slots=True)
class Subject:
    """A profile's function that may be timed: its results were right."""

    function: Callable[..., Any]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """Copies of a timed call's output, and of what its inputs were: to be compared with the truth."""

    output: Any
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class CaseTimings:
    """What came of a case: timings by profile and scope, or why there are none; when its rounds ran."""

    timings: Mapping[str, tuple[Timing, ...]]
    unmeasured: Mapping[str, Mapping[str, str]]
    windows: tuple[Window, ...]


class Witness:
    """What the protocol tells while it runs. `checked` gets outputs of timed calls; `charged` a profile that did
    what no honest one does; `ran` comes after warming up and after each block, when a profile's code has run;
    `calling` comes before a timed call and `called` after it; `taken` has the samples of a block and how many were
    void, at once and for good."""

    def announce(self, profile: str, stage: str) -> None: ...

    def checked(self, profile: str, scope: str, sample: Checked) -> None: ...

    def charged(self, profile: str, what: str) -> None: ...

    def ran(self, profile: str) -> None: ...

    def calling(self, profile: str) -> None: ...

    def called(self, profile: str) -> None: ...

    def taken(self, profile: str, scope: str, seconds: tuple[float, ...], void: int) -> None: ...


@dataclass(slots=True)
class _Lane:
    """One profile in one scope: how its samples are made, and those that were taken."""

    profile: str
    scope: str
    indices: Sequence[int]  # the sets that its calls go round
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
        of_a_call: list[float] = []  # host times, which differ for a graph
        for scope in self._scopes:
            lane = _Lane(name, scope, self._indices(scope))
            if scope == "graph":
                try:
                    lane.replay = self._capture(name)
                except Exception as refusal:  # of whatever kind: the other scopes may do without a graph
                    reason = str(refusal).strip() or type(refusal).__name__
                    self._unmeasured[name][scope] = reason.splitlines()[0][:200]
                    continue
            enqueue = of_a_call
            if scope == "graph" or not of_a_call:
                enqueue = self._clock.enqueue_seconds(self._calls(lane, PACING_CALLS))
                self._mend(lane)
            if scope != "graph":
                of_a_call = enqueue
            if scope != "eager":
                lane.enqueue_seconds = statistics.median(enqueue)
                # The slow tail, not the median: a launch that the host is late for is a lost sample.
                lane.spin_seconds = max(self._protocol.shortest_spin_seconds, 1.5 * sorted(enqueue)[-2])
            self._lanes[name, scope] = lane
            self._size_block(lane, self._warm_up(lane))

    def _size_block(self, lane: _Lane, sample_seconds: float) -> None:
        first = lane.scope == self._scopes[0]
        share = 0.5 if len(self._scopes) > 1 else 1.0
        budget_seconds = self._protocol.cell_seconds * (share if first else share / (len(self._scopes) - 1))
        wanted = self._protocol.block // (1 if first else SMALLER_BLOCKS.get(lane.scope, 2))
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
        end = time.monotonic()
        return Window(begin_seconds=begin, end_seconds=end, spin_hertz=min(hertz, default=None))

    def _block(self, lane: _Lane, number: int) -> Block:
        draw: Draw[Checked] = Draw(self._rounds * lane.block if number < self._rounds - 1 else 0)
        self._witness.announce(lane.profile, "time")
        self._begin(lane)
        start = self._shuffler.randrange(len(lane.indices))
        block = self._clock.block(lane.scope, self._calls(lane, lane.block, start, draw), lane.spin_seconds)
        per_sample = len(lane.replay.outputs) if lane.replay else 1
        lane.seconds.append(tuple(round(seconds / per_sample, 10) for seconds in block.seconds))
        lane.void.append(block.void)
        self._witness.ran(lane.profile)
        self._witness.taken(lane.profile, lane.scope, lane.seconds[-1], block.void)
        if draw.kept:
            self._witness.announce(lane.profile, "verify")
            self._witness.checked(lane.profile, lane.scope, draw.kept)
        self._mend(lane)
        return block

    def _begin(self, lane: _Lane) -> None:
        """A call that is not timed, for scopes whose first call would find the cache unlike the others.

        What a graph does not write anew each time is NaN from here on.
        """
        if lane.replay and not self._subjects[lane.profile].in_place:
            for output in lane.replay.outputs:
                poison(output)
        if lane.scope in ("device_warm", "graph"):
            self._clock.block(lane.scope, self._calls(lane, 1), lane.spin_seconds)

    def _mend(self, lane: _Lane) -> None:
        """Put the inputs right for the next profile, and tell who wrote to them without leave."""
        if self._ring.mend(lane.indices) and not self._subjects[lane.profile].in_place:
            self._witness.charged(lane.profile, "an input was changed by a timed call")

    def _calls(self, lane: _Lane, count: int, start: int = 0, draw: Draw[Checked] | None = None) -> list[Call]:
        """Calls that go round a lane's sets, and are offered to `draw`."""
        return [self._call(lane, lane.indices[(start + number) % len(lane.indices)], draw) for number in range(count)]

    def _call(self, lane: _Lane, index: int, draw: Draw[Checked] | None) -> Call:
        subject, ring, replay = self._subjects[lane.profile], self._ring, lane.replay

        def prepare() -> None:
            self._witness.calling(lane.profile)
            if replay and subject.in_place:
                ring.mend(lane.indices)
            ring.prepare(index, restore=subject.in_place)

        def run() -> Any:
            if not replay:
                return subject.function(*ring.arguments(index))
            replay.replay()
            return replay.outputs[index]

        def done(output: Any) -> None:
            self._witness.called(lane.profile)
            if found := deferred(output):
                self._witness.charged(lane.profile, found)
            drawn = draw is not None and draw.offer(lambda: self._copy(lane, index, output))
            if drawn and lane.scope == "device_warm":  # the copies took the inputs' place in the cache
                prepare()
                ring.touch(index)
                run()
            if draw is not None and lane.scope == "device_cold":
                ring.mix(index)

        return Call(prepare, lambda: ring.touch(index), run, done)

    def _copy(self, lane: _Lane, index: int, output: Any) -> Checked:
        """Of a graph, any of its calls: else a profile could leave out the work of those that never are checked."""
        if lane.replay:
            index = below(len(lane.replay.outputs))
            output = lane.replay.outputs[index]
        return Checked(copied(output), self._ring.pristine(index))

    def _capture(self, name: str) -> Replay:
        subject = self._subjects[name]
        self._witness.announce(name, "time")
        return self._clock.capture(
            [_bind(subject.function, self._ring.arguments(index)) for index in self._indices("graph")]
        )

    def _indices(self, scope: str) -> Sequence[int]:
        if scope == "device_warm":
            return (0,)
        return range(self._protocol.ring if scope in ("device_cold", "device_dirty") else len(self._ring))


def rotation(case: PlannedCase, cache_bytes: int, memory_bytes: int, profiles: int, fewest: int) -> int:
    """How many input sets a graph goes round: enough to outgrow the cache, few enough to fit the memory.

    Each set has a twin, and each profile, the control too, an output for every set. 0 where not even `fewest` fit.
    """
    wanted = math.ceil(CACHES_OUTGROWN * cache_bytes / case.least_bytes)
    set_bytes = 2 * case.read_bytes + (profiles + 1) * case.written_bytes
    fitting = int(MEMORY_SHARE * memory_bytes) // set_bytes if memory_bytes else fewest
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
