"""The protocol: how samples of the profiles of one case are taken, whatever the device.

Every profile gets one block per scope in every round; scopes and profiles come in random order. A series is the
samples of one profile in one scope. Of each series one call of the last round is checked, because work may be left out
after a while, and one of all others on average. Each is drawn after it has run.
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
from lab.worker.input_pool import Arguments, InputPool
from lab.worker.reservoir import Reservoir, below
from lab.worker.tensors import copied

WINDOW = 5
STEADY = 0.005
PACING_CALLS = 20
LARGEST_ROTATION = 96
MEMORY_SHARE = 1 / 3  # for the sets of a graph; the rest is for scratch, and for the float64 truths of the checks
SMALLER_BLOCKS = {"device_dirty": 4}  # what the first scope's block is divided by: no claim is judged by this one
CACHES_OUTGROWN = 3  # a graph goes round inputs and outputs of this many times the cache


@dataclass(frozen=True, slots=True)
class Subject:
    """A profile's function, and whether it overwrites its inputs."""

    function: Callable[..., Any]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """Copies of a timed call's output, and of what its inputs were: to be compared with the truth."""

    output: Any
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class CaseTimings:
    """What came of a case: timings by profile and scope, or why there are none; when its rounds ran; the graphs of the
    profiles that could be captured."""

    timings: Mapping[str, tuple[Timing, ...]]
    unmeasured: Mapping[str, Mapping[str, str]]
    windows: tuple[Window, ...]
    replays: Mapping[str, Replay]


class Observer:
    """Called by the timer while it runs. `checked` gets an output of a timed call; `violation` names a profile that did
    what no honest one does; `profile_ran` comes after warming up and after each block, when a profile's code has run;
    `before_call` and `after_call` come around each timed call; `samples_taken` gets the samples of a block, and how
    many were void, as soon as they are taken."""

    def announce(self, profile: str, stage: str) -> None: ...

    def checked(self, profile: str, scope: str, sample: Checked) -> None: ...

    def violation(self, profile: str, what: str) -> None: ...

    def profile_ran(self, profile: str) -> None: ...

    def before_call(self, profile: str) -> None: ...

    def after_call(self, profile: str) -> None: ...

    def samples_taken(self, profile: str, scope: str, seconds: tuple[float, ...], void: int) -> None: ...


