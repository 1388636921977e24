"""Looks for hooks, signal handlers and timers at the moment that the clock stops, before any of them can run code.

A hook, a signal handler or a timer that a call leaves behind can finish the work after the clock has stopped, and then
remove itself. So one C function runs the call, the clock around it and these checks: between the clock's stop and the
last check no Python code runs, and so no hook, handler or other thread.
"""

import _signal  # type: ignore[import-not-found]
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from operator import call
from typing import Any

Look = Callable[[], Any]
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
SIGNALS = sorted(int(number) for number in signal.valid_signals())
LOOKS: tuple[tuple[str, Look], ...] = (
    ("a profile hook", sys.getprofile),
    ("a trace hook", sys.gettrace),
    ("how often threads take turns", sys.getswitchinterval),
    *(("a timer", partial(_signal.getitimer, int(timer))) for timer in TIMERS),
    *(("a signal handler", partial(_signal.getsignal, number)) for number in SIGNALS),
    ("a garbage collector's callback", partial(tuple, gc.callbacks)),
)
END_HOOKS: tuple[Look, ...] = (partial(sys.setprofile, None), partial(sys.settrace, None))


class HookCheck:
    """The hooks, handlers and timers of this process; `tampering` says which of them a call has changed."""

    def __init__(self) -> None:
        looks = tuple(look for _, look in LOOKS)
        self._steps = looks + END_HOOKS
        self._usual = tuple(map(call, looks))
        self._names = tuple(name for name, _ in LOOKS)
        self._changed = ""

    def run(self, steps: Sequence[Look]) -> tuple[Any, ...]:
        """What each of the steps returned; the looks are taken after the last one, without a line of Python between."""
        results = tuple(map(call, (*steps, *self._steps)))
        self._compare(results[len(steps) : -len(END_HOOKS)])
        return results[: len(steps)]

    def tampering(self) -> str:
        """What changed since this was asked last; empty where nothing did."""
        changed, self._changed = self._changed, ""
        return f"left {changed} changed when the clock stopped" if changed else ""

    def _compare(self, seen: Sequence[Any]) -> None:
        if seen != self._usual:
            changed = (name for name, now, was in zip(self._names, seen, self._usual, strict=True) if now != was)
            self._changed = self._changed or next(changed, "a look")
            self._put_right()

    def _put_right(self) -> None:
        usual = dict(zip((name for name, _ in LOOKS), self._usual, strict=True))
        sys.setswitchinterval(usual["how often threads take turns"])
        for timer in TIMERS:
            _signal.setitimer(int(timer), 0.0)
        handlers = self._usual[-1 - len(SIGNALS) : -1]
        for number, handler in zip(SIGNALS, handlers, strict=True):
            if handler is not None and _signal.getsignal(number) != handler:
                _signal.signal(number, handler)
        gc.callbacks[:] = self._usual[-1]
