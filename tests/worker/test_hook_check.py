"""Hooks, handlers and timers that a call left are detected when the clock stops, and removed."""

import gc
import inspect
import signal
import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from torch import Tensor

from lab.kernels.hugging_face import ROTATE, attention_forward
from lab.worker.hook_check import HookCheck


def leave_profile_hook() -> None:
    sys.setprofile(lambda *_: None)


def leave_trace_hook() -> None:
    sys.settrace(lambda *_: None)


def leave_timer() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000.0)


def leave_handler() -> None:
    signal.signal(signal.SIGUSR2, lambda *_: None)


def leave_collector() -> None:
    gc.callbacks.append(lambda *_: None)


def leave_turns() -> None:
    sys.setswitchinterval(1e-6)


LEAVING: list[tuple[Callable[[], None], str]] = [
    (leave_profile_hook, "a profile hook"), (leave_trace_hook, "a trace hook"), (leave_timer, "a timer"),
    (leave_handler, "a signal handler"), (leave_collector, "a garbage collector's callback"),
    (leave_turns, "how often threads take turns"),
]  # fmt: skip


@pytest.mark.parametrize(("leave", "name"), LEAVING, ids=[name for _, name in LEAVING])
def test_what_a_call_leaves_is_named_and_put_right(leave: Callable[[], None], name: str) -> None:
    hooks = HookCheck()
    assert hooks.tampering() == ""
    hooks.run((time.perf_counter, leave, time.perf_counter))
    assert hooks.tampering() == f"left {name} changed when the clock stopped"
    hooks.run(())
    assert hooks.tampering() == ""


def test_a_hook_sees_nothing_of_what_follows_the_call_that_set_it() -> None:
    """It would finish the work after the clock's last call, and then be gone."""
    seen: list[str] = []

    def hook(frame: Any, event: str, argument: Any) -> None:
        seen.append(getattr(argument, "__name__", event))

    HookCheck().run((time.perf_counter, lambda: sys.setprofile(hook), time.perf_counter))
    assert "perf_counter" not in seen
    assert seen == ["return"] or seen == [], seen


def test_results_come_back_in_order() -> None:
    assert HookCheck().run((lambda: 1, lambda: 2)) == (1, 2)


def test_a_model_can_be_patched_under_the_hook() -> None:
    """A new function is made from a model's own, without an assignment that the hook would report."""
    assigned: list[str] = []
    armed = [True]
    events = ("object.__setattr__", "object.__delattr__")  # the second if the value is None
    sys.addaudithook(lambda event, what: assigned.append(what[1]) if armed and event in events else None)

    def forward(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, past_key_values: Any = None) -> Any:
        return apply_rotary_pos_emb(q, k, cos, sin)  # type: ignore[name-defined]  # noqa: F821

    own = FunctionType(forward.__code__, {ROTATE: lambda q, k, *_: (q, k)}, "forward")
    patched = inspect.unwrap(attention_forward(own))
    armed.clear()
    assert isinstance(patched, FunctionType)
    assert patched.__globals__[ROTATE] is not own.__globals__[ROTATE]
    assert not assigned