@dataclass(slots=True)
class _Series:
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
        pool: InputPool,
        scopes: Sequence[str],
        protocol: Protocol,
        shuffler: random.Random,
        observer: Observer,
    ) -> None:
        self._clock = clock
        self._subjects = subjects
        self._pool = pool
        self._protocol = protocol
        self._shuffler = shuffler
        self._observer = observer
        self._scopes = [scope for scope in clock.scopes if scope in scopes]
        self._rounds = protocol.rounds
        self._series: dict[tuple[str, str], _Series] = {}
        self._unmeasured: dict[str, dict[str, str]] = {name: {} for name in subjects}

    def time(self) -> CaseTimings:
        for name in self._subjects:
            self._observer.announce(name, "time")
            self._pace(name)
            self._observer.profile_ran(name)
        windows = []
        with _garbage_collection_off():
            for number in range(self._rounds):
                windows.append(self._round(number))
        timings = {
            name: tuple(self._series[name, scope].timing for scope in self._scopes if (name, scope) in self._series)
            for name in self._subjects
        }
        replays = {name: series.replay for (name, _), series in self._series.items() if series.replay}
        return CaseTimings(timings, self._unmeasured, tuple(windows), replays)

    def _pace(self, name: str) -> None:
        """Warm a profile up; size the spin and the block of each of its series."""
        of_a_call: list[float] = []  # host times, which differ for a graph
        for scope in self._scopes:
            series = _Series(name, scope, self._indices(scope))
            if scope == "graph":
                try:
                    series.replay = self._capture(name)
                except Exception as refusal:  # of whatever kind: the other scopes may do without a graph
                    reason = str(refusal).strip() or type(refusal).__name__
                    self._unmeasured[name][scope] = reason.splitlines()[0][:200]
                    continue
            enqueue = of_a_call
            if scope == "graph" or not of_a_call:
                enqueue = self._enqueue_seconds(series)
                self._mend(series)
            if scope != "graph":
                of_a_call = enqueue
            if scope != "eager":
                series.enqueue_seconds = statistics.median(enqueue)
                # The slow tail, not the median: a launch that the host is late for is a lost sample.
                series.spin_seconds = max(self._protocol.shortest_spin_seconds, 1.5 * sorted(enqueue)[-2])
            self._series[name, scope] = series
            self._size_block(series, self._warm_up(series))

    def _enqueue_seconds(self, series: _Series) -> list[float]:
        """Host times of some calls; of fewer, where those take longer than all samples of a cell may."""
        began = time.perf_counter()
        seconds = self._clock.enqueue_seconds(self._calls(series, WINDOW))
        if time.perf_counter() - began < self._protocol.cell_seconds:
            seconds = [*seconds, *self._clock.enqueue_seconds(self._calls(series, PACING_CALLS - WINDOW))]
        return seconds

    def _size_block(self, series: _Series, sample_seconds: float) -> None:
        first = series.scope == self._scopes[0]
        share = 0.5 if len(self._scopes) > 1 else 1.0
        budget_seconds = self._protocol.cell_seconds * (share if first else share / (len(self._scopes) - 1))
        wanted = self._protocol.block // (1 if first else SMALLER_BLOCKS.get(series.scope, 2))
        fitting = int(budget_seconds / (self._protocol.rounds * sample_seconds))
        series.block = max(self._protocol.smallest_block, min(wanted, fitting))
        if series.block > fitting and first:
            self._rounds = self._protocol.fewest_rounds

    def _warm_up(self, series: _Series) -> float:
        """Run until three windows agree or time is up; seconds that one sample takes, all told."""
        began = time.perf_counter()
        limit_seconds = self._protocol.warmup_seconds / len(self._scopes)
        medians: list[float] = []
        while True:
            window_began = time.perf_counter()
            block = self._clock.block(series.scope, self._calls(series, WINDOW), series.spin_seconds)
            sample_seconds = (time.perf_counter() - window_began) / WINDOW
            self._mend(series)
            medians.append(statistics.median(block.seconds or (sample_seconds,)))
            steady = len(medians) >= 3 and max(medians[-3:]) <= min(medians[-3:]) * (1 + STEADY)
            if steady or time.perf_counter() - began > limit_seconds:
                return sample_seconds

    def _round(self, number: int) -> Window:
        begin = time.monotonic()
        hertz: list[float] = []
        for scope in self._shuffler.sample(self._scopes, len(self._scopes)):
            in_scope = [series for series in self._series.values() if series.scope == scope]
            for series in self._shuffler.sample(in_scope, len(in_scope)):
                block = self._block(series, number)
                if block.spin_hertz is not None:
                    hertz.append(block.spin_hertz)
        end = time.monotonic()
        return Window(begin_seconds=begin, end_seconds=end, spin_hertz=min(hertz, default=None))

    def _block(self, series: _Series, number: int) -> Block:
        draw: Reservoir[Checked] = Reservoir(self._rounds * series.block if number < self._rounds - 1 else 0)
        self._observer.announce(series.profile, "time")
        self._begin(series)
        start = self._shuffler.randrange(len(series.indices))
        block = self._clock.block(series.scope, self._calls(series, series.block, start, draw), series.spin_seconds)
        per_sample = len(series.replay.outputs) if series.replay else 1
        series.seconds.append(tuple(round(seconds / per_sample, 10) for seconds in block.seconds))
        series.void.append(block.void)
        self._observer.profile_ran(series.profile)
        self._observer.samples_taken(series.profile, series.scope, series.seconds[-1], block.void)
        if draw.kept:
            self._observer.announce(series.profile, "verify")
            self._observer.checked(series.profile, series.scope, draw.kept)
        self._mend(series)
        return block

    def _begin(self, series: _Series) -> None:
        """A call that is not timed, for scopes whose first call would find the cache unlike the others.

        What a graph does not write anew each time is NaN from here on.
        """
        if series.replay and not self._subjects[series.profile].in_place:
            for output in series.replay.outputs:
                poison(output)
        if series.scope in ("device_warm", "graph"):
            self._clock.block(series.scope, self._calls(series, 1), series.spin_seconds)

    def _mend(self, series: _Series) -> None:
        """Put the inputs right for the next profile, and tell who wrote to them without leave."""
        if self._pool.mend(series.indices) and not self._subjects[series.profile].in_place:
            self._observer.violation(series.profile, "an input was changed by a timed call")

    def _calls(self, series: _Series, count: int, start: int = 0, draw: Reservoir[Checked] | None = None) -> list[Call]:
        """Calls that go round a series's sets, and are offered to `draw`."""
        return [
            self._call(series, series.indices[(start + number) % len(series.indices)], draw) for number in range(count)
        ]

    def _call(self, series: _Series, index: int, draw: Reservoir[Checked] | None) -> Call:
        subject, pool, replay = self._subjects[series.profile], self._pool, series.replay

        def prepare() -> None:
            self._observer.before_call(series.profile)
            if replay and subject.in_place:
                pool.mend(series.indices)
            pool.prepare(index, restore=subject.in_place)

        def run() -> Any:
            if not replay:
                return subject.function(*pool.arguments(index))
            replay.replay()
            return replay.outputs[index]

        drawn = False

        def done(output: Any) -> None:
            nonlocal drawn
            self._observer.after_call(series.profile)
            if violation := deferred(output):
                self._observer.violation(series.profile, violation)
            drawn = draw is not None and draw.offer(lambda: self._copy(series, index, output))

        def ended() -> None:
            if drawn and series.scope == "device_warm":  # the copies took the inputs' place in the cache
                prepare()
                pool.touch(index)
                run()
            if draw is not None and series.scope == "device_cold":
                pool.mix(index)

        return Call(prepare, lambda: pool.touch(index), run, done, ended)

    def _copy(self, series: _Series, index: int, output: Any) -> Checked:
        """Of a graph, any of its calls: else a profile could leave out the work of those that never are checked."""
        if series.replay:
            index = below(len(series.replay.outputs))
            output = series.replay.outputs[index]
        return Checked(copied(output), self._pool.pristine(index))

    def _capture(self, name: str) -> Replay:
        subject = self._subjects[name]
        self._observer.announce(name, "time")
        return self._clock.capture(
            [_bind(subject.function, self._pool.arguments(index)) for index in self._indices("graph")]
        )

    def _indices(self, scope: str) -> Sequence[int]:
        if scope == "device_warm":
            return (0,)
        return range(self._protocol.ring if scope in ("device_cold", "device_dirty") else len(self._pool))


def rotation(case: PlannedCase, cache_bytes: int, memory_bytes: int, profiles: int, fewest: int) -> int:
    """How many input sets a graph goes round: enough to outgrow the cache, few enough to fit the memory.

    Each set has a shadow, and each profile, the control too, an output for every set. 0 where not even `fewest` fit.
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
