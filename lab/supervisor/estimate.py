"""How long a run still takes, from what similar cells have cost. Pure: the caller passes the time."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from lab.supervisor.run_state import Key

# The share of a check's cost in sweep 0 that a later sweep has, until one was measured: edge inputs are checked once,
# and compiled code is reused unless every sweep has a fresh cache.
LATER_CHECK_SHARE = 0.15
FRESH_CHECK_SHARE = 0.6
EXPECTED_CELLS = 20


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Estimate:
    """Cells, grouped by cost. Checking costs differently with and without compiling for the shapes, and in sweep 0 and
    later sweeps; timing costs about the same in every sweep of a case.

    recompiled: cells whose profile is compiled for its shapes. fresh: whether every sweep compiles them again. idle:
    cells known to be skipped. after_seconds: the time after the sweeps.
    """

    ahead: set[tuple[int, Key]]
    idle: set[Key]
    recompiled: Collection[Key] = ()
    fresh: bool = False
    after_seconds: float = 0.0
    _checks: dict[tuple[bool, bool], _Mean] = field(default_factory=dict)  # by (recompiled, in sweep 0)
    _times: dict[tuple[str, str], _Mean] = field(default_factory=dict)  # by experiment and case
    _all_times: _Mean = field(default_factory=_Mean)

    def add(self, planned: Iterable[tuple[int, Key]]) -> None:
        self.ahead |= set(planned)

    def skip(self, sweep: int, key: Key) -> None:
        """Leave out a cell that is not run: it says nothing of how long the others take."""
        self.ahead.discard((sweep, key))
        self.idle.add(key)

    def take(self, sweep: int, key: Key, check_seconds: float, time_seconds: float) -> None:
        """A cell is measured."""
        self.ahead.discard((sweep, key))
        self._checks.setdefault((key in self.recompiled, sweep == 0), _Mean()).add(check_seconds)
        self._times.setdefault(key[:2], _Mean()).add(time_seconds)
        self._all_times.add(time_seconds)

    def left_seconds(self) -> float | None:
        """None where nothing has been measured yet."""
        if not self._all_times.count:
            return None
        checks = {(kind, first): self._check(kind, first) for kind in (False, True) for first in (False, True)}
        left = sum(
            checks[key in self.recompiled, sweep == 0] + self._time(key)
            for sweep, key in self.ahead
            if key not in self.idle
        )  # fmt: skip
        return left + self.after_seconds

    def _check(self, recompiled: bool, first: bool) -> float:
        """Of the same kind, or else of the other; what the other sweeps let expect weighs as much as some cells do, for
        the first few of a process are slow."""
        for kind in (recompiled, not recompiled):
            mean, others = (self._checks.get((kind, each), _Mean()) for each in (first, not first))
            if others.count == 0 and mean.count == 0:
                continue
            again = FRESH_CHECK_SHARE if kind and self.fresh else LATER_CHECK_SHARE
            expected = others.value * (1.0 if first else again)
            # Sweep 0 needs no other to tell what it costs.
            weight = EXPECTED_CELLS if others.count and not (first and mean.count) else 0
            return (mean.total + weight * expected) / (mean.count + weight)
        return 0.0

    def _time(self, key: Key) -> float:
        return self._times.get(key[:2], self._all_times).value


class CaseClock:
    """Where the time of the current case goes, from the stages that its worker announces."""

    def __init__(self) -> None:
        self._at: tuple[str, str] | None = None  # profile and stage
        self._since = 0.0
        self._check_seconds: dict[str, float] = {}
        self._time_seconds = 0.0

    def stage(self, profile: str, stage: str, now: float) -> None:
        self._close(now)
        self._at = (profile, stage)

    def finish(self, profiles: Collection[str], now: float) -> dict[str, tuple[float, float]]:
        """The records of these profiles have come: (seconds checking, seconds timing) of each, the latter shared."""
        self._close(now)
        timed = self._time_seconds / max(1, len(profiles))
        seconds = {name: (self._check_seconds.get(name, 0.0), timed) for name in profiles}
        self._check_seconds, self._time_seconds = {}, 0.0
        return seconds

    def _close(self, now: float) -> None:
        """Add the time since the last announcement to the stage that it announced."""
        if self._at:
            profile, stage = self._at
            if stage in ("time", "verify"):
                self._time_seconds += now - self._since
            else:  # calls back to back too: they come in sweep 0 alone, in which checking costs most
                self._check_seconds[profile] = self._check_seconds.get(profile, 0.0) + now - self._since
        self._at, self._since = None, now
